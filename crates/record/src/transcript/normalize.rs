//! Turns a recorded output into the log, in one streaming pass with flat memory. Any bytes
//! give a document; only reading and writing can fail.

use std::{
    io::{self, BufRead, BufWriter, Write},
    time::Duration,
};

use camino::Utf8Path;
use proctor_process::{Line, Lines};

use super::{Account, AtifWriter, Contender, Known, LogWriter, Times};
use crate::{
    outcome::Ending,
    session::{AgentTimes, Session, SessionEvent, SessionHost, Source},
};

/// The data of a recorded output besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct Recording<'a> {
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// Who ran.
    pub contender: Contender<'a>,
    /// Files that the agent left and its session reads.
    pub files: Vec<Vec<u8>>,
    /// The output format.
    pub format: Format,
    /// Data that the output itself may lack; only a trajectory has a place for it.
    pub known: Known,
}

/// The target formats of a recorded output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The log, as in `youbencha-log.json`.
    #[default]
    Log,
    /// An ATIF trajectory.
    Atif,
}

/// Read a recorded output with `session` and write the log. The times are those that the
/// output tells; without any they are null.
pub fn normalize(
    mut session: Box<dyn Session>,
    reader: impl BufRead,
    writer: impl Write,
    recording: Recording<'_>,
) -> io::Result<()> {
    let mut host = match recording.format {
        Format::Log => Recorder::Log(Box::new(LogWriter::new(writer))),
        Format::Atif => {
            let out = BufWriter::new(writer);
            Recorder::Atif(Box::new(AtifWriter::new(out, recording.known)))
        }
    };
    for_each_line(reader, |line| match line {
        Line::Whole(line) => session.on_line(Source::Stdout, line, &mut host),
        Line::Oversized { bytes } => session.on_oversized_line(Source::Stdout, bytes),
    })?;
    for file in &recording.files {
        session.on_file(Utf8Path::new(""), file, &mut host);
    }
    let ending = Ending {
        code: recording.exit_code,
        ..Ending::default()
    };
    let conclusion = session.finish(&ending, &mut host);
    let times = recorded_times(&conclusion.times);
    let account = Account::new(conclusion, recording.contender, &ending, times);
    match host {
        Recorder::Log(log) => log.finish(&account).map(drop),
        Recorder::Atif(trajectory) => trajectory.finish(&account).map(drop),
    }
}

/// There is no agent to talk to: events are written down, the rest goes nowhere.
enum Recorder<W: Write> {
    Log(Box<LogWriter<W>>),
    Atif(Box<AtifWriter<BufWriter<W>>>),
}

impl<W: Write> SessionHost for Recorder<W> {
    fn event(&mut self, event: SessionEvent<'_>) {
        match self {
            Recorder::Log(log) => log.event(event),
            Recorder::Atif(trajectory) => trajectory.event(event),
        }
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

/// Cut `reader` into lines. A line that lies whole in the reader's buffer is not copied.
fn for_each_line(mut reader: impl BufRead, mut each: impl FnMut(Line<'_>)) -> io::Result<()> {
    let mut lines = Lines::default();
    loop {
        let mut chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = chunk.len();
        if read == 0 {
            break;
        }
        while let Some(line) = lines.next(&mut chunk) {
            each(line);
        }
        reader.consume(read);
    }
    if let Some(line) = lines.finish() {
        each(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_buffer_ends() {
        let text = b"ab\n\nlonger than any buffer here\nno end";
        for capacity in 1..=text.len() {
            let mut found = Vec::new();
            for_each_line(
                BufReader::with_capacity(capacity, &text[..]),
                |line| match line {
                    Line::Whole(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                    Line::Oversized { .. } => panic!("no line is too long"),
                },
            )
            .unwrap();
            assert_eq!(found, ["ab", "", "longer than any buffer here", "no end"]);
        }
    }
}
