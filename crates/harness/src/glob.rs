//! Patterns as users write them: `*` is any text within one part of a path, `**` any parts,
//! `?` one character, `[a-z]` one of these. Ignore files are lists of such patterns.

use std::path::Path;

/// Whether `name`, one part of a path, is what `pattern` says.
pub fn matches_name(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    part(&pattern, &name)
}

/// Whether `path`, with `/` between its parts, is what `pattern` says.
pub fn matches_path(pattern: &str, path: &str) -> bool {
    let split = |text: &str| -> Vec<Vec<char>> {
        let parts = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".");
        parts.map(|part| part.chars().collect()).collect()
    };
    parts(&split(pattern), &split(path))
}

/// Whether `text` has anything in it that makes it a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn parts(pattern: &[Vec<char>], path: &[Vec<char>]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((first, rest)) if first.as_slice() == ['*', '*'] => {
            (0..=path.len()).any(|skipped| parts(rest, &path[skipped..]))
        }
        Some((first, rest)) => path
            .split_first()
            .is_some_and(|(name, below)| part(first, name) && parts(rest, below)),
    }
}

fn part(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', rest)) => (0..=name.len()).any(|taken| part(rest, &name[taken..])),
        Some(('?', rest)) => !name.is_empty() && part(rest, &name[1..]),
        Some(('[', rest)) => match (class(rest), name.split_first()) {
            (Some((set, rest)), Some((c, below))) => set.has(*c) && part(rest, below),
            _ => false,
        },
        Some(('\\', rest)) if !rest.is_empty() => literal(rest[0], &rest[1..], name),
        Some((c, rest)) => literal(*c, rest, name),
    }
}

fn literal(c: char, rest: &[char], name: &[char]) -> bool {
    name.first() == Some(&c) && part(rest, &name[1..])
}

/// What stands between `[` and `]`.
struct Class<'a> {
    is_negated: bool,
    chars: &'a [char],
}

impl Class<'_> {
    fn has(&self, c: char) -> bool {
        let mut at = 0;
        let mut found = false;
        while at < self.chars.len() {
            if at + 2 < self.chars.len() && self.chars[at + 1] == '-' {
                found |= (self.chars[at]..=self.chars[at + 2]).contains(&c);
                at += 3;
            } else {
                found |= self.chars[at] == c;
                at += 1;
            }
        }
        found != self.is_negated
    }
}

fn class(text: &[char]) -> Option<(Class<'_>, &[char])> {
    let is_negated = matches!(text.first(), Some('!' | '^'));
    let text = if is_negated { &text[1..] } else { text };
    let end = text.iter().skip(1).position(|c| *c == ']')? + 1;
    let chars = &text[..end];
    Some((Class { is_negated, chars }, &text[end + 1..]))
}

/// How the patterns of an ignore file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreSyntax {
    /// `.dockerignore`: every pattern starts at the root.
    Docker,
    /// `.gitignore`: a pattern without a slash is a name, anywhere.
    Git,
}

/// An ignore file.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: String,
    keeps: bool,
}

impl Ignore {
    /// Read the text of an ignore file.
    pub fn parse(text: &str, syntax: IgnoreSyntax) -> Ignore {
        let lines = text.lines().map(str::trim);
        let rules = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| rule(line, syntax));
        Ignore {
            rules: rules.collect(),
        }
    }

    /// The ignore file at `path`; none is one without patterns.
    pub fn read(path: &Path, syntax: IgnoreSyntax) -> std::io::Result<Ignore> {
        match fs_err::read_to_string(path) {
            Ok(text) => Ok(Ignore::parse(&text, syntax)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ignore::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether `path` is left out, by itself or with a folder above it. The last word counts.
    pub fn has(&self, path: &str) -> bool {
        let mut ignored = false;
        for rule in &self.rules {
            if prefixes(path).any(|prefix| matches_path(&rule.pattern, prefix)) {
                ignored = !rule.keeps;
            }
        }
        ignored
    }

    /// Whether something below an ignored folder may be wanted all the same.
    pub fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.keeps)
    }
}

fn rule(line: &str, syntax: IgnoreSyntax) -> Rule {
    let (keeps, line) = match line.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, line),
    };
    let is_name = !line.trim_end_matches('/').contains('/');
    let pattern = if syntax == IgnoreSyntax::Git && is_name {
        format!("**/{line}")
    } else {
        line.to_owned()
    };
    Rule { pattern, keeps }
}

/// `a`, `a/b`, `a/b/c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    ends.chain([path.len()]).map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name() {
        for (pattern, name) in [
            ("*", "a.yaml"),
            ("*.yaml", "a.yaml"),
            ("a*b*c", "a-b-b-c"),
            ("a", "a"),
            ("?[a-c][!x]", "zby"),
            ("\\*", "*"),
        ] {
            assert!(matches_name(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.yaml", "a.json"),
            ("a*b", "ac"),
            ("a", "ab"),
            ("?", ""),
            ("[a-c]", "d"),
            ("[ab", "a"),
        ] {
            assert!(!matches_name(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_star_stays_within_one_part_and_two_stars_do_not() {
        assert!(matches_path("a/*", "a/b"));
        assert!(!matches_path("a/*", "a/b/c"));
        assert!(matches_path("a/**/c", "a/c"));
        assert!(matches_path("a/**/c", "a/b/b/c"));
        assert!(matches_path("./a/", "a"));
    }

    #[test]
    fn the_last_word_of_a_dockerignore_counts() {
        let ignore = Ignore::parse("# x\n*.md\n!README.md\nlogs\n", IgnoreSyntax::Docker);
        assert!(ignore.has("a.md"));
        assert!(!ignore.has("README.md"));
        assert!(!ignore.has("sub/a.md"), "patterns start at the root");
        assert!(ignore.has("logs/deep/file"));
        assert!(ignore.has_exceptions());
    }

    #[test]
    fn a_name_in_a_gitignore_is_meant_everywhere() {
        let ignore = Ignore::parse("__pycache__/\n/top\n", IgnoreSyntax::Git);
        assert!(ignore.has("a/__pycache__/b.pyc"));
        assert!(ignore.has("top"));
        assert!(!ignore.has("a/top"));
    }
}
