//! Texts and files with bounded sizes, and text of agents with its control characters made visible.

use std::io::{Read, Seek, SeekFrom};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{fs::hex, text::is_direction};

/// The start and the end of a file of lines.
#[derive(Default)]
pub(super) struct FileEnds {
    bytes: Vec<u8>,
    /// The number of bytes between them.
    pub(super) skipped: u64,
}

impl FileEnds {
    /// Reads at most this many bytes; a missing file is empty.
    pub(super) fn read(path: &Utf8Path, most: usize) -> FileEnds {
        FileEnds::try_read(path, most as u64).unwrap_or_default()
    }

    fn try_read(path: &Utf8Path, most: u64) -> std::io::Result<FileEnds> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        if length <= most {
            file.read_to_end(&mut bytes)?;
            return Ok(FileEnds { bytes, skipped: 0 });
        }
        Read::by_ref(&mut file)
            .take(most / 2)
            .read_to_end(&mut bytes)?;
        let skipped = length - 2 * (most / 2);
        // The first and the last line may be incomplete and are skipped.
        bytes.push(b'\n');
        file.seek(SeekFrom::Start(most / 2 + skipped))?;
        file.take(most / 2).read_to_end(&mut bytes)?;
        Ok(FileEnds { bytes, skipped })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'\n')
    }
}

/// At most `most` bytes of a text, and the number of omitted bytes.
pub(super) fn split(text: &str, most: usize) -> (String, usize) {
    let kept = text.floor_char_boundary(most);
    (plain(&text[..kept]), text.len() - kept)
}

/// At most `most` bytes of a text. The number of omitted bytes is part of it.
pub(super) fn cut(text: &str, most: usize) -> String {
    match split(text, most) {
        (shown, 0) => shown,
        (shown, left_out) => format!("{shown}… ({left_out} more bytes)"),
    }
}

/// Text with control and bidirectional formatting characters, other than tabs and line ends, made visible.
pub(super) fn plain(text: &str) -> String {
    let is_shown = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_direction(c));
    if text.chars().all(is_shown) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            c if is_shown(c) => shown.push(c),
            c if is_direction(c) => shown.extend(c.escape_unicode()),
            c => {
                let code = u32::from(c);
                let byte = u8::try_from(code).unwrap_or(0xff);
                shown.extend(["\\x", &hex(&[byte])]);
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_is_marked() {
        assert_eq!(cut("ääää", 5), "ää… (4 more bytes)");
        assert_eq!(split("ääää", 5), ("ää".to_owned(), 4));
        assert_eq!(plain("a\x1b[0m\tb\r\n\0"), "a\\x1b[0m\tb\n\\x00");
        assert_eq!(plain("a\u{202e}b"), "a\\u{202e}b");
    }
}
