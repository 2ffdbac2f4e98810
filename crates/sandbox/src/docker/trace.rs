//! The progress of a `BuildKit` build: messages of its protocol (`StatusResponse`, in the encoding of
//! protocol buffers), as lines for a log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The progress of a build.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The number of each step, by digest.
    numbers: BTreeMap<String, usize>,
    /// The steps whose end was reported.
    ended: BTreeSet<String>,
}

impl Trace {
    /// The lines of a message.
    pub(super) fn read(&mut self, message: &[u8]) -> String {
        let mut lines = String::new();
        for (number, field) in Fields(message) {
            match number {
                1 => self.step(field, &mut lines),
                3 => self.output(field, &mut lines),
                _ => {}
            }
        }
        lines
    }

    /// The begin or end of a step.
    fn step(&mut self, step: &[u8], lines: &mut String) {
        let digest = text(step, 1);
        let has = |number| Fields(step).any(|(field, _)| field == number);
        if has(5) && !self.numbers.contains_key(&digest) {
            let number = self.numbers.len() + 1;
            let _ = writeln!(lines, "#{number} {}", text(step, 3));
            self.numbers.insert(digest.clone(), number);
        }
        let Some(number) = self.numbers.get(&digest) else {
            return;
        };
        let error = text(step, 7);
        if has(6) && self.ended.insert(digest) {
            if !error.is_empty() {
                let _ = writeln!(lines, "#{number} ERROR: {error}");
            } else if has(4) {
                let _ = writeln!(lines, "#{number} CACHED");
            }
        }
    }

    /// Output of a step.
    fn output(&self, output: &[u8], lines: &mut String) {
        let number = self.numbers.get(&text(output, 1)).copied();
        let said = text(output, 4);
        for line in said.lines() {
            let _ = writeln!(lines, "#{} {line}", number.unwrap_or_default());
        }
    }
}

/// The text in a field of a message.
fn text(message: &[u8], number: u64) -> String {
    let mut fields = Fields(message);
    let field = fields.find(|(field, _)| *field == number);
    field.map_or_else(String::new, |(_, bytes)| {
        String::from_utf8_lossy(bytes).into_owned()
    })
}

/// The fields of a message: their numbers, and their bytes if they have a length. Ends at the first
/// error.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.number()?;
        let length = match tag & 7 {
            0 => {
                self.number()?;
                0
            }
            1 => 8,
            2 => usize::try_from(self.number()?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((tag >> 3, bytes))
    }
}

impl Fields<'_> {
    /// The next number: seven bits in each byte, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    }

    #[test]
    fn steps_and_output_become_lines() {
        let mut trace = Trace::default();
        let planned = [field(1, b"d"), field(3, b"[1/2] RUN x")].concat();
        assert_eq!(trace.read(&field(1, &planned)), "");
        let started = [planned, field(5, b"\x08\x01")].concat();
        assert_eq!(trace.read(&field(1, &started)), "#1 [1/2] RUN x\n");
        assert_eq!(trace.read(&field(1, &started)), "");
        let output = [field(1, b"d"), vec![0x18, 1], field(4, b"a\nb\n")].concat();
        assert_eq!(trace.read(&field(3, &output)), "#1 a\n#1 b\n");
        let failed = [started, field(6, b""), field(7, b"exit code: 7")].concat();
        let lines = trace.read(&field(1, &failed));
        assert_eq!(lines, "#1 ERROR: exit code: 7\n");
        assert_eq!(trace.read(&field(1, &failed)), "");
    }

    #[test]
    fn damaged_messages_end_early() {
        for message in [&b"\x0a\xff"[..], b"\xff\xff", b"\x0f", b"\x0a\x7f12"] {
            assert_eq!(Trace::default().read(message), "");
        }
    }
}
