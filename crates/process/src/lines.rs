//! Cuts a stream of chunks into lines without copying those that lie whole in a chunk, and without growing
//! with lines that are too long.

/// The default maximum length of a line.
const MAX_LINE: usize = 8 * 1024 * 1024;

/// The capacity that the buffer keeps between lines.
const KEEP: usize = 64 * 1024;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Its bytes without the line feed and one carriage return before it.
    Whole(&'a [u8]),
    /// It was longer than allowed and is not kept.
    Oversized {
        /// How long it was, without the line feed.
        bytes: u64,
    },
}

/// Cuts chunks into lines.
///
/// ```
/// use proctor_process::{Line, Lines};
/// let mut lines = Lines::default();
/// let mut chunk: &[u8] = b"one\r\ntw";
/// while let Some(line) = lines.next(&mut chunk) {
///     assert_eq!(line, Line::Whole(b"one"));
/// }
/// assert_eq!(lines.finish(), Some(Line::Whole(b"tw")));
/// ```
#[derive(Debug)]
pub struct Lines {
    max_line: usize,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The length of that beginning if it is too long to be kept.
    skipped: u64,
    /// Whether `partial` was handed out and is to be forgotten.
    delivered: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(MAX_LINE)
    }
}

impl Lines {
    /// Keeps lines of at most `max_line` bytes; 8 MiB by default.
    pub fn new(max_line: usize) -> Self {
        Self {
            max_line,
            partial: Vec::new(),
            skipped: 0,
            delivered: false,
        }
    }

    /// Takes the next whole line off `chunk`. `None` says that the chunk is used up; what was left of it, the
    /// beginning of a line, is kept for the next one.
    pub fn next<'l, 'c: 'l>(&'l mut self, chunk: &mut &'c [u8]) -> Option<Line<'l>> {
        self.forget_delivered();
        let whole: &'c [u8] = chunk;
        let Some(end) = memchr::memchr(b'\n', whole) else {
            self.keep(whole);
            *chunk = &[];
            return None;
        };
        *chunk = &whole[end + 1..];
        let tail = &whole[..end];
        if self.partial.is_empty() && self.skipped == 0 && tail.len() <= self.max_line {
            return Some(Line::Whole(without_return(tail)));
        }
        self.keep(tail);
        Some(self.deliver())
    }

    /// The last line, if the stream did not end with a line feed.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.forget_delivered();
        if self.partial.is_empty() && self.skipped == 0 {
            return None;
        }
        Some(self.deliver())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let length = self.partial.len() + bytes.len();
        if self.skipped > 0 || length > self.max_line {
            self.skipped += length as u64;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn deliver(&mut self) -> Line<'_> {
        if self.skipped > 0 {
            let bytes = std::mem::take(&mut self.skipped);
            return Line::Oversized { bytes };
        }
        self.delivered = true;
        Line::Whole(without_return(&self.partial))
    }

    fn forget_delivered(&mut self) {
        if std::mem::take(&mut self.delivered) {
            self.partial.clear();
            self.partial.shrink_to(KEEP);
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 12;

    #[derive(Debug, PartialEq)]
    enum Seen {
        Whole(Vec<u8>),
        Oversized(u64),
    }

    fn see(line: Line<'_>) -> Seen {
        match line {
            Line::Whole(bytes) => Seen::Whole(bytes.to_vec()),
            Line::Oversized { bytes } => Seen::Oversized(bytes),
        }
    }

    fn framed(chunks: &[Vec<u8>]) -> Vec<Seen> {
        let mut lines = Lines::new(MAX);
        let mut seen = Vec::new();
        for chunk in chunks {
            let mut rest = &chunk[..];
            while let Some(line) = lines.next(&mut rest) {
                seen.push(see(line));
            }
            assert!(lines.partial.len() <= MAX);
        }
        seen.extend(lines.finish().map(see));
        assert_eq!(lines.finish(), None);
        seen
    }

    fn split(bytes: &[u8]) -> Vec<Seen> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        lines
            .into_iter()
            .map(|line| {
                if line.len() > MAX {
                    Seen::Oversized(line.len() as u64)
                } else {
                    Seen::Whole(without_return(line).to_vec())
                }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_lines_of_a_plain_split(
            chunks in prop::collection::vec(
                prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..20),
                0..20,
            )
        ) {
            prop_assert_eq!(framed(&chunks), split(&chunks.concat()));
        }
    }

    #[test]
    fn a_line_inside_one_chunk_is_not_copied() {
        let mut lines = Lines::default();
        let chunk = b"first\nsecond\n";
        let mut rest = &chunk[..];
        let Some(Line::Whole(line)) = lines.next(&mut rest) else {
            panic!("a whole line is expected");
        };
        assert!(std::ptr::eq(line.as_ptr(), chunk.as_ptr()));
    }

    #[test]
    fn a_huge_line_is_counted_and_not_kept() {
        let mut lines = Lines::new(1000);
        for _ in 0..100 {
            assert_eq!(lines.next(&mut &[b'x'; 500][..]), None);
            assert!(lines.partial.capacity() <= 2000);
        }
        let mut rest = &b"\nnext\n"[..];
        assert_eq!(
            lines.next(&mut rest),
            Some(Line::Oversized { bytes: 50_000 })
        );
        assert_eq!(lines.next(&mut rest), Some(Line::Whole(b"next")));
        assert_eq!(lines.next(&mut rest), None);
    }
}
