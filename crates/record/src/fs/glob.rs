//! Patterns of paths as users write them, and ignore files, which are lists of such patterns.
//!
//! `*` is any text within one part of a path, `**` any number of parts, `?` one ASCII character and
//! `[a-z]` one of these. Braces have no meaning, as in a shell's file names and in ignore files.

use std::{io, path::Path};

use globset::{GlobBuilder, GlobMatcher};

/// A compiled pattern. An invalid one matches nothing.
#[derive(Clone, Debug)]
pub struct Pattern {
    matcher: Option<GlobMatcher>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern {
            matcher: compile(text).ok(),
        }
    }

    /// Whether the pattern matches a whole path, with `/` between its parts.
    pub fn matches(&self, path: &str) -> bool {
        let matcher = self.matcher.as_ref();
        matcher.is_some_and(|matcher| matcher.is_match(path))
    }
}

/// Whether `text` contains any character that makes it a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn compile(text: &str) -> Result<GlobMatcher, globset::Error> {
    let parts = text.split('/').filter(|part| !matches!(*part, "" | "."));
    let clean = parts.collect::<Vec<_>>().join("/");
    let glob = GlobBuilder::new(&without_alternatives(&clean))
        .literal_separator(true)
        .backslash_escape(true)
        .build()?;
    Ok(glob.compile_matcher())
}

/// Escapes braces outside of `[…]`: they would be alternatives.
fn without_alternatives(pattern: &str) -> String {
    let mut escaped = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if !in_class => escaped.push('\\'),
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        escaped.push(c);
        if c == '\\' && !in_class {
            escaped.extend(rest.next());
        }
    }
    escaped
}

/// The dialects of ignore files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreSyntax {
    /// `.dockerignore`: every pattern starts at the root.
    Docker,
    /// `.gitignore`: a pattern without a slash is a name, in any directory.
    Git,
}

/// An ignore file.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    rules: Vec<GlobRule>,
}

#[derive(Clone, Debug)]
struct GlobRule {
    matcher: GlobMatcher,
    is_exception: bool,
}

impl Ignore {
    /// Parses the text of an ignore file. As in git, an invalid pattern of a `.gitignore` matches nothing.
    fn parse(text: &str, syntax: IgnoreSyntax) -> Result<Ignore, globset::Error> {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.map(|line| rule(line, syntax));
        let rules = rules.filter(|rule| rule.is_ok() || syntax == IgnoreSyntax::Docker);
        Ok(Ignore {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Reads the ignore file at `path`. A missing file ignores nothing.
    pub fn read(path: &Path, syntax: IgnoreSyntax) -> io::Result<Ignore> {
        match fs_err::read_to_string(path) {
            Ok(text) => Ignore::parse(&text, syntax)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ignore::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether `path` or a directory above it is ignored. The last matching rule decides.
    pub fn has(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at);
        let prefixes: Vec<&str> = ends.chain([path.len()]).map(|end| &path[..end]).collect();
        let matches =
            |rule: &&GlobRule| prefixes.iter().any(|prefix| rule.matcher.is_match(prefix));
        let last = self.rules.iter().rev().find(matches);
        last.is_some_and(|rule| !rule.is_exception)
    }

    /// Whether files below an ignored directory can be included again.
    pub fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.is_exception)
    }
}

fn rule(line: &str, syntax: IgnoreSyntax) -> Result<GlobRule, globset::Error> {
    let (is_exception, line) = match line.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, line),
    };
    let is_name = !line.trim_end_matches('/').contains('/');
    let matcher = if syntax == IgnoreSyntax::Git && is_name {
        compile(&format!("**/{line}"))?
    } else {
        compile(line)?
    };
    Ok(GlobRule {
        matcher,
        is_exception,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expected: bool) {
        assert_eq!(
            Pattern::new(pattern).matches(path),
            expected,
            "{pattern} {path}"
        );
    }

    #[test]
    fn names_match_their_patterns() {
        for (pattern, name) in [
            ("*", "a.yaml"),
            ("*.yaml", "a.yaml"),
            ("a*b*c", "a-b-b-c"),
            ("a", "a"),
            ("?[a-c][!x]", "zby"),
            ("\\*", "*"),
            ("*é*", "café"),
        ] {
            check(pattern, name, true);
        }
        for (pattern, name) in [
            ("*.yaml", "a.json"),
            ("a*b", "ac"),
            ("a", "ab"),
            ("?", ""),
            ("[a-c]", "d"),
            ("[ab", "a"),
        ] {
            check(pattern, name, false);
        }
    }

    #[test]
    fn star_matches_within_one_part_and_two_stars_across_parts() {
        check("a/*", "a/b", true);
        check("a/*", "a/b/c", false);
        check("a/**/c", "a/c", true);
        check("a/**/c", "a/b/b/c", true);
        check("./a/", "a", true);
    }

    #[test]
    fn braces_are_ordinary_characters() {
        check("{a,b}", "a", false);
        check("{a,b}", "{a,b}", true);
        check("*{{x}}*", "page-{{x}}.html", true);
        check("[{}]", "{", true);
        check("\\{a", "{a", true);
    }

    #[test]
    fn many_stars_do_not_backtrack() {
        let text = "a".repeat(5_000);
        check(&format!("{}b", "*a".repeat(6)), &text, false);
        check("*a*a*a*a*a*a*", &text, true);
    }

    #[track_caller]
    fn check_ignored(ignore: &str, path: &str, expected: bool) {
        let ignore = Ignore::parse(ignore, IgnoreSyntax::Docker).unwrap();
        assert_eq!(ignore.has(path), expected, "{path}");
    }

    #[test]
    fn dockerignore_patterns_start_at_the_root_and_the_last_match_decides() {
        let check = check_ignored;
        check("*.log", "a.log", true);
        check("*.log", "sub/a.log", false);
        check("**/*.log", "sub/deep/a.log", true);
        check("**/*.log", "a.log", true);
        check("node_modules", "node_modules/x/y", true);
        check("/build/", "build/x", true);
        check("# note\n\n*\n!src\n", "src/main.rs", false);
        check("*\n!src\n", "other", true);
        check("*\n!src\nsrc/secret", "src/secret", true);
        check("# x\n*.md\n!README.md\n", "README.md", false);
        check("", "anything", false);
    }

    #[test]
    fn invalid_pattern_is_an_error_for_docker_and_matches_nothing_for_git() {
        assert!(Ignore::parse("[ab", IgnoreSyntax::Docker).is_err());
        let ignore = Ignore::parse("[ab\nc", IgnoreSyntax::Git).unwrap();
        assert!(!ignore.has("a") && !ignore.has("[ab") && ignore.has("c"));
    }

    #[test]
    fn name_in_a_gitignore_matches_in_every_directory() {
        let ignore = Ignore::parse("__pycache__/\n/top\n", IgnoreSyntax::Git).unwrap();
        assert!(ignore.has("a/__pycache__/b.pyc"));
        assert!(ignore.has("top"));
        assert!(!ignore.has("a/top"));
        assert!(!ignore.has_exceptions());
    }
}
