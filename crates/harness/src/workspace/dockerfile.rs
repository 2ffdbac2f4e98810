//! Parses a Dockerfile as far as needed to create a workspace without Docker: its instructions with
//! their positions, and the words and variables in them.

use std::collections::BTreeMap;

use proctor_document::Span;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// The keyword in upper case.
    pub(super) keyword: String,
    /// The following text, with continued lines joined.
    pub(super) rest: String,
    /// The position of its first line.
    pub(super) span: Span,
}

/// A parsed Dockerfile.
#[derive(Clone, Debug)]
pub(super) struct Dockerfile {
    pub(super) instructions: Vec<Instruction>,
    /// The character for line continuations and escapes.
    pub(super) escape: char,
}

/// A line with its position, without its line end.
struct DockerfileLine<'a> {
    text: &'a str,
    start: usize,
}

impl Dockerfile {
    /// Parses a Dockerfile. Any text is accepted.
    pub(super) fn parse(text: &str) -> Dockerfile {
        let mut lines = lines(text).peekable();
        let mut escape = '\\';
        // Directives come first; after any other line `#` starts a comment.
        while let Some((name, value)) = lines.peek().and_then(|line| directive(line.text)) {
            if name.eq_ignore_ascii_case("escape") && value == "`" {
                escape = '`';
            }
            lines.next();
        }
        let mut instructions = Vec::new();
        while let Some(line) = lines.next() {
            if is_nothing(line.text) {
                continue;
            }
            let span = Span {
                start: line.start + (line.text.len() - line.text.trim_start().len()),
                end: line.start + line.text.trim_end().len(),
            };
            let mut whole = String::new();
            let mut part = line.text.trim_start();
            while let Some(before) = continued(part, escape) {
                whole.push_str(before);
                // Comments and empty lines within an instruction do not end it.
                match lines.find(|line| !is_nothing(line.text)) {
                    Some(next) => part = next.text,
                    None => part = "",
                }
            }
            whole.push_str(part);
            let (keyword, rest) = whole
                .split_once(char::is_whitespace)
                .unwrap_or((&whole, ""));
            for end in here_documents(keyword, rest) {
                lines.find(|line| line.text.trim_start_matches('\t') == end);
            }
            instructions.push(Instruction {
                keyword: keyword.to_ascii_uppercase(),
                rest: rest.trim().to_owned(),
                span,
            });
        }
        Dockerfile {
            instructions,
            escape,
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = DockerfileLine<'_>> {
    let skipped = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut start = skipped;
    text[skipped..].split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        let text = line.trim_end_matches(['\n', '\r']);
        DockerfileLine { text, start: at }
    })
}

/// Parses `# name=value`.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().strip_prefix('#')?.split_once('=')?;
    let name = name.trim();
    let is_one = ["escape", "syntax", "check"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name));
    is_one.then(|| (name, value.trim()))
}

fn is_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The text before a line continuation.
fn continued(line: &str, escape: char) -> Option<&str> {
    line.trim_end().strip_suffix(escape)
}

/// The terminators of the here-documents of an instruction.
fn here_documents(keyword: &str, rest: &str) -> Vec<String> {
    let takes_one = ["RUN", "COPY", "ADD"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(keyword));
    let words = rest.split_whitespace().filter(|_| takes_one);
    words
        .filter_map(|word| word.strip_prefix("<<"))
        .map(|word| word.trim_start_matches('-').trim_matches(['"', '\'']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Variables in words, expanded like Docker.
pub(super) struct Words<'a> {
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) escape: char,
}

impl Words<'_> {
    /// Expands one word: removes quotes and replaces variables.
    pub(super) fn fill(&self, word: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut chars = word.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (c, quote) {
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (c, Some('\'')) => out.push(c),
                ('$', _) => out.push_str(&self.variable(&mut chars)?),
                (c, _) if c == self.escape => {
                    let next = chars.next();
                    // In double quotes only these can be escaped.
                    let is_plain = quote == Some('"') && !matches!(next, Some('"' | '$' | '\\'));
                    out.extend(is_plain.then_some(c));
                    out.extend(next);
                }
                (c, _) => out.push(c),
            }
        }
        match quote {
            None => Ok(out),
            Some(open) => Err(format!("unterminated {open} in `{word}`")),
        }
    }

    /// The value of a `$` expression.
    fn variable(
        &self,
        chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    ) -> Result<String, String> {
        let is_braced = chars.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if !is_braced {
            let value = self.variables.get(&name).cloned();
            return Ok(match (name.is_empty(), value) {
                (true, _) => "$".to_owned(),
                (false, value) => value.unwrap_or_default(),
            });
        }
        let mut rest = String::new();
        let mut depth = 1;
        for c in chars.by_ref() {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            if depth == 0 {
                return self.braced(&name, &rest);
            }
            rest.push(c);
        }
        Err(format!("`${{{name}` has no closing `}}`"))
    }

    /// Expands `${name}`, `${name:-other}`, `${name:+other}`.
    fn braced(&self, name: &str, rest: &str) -> Result<String, String> {
        let value = self.variables.get(name).filter(|value| !value.is_empty());
        if rest.is_empty() {
            return Ok(self.variables.get(name).cloned().unwrap_or_default());
        }
        if let Some(other) = rest.strip_prefix(":-") {
            return value.map_or_else(|| self.fill(other), |value| Ok(value.clone()));
        }
        if let Some(other) = rest.strip_prefix(":+") {
            return value.map_or_else(|| Ok(String::new()), |_| self.fill(other));
        }
        Err(format!("unsupported expression `${{{name}{rest}}}`"))
    }

    /// Parses `ENV a=1 b="2 3"`, or the old `ENV a 1`.
    pub(super) fn pairs(&self, rest: &str) -> Result<Vec<(String, String)>, String> {
        let (first, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !first.contains('=') {
            if tail.trim().is_empty() {
                return Err(format!("`ENV {rest}` has no value"));
            }
            return Ok(vec![(first.to_owned(), self.fill(tail.trim())?)]);
        }
        let words = split(rest, self.escape);
        let pair = |word: &String| {
            let (name, value) = word
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| format!("`{word}` is not in the form name=value"))?;
            Ok((name.to_owned(), self.fill(value)?))
        };
        words.iter().map(pair).collect()
    }
}

