//! Splits Rust source into the identifiers and punctuation that module paths consist of.

/// One identifier or punctuation character, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn is_name(&self) -> bool {
        self.text.starts_with(is_name_char)
    }
}

/// The tokens of `source`, without comments, literals and lifetimes.
pub(super) fn tokenize(source: &str) -> Vec<Token> {
    let mut scanner = Scanner {
        rest: source,
        line: 1,
    };
    let mut tokens = Vec::new();
    while let Some(first) = scanner.rest.chars().next() {
        let line = scanner.line;
        if let Some(text) = scanner.token(first) {
            tokens.push(Token { text, line });
        }
    }
    tokens
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    /// Consumes one token, literal, comment or blank; returns it if it is a token.
    fn token(&mut self, first: char) -> Option<String> {
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.take(comment_len(self.rest));
        } else if let Some(len) = string_len(self.rest) {
            self.take(len);
        } else if first == '\'' {
            self.take(quote_len(self.rest));
        } else if is_name_char(first) {
            let end = self.rest.find(|c| !is_name_char(c));
            return Some(self.take(end.unwrap_or(self.rest.len())));
        } else {
            let text = self.take(first.len_utf8());
            return (!first.is_whitespace()).then_some(text);
        }
        None
    }

    fn take(&mut self, len: usize) -> String {
        let (taken, rest) = self.rest.split_at(len);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_owned()
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the block comment that `text` starts with; block comments nest.
fn comment_len(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string literal that `text` starts with, if it does.
fn string_len(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let hashes = text
            .strip_prefix(prefix)
            .map(|rest| rest.trim_start_matches('#'));
        let raw = prefix.ends_with('r');
        hashes.is_some_and(|rest| rest.starts_with('"') && (raw || text[prefix.len()..] == *rest))
    })?;
    let open = text[prefix.len()..].find('"')?;
    let start = prefix.len() + open + 1;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(open));
        let end = text[start..].find(&close)?;
        return Some(start + end + close.len());
    }
    let mut escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(start + at + 1),
            _ => {}
        }
    }
    None
}

/// The length of the character literal or lifetime that `text` starts with.
fn quote_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => {
            let close = text[3..].find('\'');
            close.map_or(text.len(), |at| 3 + at + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => {
            let end = text[1..].find(|c| !is_name_char(c));
            end.map_or(text.len(), |at| 1 + at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let tokens = tokenize(source);
        tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_skipped() {
        let source = r##"a /* b /* c */ d */ "e \" f" r#"g "h" i"# b"j" '"' '\'' 'k' b'l' // m
            n"##;
        assert_eq!(texts(source), ["a", "b", "n"]);
    }

    #[test]
    fn lifetimes_are_skipped_and_paths_are_kept() {
        assert_eq!(
            texts("x<'a>(y::Z)"),
            ["x", "<", ">", "(", "y", ":", ":", "Z", ")"]
        );
    }

    #[test]
    fn lines_are_counted_through_literals() {
        let tokens = tokenize("a\n\"\n\"\n/*\n*/ b");
        assert_eq!(tokens[1].line, 5);
    }
}
