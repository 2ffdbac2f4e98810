//! Splits the source of tests into tokens: enough to find assertions and matching brackets, without
//! mistaking text or comments for code.

use std::ops::Range;

use camino::Utf8Path;

/// A language whose tests can be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Language {
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    Go,
    Rust,
}

impl Language {
    pub(in crate::evaluate) fn of(path: &str) -> Option<Language> {
        match Utf8Path::new(path).extension()? {
            "py" => Some(Language::Python),
            "js" | "ts" | "jsx" | "tsx" | "mjs" | "cjs" | "mts" | "cts" => {
                Some(Language::JavaScript)
            }
            "go" => Some(Language::Go),
            "rs" => Some(Language::Rust),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Kind {
    Word,
    Number,
    /// A string, with the range between its quotes.
    Text(Range<usize>),
    /// A single character, with the range between its quotes.
    Char(Range<usize>),
    /// A string with expressions in it, or a regular expression.
    Dynamic,
    Mark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::evaluate) struct Token {
    pub(in crate::evaluate) kind: Kind,
    pub(in crate::evaluate) range: Range<usize>,
}

/// Operators of several characters. Longer ones come first.
const LONG_MARKS: [&str; 12] = [
    "===", "!==", "==", "!=", ":=", "::", "&&", "||", "=>", "->", "<=", ">=",
];

/// The tokens of a file; `None` if a string or comment is unterminated.
pub(in crate::evaluate) fn tokens(language: Language, text: &str) -> Option<Vec<Token>> {
    let mut lexer = Lexer {
        language,
        text,
        bytes: text.as_bytes(),
        at: 0,
        tokens: Vec::new(),
    };
    while lexer.at < text.len() {
        lexer.next().ok()?;
    }
    Some(lexer.tokens)
}

/// An unterminated string or comment.
struct Endless;

struct Lexer<'a> {
    language: Language,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn starts(&self, at: usize, with: &str) -> bool {
        self.bytes
            .get(at..)
            .is_some_and(|rest| rest.starts_with(with.as_bytes()))
    }

    fn push(&mut self, kind: Kind, end: usize) {
        let range = self.at..end;
        self.tokens.push(Token { kind, range });
        self.at = end;
    }

    fn next(&mut self) -> Result<(), Endless> {
        let byte = self.byte(self.at);
        if byte.is_ascii_whitespace() {
            self.at += 1;
        } else if let Some(end) = self.comment()? {
            self.at = end;
        } else if let Some((kind, end)) = self.quoted()? {
            self.push(kind, end);
        } else if byte.is_ascii_digit() {
            self.push(Kind::Number, self.number_end());
        } else if is_word(byte) {
            let length = self.bytes[self.at..].iter().take_while(|it| is_word(**it));
            self.push(Kind::Word, self.at + length.count());
        } else {
            let mut marks = LONG_MARKS.iter();
            let long = marks.find(|mark| self.starts(self.at, mark));
            self.push(Kind::Mark, self.at + long.map_or(1, |mark| mark.len()));
        }
        Ok(())
    }

    /// The end of a comment that starts here.
    fn comment(&self) -> Result<Option<usize>, Endless> {
        let rest = &self.text[self.at..];
        let line = match self.language {
            Language::Python => "#",
            _ => "//",
        };
        if rest.starts_with(line) || (self.at == 0 && rest.starts_with("#!/")) {
            let length = rest.find('\n').unwrap_or(rest.len());
            return Ok(Some(self.at + length));
        }
        if self.language == Language::Python || !rest.starts_with("/*") {
            return Ok(None);
        }
        let (mut at, mut depth) = (self.at + 2, 1);
        while depth > 0 {
            if self.starts(at, "*/") {
                (at, depth) = (at + 2, depth - 1);
            } else if self.language == Language::Rust && self.starts(at, "/*") {
                (at, depth) = (at + 2, depth + 1);
            } else if at < self.bytes.len() {
                at += 1;
            } else {
                return Err(Endless);
            }
        }
        Ok(Some(at))
    }

    /// A string, character or regular expression that starts here.
    fn quoted(&self) -> Result<Option<(Kind, usize)>, Endless> {
        match self.language {
            Language::Python => self.python_text(),
            Language::JavaScript => self.javascript_text(),
            Language::Go => self.go_text(),
            Language::Rust => self.rust_text(),
        }
    }

    fn python_text(&self) -> Result<Option<(Kind, usize)>, Endless> {
        let is_prefix = |byte: &&u8| b"rRbBuUfFtT".contains(byte);
        let prefix = self.bytes[self.at..].iter().take_while(is_prefix).count();
        let open = self.at + prefix;
        let quote = self.byte(open);
        if prefix > 2 || !matches!(quote, b'\'' | b'"') {
            return Ok(None);
        }
        let is_dynamic = self.text[self.at..open].contains(['f', 'F', 't', 'T']);
        let long = [quote; 3];
        let close: &[u8] = if self.bytes[open..].starts_with(&long) {
            &long
        } else {
            &long[..1]
        };
        let inner = open + close.len();
        let end = self.escaped_end(inner, close, close.len() == 3)?;
        let kind = if is_dynamic {
            Kind::Dynamic
        } else {
            Kind::Text(inner..end)
        };
        Ok(Some((kind, end + close.len())))
    }

    fn javascript_text(&self) -> Result<Option<(Kind, usize)>, Endless> {
        let inner = self.at + 1;
        match self.byte(self.at) {
            quote @ (b'\'' | b'"') => {
                let end = self.escaped_end(inner, &[quote], false)?;
                Ok(Some((Kind::Text(inner..end), end + 1)))
            }
            b'`' => {
                let end = self.template_end(inner, 0)?;
                let kind = if self.text[inner..end].contains("${") {
                    Kind::Dynamic
                } else {
                    Kind::Text(inner..end)
                };
                Ok(Some((kind, end + 1)))
            }
            b'/' if self.may_start_pattern() => {
                Ok(self.pattern_end(inner).map(|end| (Kind::Dynamic, end)))
            }
            _ => Ok(None),
        }
    }

    fn go_text(&self) -> Result<Option<(Kind, usize)>, Endless> {
        let inner = self.at + 1;
        let (end, is_char) = match self.byte(self.at) {
            b'`' => (inner + self.text[inner..].find('`').ok_or(Endless)?, false),
            quote @ (b'"' | b'\'') => (self.escaped_end(inner, &[quote], false)?, quote == b'\''),
            _ => return Ok(None),
        };
        let kind = if is_char { Kind::Char } else { Kind::Text };
        Ok(Some((kind(inner..end), end + 1)))
    }

    fn rust_text(&self) -> Result<Option<(Kind, usize)>, Endless> {
        let is_prefix = |byte: &&u8| b"bcr".contains(byte);
        let prefix = self.bytes[self.at..].iter().take_while(is_prefix).count();
        let after = self.at + prefix;
        let hashes = self.bytes[after..].iter().take_while(|it| **it == b'#');
        let hashes = hashes.count();
        let open = after + hashes;
        let is_raw = self.text[self.at..after].contains('r');
        let inner = open + 1;
        if prefix <= 2 && is_raw && self.byte(open) == b'"' {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = inner + self.text[inner..].find(&close).ok_or(Endless)?;
            return Ok(Some((Kind::Text(inner..end), end + close.len())));
        }
        if prefix <= 1 && hashes == 0 && self.byte(open) == b'"' {
            let end = self.escaped_end(inner, b"\"", true)?;
            return Ok(Some((Kind::Text(inner..end), end + 1)));
        }
        if prefix <= 1 && hashes == 0 && self.byte(open) == b'\'' {
            // A lifetime has no second quote.
            let first = self.text[inner..].chars().next().map_or(0, char::len_utf8);
            let is_char = self.byte(inner) == b'\\' || self.byte(inner + first) == b'\'';
            let end = is_char.then(|| self.escaped_end(inner, b"'", false).ok());
            return Ok(end.flatten().map(|end| (Kind::Char(inner..end), end + 1)));
        }
        Ok(None)
    }

    /// The end of a string with backslash escapes.
    fn escaped_end(
        &self,
        mut at: usize,
        close: &[u8],
        may_span_lines: bool,
    ) -> Result<usize, Endless> {
        loop {
            match self.bytes.get(at).ok_or(Endless)? {
                b'\\' => at += 2,
                b'\n' if !may_span_lines => return Err(Endless),
                _ if self.bytes[at..].starts_with(close) => return Ok(at),
                _ => at += 1,
            }
        }
    }

    /// The end of a template literal, with its expressions.
    fn template_end(&self, mut at: usize, depth: usize) -> Result<usize, Endless> {
        const MOST: usize = 20;
        let mut braces = 0_usize;
        loop {
            match *self.bytes.get(at).ok_or(Endless)? {
                b'\\' => at += 2,
                b'`' if braces == 0 => return Ok(at),
                b'`' if depth < MOST => at = self.template_end(at + 1, depth + 1)? + 1,
                quote @ (b'\'' | b'"') if braces > 0 => {
                    at = self.escaped_end(at + 1, &[quote], false)? + 1;
                }
                b'$' if braces == 0 && self.byte(at + 1) == b'{' => (at, braces) = (at + 2, 1),
                b'{' if braces > 0 => (at, braces) = (at + 1, braces + 1),
                b'}' if braces > 0 => (at, braces) = (at + 1, braces - 1),
                _ => at += 1,
            }
        }
    }

    /// Whether a slash starts a regular expression here, and not a division.
    fn may_start_pattern(&self) -> bool {
        let Some(last) = self.tokens.last() else {
            return true;
        };
        let text = &self.text[last.range.clone()];
        match last.kind {
            Kind::Mark => ![")", "]", "}"].contains(&text),
            Kind::Word => ["return", "case", "typeof", "await"].contains(&text),
            _ => false,
        }
    }

    fn pattern_end(&self, mut at: usize) -> Option<usize> {
        let mut is_in_class = false;
        loop {
            match self.bytes.get(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'[' => is_in_class = true,
                b']' => is_in_class = false,
                b'/' if !is_in_class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
    }

    fn number_end(&self) -> usize {
        let mut at = self.at;
        let is_decimal = !matches!(self.byte(at + 1), b'x' | b'X' | b'b' | b'B' | b'o' | b'O');
        loop {
            let (byte, next) = (self.byte(at), self.byte(at + 1));
            let is_sign = is_decimal
                && matches!(byte, b'+' | b'-')
                && matches!(self.byte(at.wrapping_sub(1)), b'e' | b'E')
                && next.is_ascii_digit();
            let is_point = byte == b'.' && next.is_ascii_digit();
            if is_sign || is_point || byte == b'_' || byte.is_ascii_alphanumeric() {
                at += 1;
            } else {
                return at;
            }
        }
    }
}

/// Whether a byte is part of a name. Non-ASCII bytes are.
fn is_word(byte: u8) -> bool {
    byte == b'_' || byte == b'$' || byte >= 0x80 || byte.is_ascii_alphanumeric()
}
