//! Turns a recorded output into the log, in one streaming pass with flat memory. Any bytes
//! give a document; only reading and writing can fail.

use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

use memchr::memchr;

use super::{Account, Contender, LogWriter, Times};
use crate::{
    outcome::Ending,
    session::{AgentTimes, Session, SessionEvent, SessionHost, Source},
};

/// Longer lines are not parsed, only counted.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// What is known about a recorded output besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct Recording<'a> {
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// Who ran.
    pub contender: Contender<'a>,
}

/// Read a recorded output with `session` and write the log. The times are those that the
/// output tells; without any they are null.
pub fn normalize(
    mut session: Box<dyn Session>,
    reader: impl BufRead,
    writer: impl Write,
    recording: Recording<'_>,
) -> io::Result<()> {
    let mut host = Recorder {
        log: LogWriter::new(writer),
    };
    for_each_line(reader, |line| match line {
        Line::Whole(line) => session.on_line(Source::Stdout, line, &mut host),
        Line::Oversized(bytes) => session.on_oversized_line(Source::Stdout, bytes),
    })?;
    let ending = Ending {
        code: recording.exit_code,
        ..Ending::default()
    };
    let conclusion = session.finish(&ending, &mut host);
    let times = recorded_times(&conclusion.times);
    let account = Account::new(conclusion, recording.contender, &ending, times);
    host.log.finish(&account).map(drop)
}

/// There is no agent to talk to: events go to the log, the rest goes nowhere.
struct Recorder<W: Write> {
    log: LogWriter<W>,
}

impl<W: Write> SessionHost for Recorder<W> {
    fn event(&mut self, event: SessionEvent<'_>) {
        self.log.event(event);
    }
    fn reply(&mut self, _bytes: Vec<u8>) {}
    fn close_input(&mut self) {}
    fn end_within(&mut self, _grace: Duration) {}
}

fn recorded_times(times: &AgentTimes) -> Times {
    let parse = |text: &Option<String>| text.as_deref()?.parse::<jiff::Timestamp>().ok();
    let between = parse(&times.first).zip(parse(&times.last));
    let elapsed = between.and_then(|(first, last)| {
        let span = last.duration_since(first).as_millis();
        u64::try_from(span).ok()
    });
    Times {
        started_at: times.first.clone(),
        completed_at: times.last.clone(),
        duration_ms: times.duration_ms.or(elapsed),
    }
}

enum Line<'a> {
    Whole(&'a [u8]),
    Oversized(u64),
}

/// Cut `reader` into lines. A line that lies whole in the reader's buffer is not copied.
fn for_each_line(mut reader: impl BufRead, mut each: impl FnMut(Line<'_>)) -> io::Result<()> {
    let mut start = Vec::new();
    let mut dropped: u64 = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            break;
        }
        let end = memchr(b'\n', buffer);
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let used = piece.len() + usize::from(end.is_some());
        if dropped > 0 || start.len() + piece.len() > MAX_LINE_BYTES {
            dropped += (start.len() + piece.len()) as u64;
            start = Vec::new();
        } else if end.is_some() && start.is_empty() {
            each(Line::Whole(piece));
            reader.consume(used);
            continue;
        } else {
            start.extend_from_slice(piece);
        }
        if end.is_some() {
            give(&mut start, &mut dropped, &mut each);
        }
        reader.consume(used);
    }
    if dropped > 0 || !start.is_empty() {
        give(&mut start, &mut dropped, &mut each);
    }
    Ok(())
}

fn give(start: &mut Vec<u8>, dropped: &mut u64, each: &mut impl FnMut(Line<'_>)) {
    if *dropped > 0 {
        each(Line::Oversized(*dropped));
    } else {
        each(Line::Whole(start));
    }
    start.clear();
    *dropped = 0;
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(bytes: &[u8], buffer: usize) -> Vec<Result<Vec<u8>, u64>> {
        let mut lines = Vec::new();
        for_each_line(BufReader::with_capacity(buffer, bytes), |line| {
            lines.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::Oversized(bytes) => Err(bytes),
            });
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_are_the_same_whatever_the_buffer() {
        let text = b"one\n\ntwo \xf0\x9f\x8e\x89\nthree";
        let whole = lines(text, 1024);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[3], Ok(b"three".to_vec()));
        for buffer in 1..8 {
            assert_eq!(lines(text, buffer), whole);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_the_next_one_read() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + 1];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(
            lines(&text, 4096),
            [Err(MAX_LINE_BYTES as u64 + 1), Ok(b"next".to_vec())]
        );
    }
}
