//! Cuts a stream of server-sent events into events, wherever the bytes are split.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

/// An event longer than this is passed over: no API sends one, and memory has to have an end.
const LONGEST: usize = 8 << 20;

/// Frames events. Bytes go in as they come, the data of complete events comes out.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// The beginning of a line that is not complete yet.
    line: BytesMut,
    /// The data lines of the event so far.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    too_long: bool,
}

impl Framer {
    /// Takes the next bytes and calls `event` with the data of each event that they complete.
    pub(crate) fn push(&mut self, bytes: &Bytes, mut event: impl FnMut(&[u8])) {
        let mut rest: &[u8] = bytes;
        if self.after_cr && rest.first() == Some(&b'\n') {
            rest.advance(1);
        }
        if !rest.is_empty() {
            self.after_cr = false;
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let cr = rest[end] == b'\r';
            if self.line.is_empty() {
                self.on_line(&rest[..end], &mut event);
            } else {
                self.keep(&rest[..end]);
                let line = self.line.split();
                self.on_line(&line, &mut event);
            }
            rest = &rest[end + 1..];
            if cr {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.keep(rest);
    }

    /// The data of an event that the end of the stream left incomplete. A client would drop it; for
    /// metering it is better than nothing.
    pub(crate) fn finish(&mut self, mut event: impl FnMut(&[u8])) {
        let line = self.line.split();
        self.on_line(&line, &mut event);
        self.on_line(b"", &mut event);
    }

    fn keep(&mut self, part: &[u8]) {
        if self.line.len() + part.len() > LONGEST {
            self.too_long = true;
            self.line.clear();
        }
        if !self.too_long {
            self.line.extend_from_slice(part);
        }
    }

    fn on_line(&mut self, line: &[u8], event: &mut impl FnMut(&[u8])) {
        if line.is_empty() {
            if self.has_data && !self.too_long {
                event(&self.data);
            }
            self.data.clear();
            self.has_data = false;
            self.too_long = false;
            return;
        }
        let Some(value) = line.strip_prefix(b"data:") else {
            return;
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if self.data.len() + value.len() > LONGEST {
            self.too_long = true;
            self.data.clear();
            return;
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for piece in pieces {
            let mut add = |data: &[u8]| found.push(String::from_utf8_lossy(data).into_owned());
            framer.push(&Bytes::copy_from_slice(piece), &mut add);
        }
        found
    }

    #[test]
    fn events_are_data_lines_with_any_line_ending() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = [
                "event: a", "data: 1", "data:2", "", ": note", "data: ü", "", "",
            ]
            .join(end);
            assert_eq!(events(&[stream.as_bytes()]), ["1\n2", "ü"], "{end:?}");
        }
    }

    #[test]
    fn blank_line_ends_an_event() {
        assert!(events(&[b"data: 1\n"]).is_empty());
        assert!(events(&[b"event: ping\n\n"]).is_empty());
        assert_eq!(events(&[b"data\n\ndata:\n\n"]), [""]);
    }

    #[test]
    fn incomplete_last_event_is_metered() {
        let mut framer = Framer::default();
        framer.push(&Bytes::from_static(b"data: {\"a\":1}"), |_| {
            panic!("no event")
        });
        let mut found = Vec::new();
        framer.finish(|data| found.push(data.to_vec()));
        assert_eq!(found, [br#"{"a":1}"#]);
    }

    #[test]
    fn memory_of_one_event_is_bounded() {
        let mut framer = Framer::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        framer.push(&Bytes::from_static(b"data: "), |_| ());
        for _ in 0..20 {
            framer.push(&piece, |_| panic!("no event"));
        }
        assert!(framer.line.len() <= LONGEST);
        let mut found = Vec::new();
        framer.push(&Bytes::from_static(b"\n\ndata: next\n\n"), |d| {
            found.push(d.to_vec());
        });
        assert_eq!(found, [b"next"]);
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_chunk_boundaries(
            lines in proptest::collection::vec("(data: ?[a-zü\"]{0,5}|event: x|)", 0..12),
            end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let stream = lines.join(end) + end;
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
