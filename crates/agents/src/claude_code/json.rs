//! Walks JSON once, without building values: a caller descends into known members and the rest is
//! skipped. Most of a session is long strings that are skipped or copied unchanged, which is
//! several times faster here than in a full parser.
//!
//! Values are checked only as far as needed to find their end; copying a value into the log checks
//! the rest.

use memchr::memchr;
use proctor_record::transcript::marks;

/// The number of words of eight bytes that are searched one by one before a wide search is
/// worthwhile.
const NEAR_WORDS: usize = 6;

/// A position in a JSON text. Every method returns `None` if the text is malformed.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// The first byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Checks that only white space is left.
    pub(super) fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Walks an object. `each` must consume the member's value.
    pub(super) fn members(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'a>, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            if self.peek()? != b'"' {
                return None;
            }
            let key = self.string()?;
            self.expect(b':')?;
            each(self, &key[1..key.len() - 1])?;
            if self.comma_or(b'}')? == NextToken::End {
                return Some(());
            }
        }
    }

    /// Walks a list. `each` must consume the element.
    pub(super) fn elements(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'a>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            each(self)?;
            if self.comma_or(b']')? == NextToken::End {
                return Some(());
            }
        }
    }

    /// Consumes any value. Returns its text.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => self.step_over()?,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.at = self.scalar_end(),
            _ => return None,
        }
        Some(&self.bytes[start..self.at])
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn comma_or(&mut self, end: u8) -> Option<NextToken> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(NextToken::Item),
            byte if byte == end => Some(NextToken::End),
            _ => None,
        }
    }

    /// Consumes a string with its quotes. The cursor is at the opening quote.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        match short_string(&self.bytes[start + 1..]) {
            Some(len) => self.at = start + 1 + len,
            None => self.at = self.long_string_end()?,
        }
        Some(&self.bytes[start..self.at])
    }

    #[inline(never)]
    fn long_string_end(&self) -> Option<usize> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += find_quote(self.bytes.get(at..)?)?;
            let inside = &self.bytes[start..at];
            at += 1;
            if !inside.ends_with(b"\\") || !ends_in_escape(inside) {
                return Some(at);
            }
        }
    }

    /// Skips an object or a list.
    fn step_over(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn scalar_end(&self) -> usize {
        let rest = &self.bytes[self.at..];
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
        self.at + rest.iter().position(is_end).unwrap_or(rest.len())
    }
}

/// Whether the text ends with an unescaped backslash.
fn ends_in_escape(text: &[u8]) -> bool {
    let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The length of a string including its closing quote, if that is near and certain. Most strings
/// are keys, words and ids.
#[inline]
fn short_string(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.first_chunk::<16>()?.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let quotes = marks(*word, b'"');
        if quotes != 0 {
            let at = index * 8 + quotes.trailing_zeros() as usize / 8;
            let is_escaped = at > 0 && bytes[at - 1] == b'\\';
            return (!is_escaped).then_some(at + 1);
        }
    }
    None
}

/// The position of the next quote. Keys, ids and words are short, and in JSON within JSON the next
/// quote is never far.
fn find_quote(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let near = &words[..words.len().min(NEAR_WORDS)];
    for (index, word) in near.iter().enumerate() {
        let quotes = marks(*word, b'"');
        if quotes != 0 {
            return Some(index * 8 + quotes.trailing_zeros() as usize / 8);
        }
    }
    let far = near.len() * 8;
    memchr(b'"', &bytes[far..]).map(|at| far + at)
}

#[derive(PartialEq, Eq)]
enum NextToken {
    Item,
    End,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(json: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
        let mut found = Vec::new();
        let mut cursor = Cursor::new(json);
        cursor.members(|cursor, key| {
            found.push((key, cursor.value()?));
            Some(())
        })?;
        cursor.end()?;
        Some(found)
    }

    #[test]
    fn members_are_returned_unchanged() {
        let json = br#" { "a" : "x\"}\\" , "b":[1,{"c":"]"}],"d":-1.5e3,"e":null,"f":{} } "#;
        let found = walk(json).unwrap();
        let values: Vec<_> = found.iter().map(|(_, value)| *value).collect();
        assert_eq!(
            values,
            [
                br#""x\"}\\""#.as_slice(),
                br#"[1,{"c":"]"}]"#,
                b"-1.5e3",
                b"null",
                b"{}"
            ]
        );
        assert_eq!(walk(b"{}"), Some(vec![]));
    }

    #[test]
    fn truncated_and_trailing_data_is_refused() {
        let json = br#"{"a":"x\n","b":[1,{"c":2}]}"#;
        assert!(walk(json).is_some());
        for end in 0..json.len() {
            assert_eq!(walk(&json[..end]), None, "cut at {end}");
        }
        assert_eq!(walk(br#"{"a":1}}"#), None);
        assert_eq!(walk(br#"{"a":1 "b":2}"#), None);
        assert_eq!(walk(br#"{"a":"\\\"}"#), None);
        assert_eq!(walk(br"{a:1}"), None);
    }

    proptest! {
        #[test]
        fn any_json_object_is_walked_and_any_bytes_are_survived(
            strings in proptest::collection::vec(".*", 0..4),
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let object = serde_json::json!({ "list": strings, "nested": { "of": strings } });
            let json = serde_json::to_vec(&object).unwrap();
            let found = walk(&json).unwrap();
            prop_assert_eq!(found[0].1, serde_json::to_vec(&object["list"]).unwrap());
            let _ = walk(&bytes);
        }
    }
}
