//! JSON strings, eight bytes at a time. Tool arguments are JSON within JSON with many escapes,
//! where long searches and small copies are slow.

use std::io;

const ONES: u64 = u64::MAX / 255;
const HIGH_BITS: u64 = ONES << 7;
const PIECE: usize = 256;
/// The maximum number of bytes that one iteration adds to a piece.
const LARGEST_STEP: usize = 16;

/// Writes `text` as one JSON string literal.
pub(super) fn write_string(out: &mut dyn io::Write, text: &str) -> io::Result<()> {
    let mut piece = EscapedPiece::default();
    piece.push(b"\"");
    let mut rest = text.as_bytes();
    while let Some((word, _)) = rest.split_first_chunk::<8>() {
        piece.make_room(out)?;
        let found = marks(*word, b'"') | marks(*word, b'\\') | control_marks(*word);
        // All eight bytes are copied; those after the first escape are overwritten.
        piece.push(word);
        if found == 0 {
            rest = &rest[8..];
        } else {
            let at = first(found);
            piece.len -= 8 - at;
            piece.push_escaped(word[at]);
            rest = &rest[at + 1..];
        }
    }
    for byte in rest {
        piece.make_room(out)?;
        piece.push_escaped(*byte);
    }
    piece.make_room(out)?;
    piece.push(b"\"");
    out.write_all(&piece.bytes[..piece.len])
}

/// The position of the next backslash or control character.
pub(super) fn find_escape_or_control(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = marks(*word, b'\\') | control_marks(*word);
        if found != 0 {
            return Some(index * 8 + first(found));
        }
    }
    let found = |byte: &u8| *byte == b'\\' || *byte < b' ';
    rest.iter().position(found).map(|at| words.len() * 8 + at)
}

/// The high bits of the bytes of `word` that equal `byte`. Bits after the first may be wrong.
#[inline]
pub fn marks(word: [u8; 8], byte: u8) -> u64 {
    let sought_are_zero = u64::from_le_bytes(word) ^ (ONES * u64::from(byte));
    sought_are_zero.wrapping_sub(ONES) & !sought_are_zero & HIGH_BITS
}

/// The same for control characters.
fn control_marks(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    word.wrapping_sub(ONES * u64::from(b' ')) & !word & HIGH_BITS
}

fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// A part of a string in the output buffer.
struct EscapedPiece {
    bytes: [u8; PIECE],
    len: usize,
}

impl Default for EscapedPiece {
    fn default() -> EscapedPiece {
        EscapedPiece {
            bytes: [0; PIECE],
            len: 0,
        }
    }
}

impl EscapedPiece {
    fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    fn push_escaped(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\t' => b't',
            b'\r' => b'r',
            0x08 => b'b',
            0x0c => b'f',
            0..b' ' => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                return self.push(&[b'\\', b'u', b'0', b'0', high, low]);
            }
            _ => return self.push(&[byte]),
        };
        self.push(&[b'\\', short]);
    }

    fn make_room(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.len + LARGEST_STEP > PIECE {
            out.write_all(&self.bytes[..self.len])?;
            self.len = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn characters_are_escaped_like_serde_json_at_all_positions() {
        for character in (0..=0x100).filter_map(char::from_u32) {
            for before in 0..10 {
                let text = format!("{}{character}\"\\{character}12345678", "x".repeat(before));
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    #[test]
    fn a_text_of_many_pieces_is_written_whole() {
        for length in PIECE - 20..PIECE + 20 {
            let text = format!("{}\u{1}{}", "ä".repeat(length / 2), "\"".repeat(length));
            assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in "(?s)[\\x00-\\x7f]*.*") {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }

        #[test]
        fn the_first_escape_or_control_character_is_found(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let expected = bytes.iter().position(|byte| *byte == b'\\' || *byte < b' ');
            prop_assert_eq!(find_escape_or_control(&bytes), expected);
        }
    }
}