/// Splits words at spaces, but not within quotes or after an escape. Quotes are kept.
fn split(text: &str, escape: char) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, None) if c.is_whitespace() => {
                if words.last().is_some_and(|word| !word.is_empty()) {
                    words.push(String::new());
                }
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        let word = words.last_mut().expect("the list is never empty");
        word.push(c);
        if c == escape && quote != Some('\'') {
            word.extend(chars.next());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keywords(text: &str) -> Vec<(String, String)> {
        let parsed = Dockerfile::parse(text);
        let both = |one: Instruction| (one.keyword, one.rest);
        parsed.instructions.into_iter().map(both).collect()
    }

    #[test]
    fn lines_are_joined_and_comments_left_out() {
        let text = "# syntax=docker/dockerfile:1\n# a comment\nfrom a\n\nENV a=1 \\\n  # within\n\n  b=2 \\  \n c=3\nCOPY . .";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            keywords(text),
            [
                pair("FROM", "a"),
                pair("ENV", "a=1   b=2  c=3"),
                pair("COPY", ". .")
            ]
        );
    }

    #[test]
    fn escape_directive_must_come_first() {
        let parsed = Dockerfile::parse("#escape=`\nENV a=1 `\n b=2\n");
        assert_eq!(parsed.instructions.len(), 1);
        assert_eq!(parsed.escape, '`');
        assert_eq!(Dockerfile::parse("FROM a\n# escape=`\n").escape, '\\');
    }

    #[test]
    fn position_of_an_instruction_is_its_first_line() {
        let text = "FROM a\r\n  RUN x \\\n  y\n";
        let span = Dockerfile::parse(text).instructions[1].span;
        assert_eq!(&text[span.start..span.end], "RUN x \\");
    }

    #[test]
    fn here_documents_are_not_instructions() {
        let text = "COPY <<EOF /x\nRUN me\nEOF\nRUN <<-'A' <<B\n\tx\n\tA\ny\nB\nENV a=1\n";
        let words: Vec<String> = keywords(text).into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["COPY", "RUN", "ENV"]);
    }

    #[test]
    fn variables_are_expanded_like_docker() {
        let variables = [("A", "x"), ("E", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let words = Words {
            variables: &variables.into(),
            escape: '\\',
        };
        for (word, expect) in [
            ("$A/b", "x/b"),
            ("${A}b", "xb"),
            ("$Ab", ""),
            ("'$A'", "$A"),
            ("\"$A c\"", "x c"),
            ("\\$A", "$A"),
            ("${N:-d}", "d"),
            ("${E:-$A}", "x"),
            ("${A:+y}", "y"),
            ("${N:+y}", ""),
            ("a$", "a$"),
            ("\"a\\nb\"", "a\\nb"),
        ] {
            assert_eq!(words.fill(word), Ok(expect.to_owned()), "{word}");
        }
        for word in ["\"a", "${A", "${A?b}"] {
            assert!(words.fill(word).is_err(), "{word}");
        }
    }

    #[test]
    fn env_has_two_forms() {
        let variables = BTreeMap::new();
        let words = Words {
            variables: &variables,
            escape: '\\',
        };
        let check = |text: &str, expect: &[(&str, &str)]| {
            let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
            let expect: Vec<_> = expect.iter().map(owned).collect();
            assert_eq!(words.pairs(text), Ok(expect), "{text}");
        };
        check(
            "a=1 b=\"2 3\" c=4\\ 5",
            &[("a", "1"), ("b", "2 3"), ("c", "4 5")],
        );
        check("a 1 2=3", &[("a", "1 2=3")]);
        check("a=", &[("a", "")]);
        assert!(words.pairs("a").is_err());
        assert!(words.pairs("a=1 b").is_err());
        assert!(words.pairs("a=1 =2").is_err());
    }
}
