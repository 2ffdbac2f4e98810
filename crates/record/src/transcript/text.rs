//! Writes text to the log: as a JSON string without terminal escapes, copied from the agent's JSON
//! if nothing has to change.

use std::{borrow::Cow, io};

use memchr::memchr;
use serde::{
    Deserialize,
    de::{Deserializer, Visitor},
};

use super::escape::{find_escape_or_control, write_string};
use crate::session::Text;

const ESCAPE: u8 = 0x1b;
const CHUNK: usize = 256;

/// Writes `text` as one JSON string literal.
pub(super) fn write_text(out: &mut dyn io::Write, text: Text<'_>) -> io::Result<()> {
    match text {
        Text::Plain(text) => write_plain(out, text),
        Text::Json(value) => write_string(out, value),
        Text::JsonString(literal) if is_copyable(literal.as_bytes()) => {
            out.write_all(literal.as_bytes())
        }
        Text::JsonString(literal) => write_plain(out, &lossy_text(literal)),
    }
}

fn write_plain(out: &mut dyn io::Write, text: &str) -> io::Result<()> {
    write_string(out, &strip_ansi(text))
}

/// Whether a JSON string literal can be copied to the log. It cannot if it contains ESC or half of
/// a surrogate pair, or if it is malformed, which strict readers refuse.
fn is_copyable(literal: &[u8]) -> bool {
    is_surely_copyable(literal) || is_copyable_by_escapes(literal)
}

/// Whether no byte is a control character, and every backslash precedes a letter of a short escape.
/// This check does not need to track which backslash escapes which, so the compiler can vectorize
/// it, and it is true for most literals.
fn is_surely_copyable(literal: &[u8]) -> bool {
    let Some((_, next)) = literal.split_first() else {
        return false;
    };
    let mut pairs = literal.chunks(CHUNK).zip(next.chunks(CHUNK));
    pairs.all(|(bytes, next)| {
        let doubts = bytes.iter().zip(next).map(|(byte, next)| {
            let is_short = is_short_escape(*next);
            u8::from(*byte < b' ') | (u8::from(*byte == b'\\') & u8::from(!is_short))
        });
        doubts.fold(0, |any, doubt| any | doubt) == 0
    }) && literal.ends_with(b"\"")
}

/// Without a branch, for the loop above, and without `map` of arrays, which is not inlined without
/// LTO.
fn is_short_escape(byte: u8) -> bool {
    let is = |letter: u8| u8::from(byte == letter);
    let letters = is(b'n') | is(b't') | is(b'r') | is(b'b') | is(b'f');
    (letters | is(b'"') | is(b'\\') | is(b'/')) != 0
}

fn is_copyable_by_escapes(literal: &[u8]) -> bool {
    let mut rest = literal;
    while let Some(at) = find_escape_or_control(rest) {
        let escape = rest[at..].strip_prefix(b"\\").unwrap_or_default();
        match escape.first() {
            Some(b'u') if is_copyable_escape(escape.get(1..5)) => {}
            Some(letter) if is_short_escape(*letter) => {}
            _ => return false,
        }
        rest = &rest[at + 2..];
    }
    true
}

fn is_copyable_escape(hex: Option<&[u8]>) -> bool {
    hex.is_some_and(|hex| {
        let is_escape = hex.eq_ignore_ascii_case(b"001b");
        let is_surrogate = hex[0].eq_ignore_ascii_case(&b'd') && hex[1] > b'7';
        hex.iter().all(u8::is_ascii_hexdigit) && !is_escape && !is_surrogate
    })
}

/// `text` without terminal escapes.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if memchr(ESCAPE, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(anstream::adapter::strip_str(text).to_string())
}

/// The text of a JSON string literal; halves of surrogate pairs become U+FFFD. Other text is
/// unchanged.
pub fn lossy_text(literal: &str) -> Cow<'_, str> {
    let inside = literal
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match inside {
        Some(inside) if memchr(b'\\', inside.as_bytes()).is_none() => Cow::Borrowed(inside),
        Some(_) => match serde_json::from_str::<Lossy>(literal) {
            Ok(text) => Cow::Owned(text.0),
            Err(_) => Cow::Borrowed(literal),
        },
        None => Cow::Borrowed(literal),
    }
}

/// A string read as bytes, because the JSON reader accepts lone surrogates only then.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lossy, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Lossy;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Lossy, E> {
                // Checking first is much faster and nearly always sufficient.
                Ok(Lossy(match simdutf8::basic::from_utf8(bytes) {
                    Ok(text) => text.to_owned(),
                    Err(_) => String::from_utf8_lossy(bytes).into_owned(),
                }))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(literal: &str) -> String {
        let mut out = Vec::new();
        write_text(&mut out, Text::JsonString(literal)).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn literal_without_terminal_escapes_is_copied() {
        assert_eq!(written(r#""a\n\u003cb\\u001b""#), "a\n<b\\u001b");
    }

    #[test]
    fn terminal_escapes_are_removed_in_all_notations() {
        assert_eq!(written(r#""\u001b[31mred\u001B[0m\tok""#), "red\tok");
        assert_eq!(strip_ansi("\x1b]0;title\x07\x1b[?25hx\r"), "x\r");
    }

    #[test]
    fn malformed_literal_does_not_corrupt_the_document() {
        assert_eq!(written("\"a\\xb\""), "\"a\\xb\"");
        assert_eq!(written("\"a\tb\""), "a\tb");
        assert_eq!(written(r#""\u00zz""#), r#""\u00zz""#);
        assert_eq!(written(r#""regex \\d\\""#), r"regex \d\");
    }

    #[test]
    fn lone_surrogate_does_not_corrupt_the_document() {
        assert!(written(r#""cut \ud83d""#).starts_with("cut \u{fffd}"));
        assert_eq!(written(r#""whole \ud83c\udf89""#), "whole 🎉");
    }

    #[test]
    fn escape_across_two_chunks_is_found() {
        for before in CHUNK - 8..CHUNK + 8 {
            let text = "x".repeat(before);
            assert_eq!(
                written(&format!(r#""{text}\u001b[1my""#)),
                format!("{text}y")
            );
            assert!(is_surely_copyable(format!(r#""{text}\n""#).as_bytes()));
            assert!(!is_surely_copyable(format!("\"{text}\n\"").as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn the_quick_look_never_lets_pass_what_the_exact_one_refuses(
            inside in "(\\\\|\\\\[nu\\\\d\"]|00|1b|d8|[a\n\x1bä])*",
        ) {
            let literal = format!("\"{inside}\"");
            // Only valid string tokens reach this function.
            prop_assume!(inside.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0);
            if is_surely_copyable(literal.as_bytes()) {
                prop_assert!(is_copyable_by_escapes(literal.as_bytes()));
            }
        }
    }
}
