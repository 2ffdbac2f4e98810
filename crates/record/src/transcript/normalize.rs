//! Converts recorded output to the log, in one streaming pass with constant memory. Any bytes are
//! accepted; only reading and writing can fail.

use std::{
    io::{self, BufRead, BufWriter, Write},
    time::Duration,
};

use camino::Utf8Path;
use proctor_process::{Line, Lines};

use super::{Account, AgentContext, AtifWriter, LogWriter, SessionInfo, Times};
use crate::{
    outcome::Ending,
    session::{AgentTimes, Conclusion, LineSource, LogError, Session, SessionEvent, SessionHost},
};

/// Data about recorded output in addition to its bytes.
#[derive(Clone, Debug, Default)]
pub struct Recording<'a> {
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// The agent.
    pub agent: AgentContext<'a>,
    /// Files of the agent that its session reads.
    pub files: Vec<Vec<u8>>,
    /// The output format.
    pub format: Format,
    /// Data that the output may lack; only a trajectory can contain it.
    pub known: SessionInfo,
    /// The error code for output that was truncated before it was stored.
    pub truncated_code: Option<&'a str>,
}

/// The start of the line that ends a truncated terminal log.
const TRUNCATED: &[u8] = b"[OUTPUT TRUNCATED";

/// The target formats of a recorded output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The log, as in `youbencha-log.json`.
    #[default]
    Log,
    /// An ATIF trajectory.
    Atif,
}

/// Whether an output was that of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A session of the agent.
    Session,
    /// Other text: nothing in it identifies a session.
    NoSession,
}

/// Reads recorded output with `session` and writes the log. The times come from the output; without
/// any they are null.
pub fn normalize(
    mut session: Box<dyn Session>,
    reader: impl BufRead,
    writer: impl Write,
    recording: Recording<'_>,
) -> io::Result<Found> {
    let mut host = match recording.format {
        Format::Log => Recorder::Log(Box::new(LogWriter::recorded(writer))),
        Format::Atif => {
            let out = BufWriter::new(writer);
            Recorder::Atif(Box::new(AtifWriter::new(out, recording.known)))
        }
    };
    let mut is_truncated = false;
    for_each_line(reader, |line| match line {
        Line::Whole(line) if line.starts_with(TRUNCATED) => is_truncated = true,
        Line::Whole(line) => session.on_line(LineSource::Stdout, line, &mut host),
        Line::Oversized { bytes } => session.on_oversized_line(LineSource::Stdout, bytes),
    })?;
    for file in &recording.files {
        session.on_file(Utf8Path::new(""), file, &mut host);
    }
    let ending = Ending {
        code: recording.exit_code,
        ..Ending::default()
    };
    let mut conclusion = session.finish(&ending, &mut host);
    let mut found = found(&conclusion);
    if is_truncated {
        // Only logs of agents end in this line.
        found = Found::Session;
        let code = recording.truncated_code.unwrap_or("OUTPUT_TRUNCATED");
        let message = "the output was truncated at the size limit of the terminal log (10 MB unless the test case sets another)";
        conclusion.errors.push(LogError::new(code, message));
    }
    let times = recorded_times(&conclusion.times);
    let account = Account::new(conclusion, recording.agent, &ending, times);
    match host {
        Recorder::Log(log) => log.finish(&account).map(drop)?,
        Recorder::Atif(trajectory) => trajectory.finish(&account).map(drop)?,
    }
    Ok(found)
}

/// Every agent names itself, its model or its session, or says what it used.
fn found(conclusion: &Conclusion) -> Found {
    let names = [
        &conclusion.version,
        &conclusion.model,
        &conclusion.session_id,
    ];
    let has_figures = conclusion.usage.is_some() || conclusion.turns.is_some();
    if has_figures || names.iter().any(|name| name.is_some()) {
        Found::Session
    } else {
        Found::NoSession
    }
}

/// Records events. There is no agent, so requests are ignored.
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

/// Splits `reader` into lines. A line that is complete in the reader's buffer is not copied.
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
    use crate::{outcome::Outcome, session::Conclusion, transcript::Document};

    struct Nothing;

    impl Session for Nothing {
        fn on_line(&mut self, _: LineSource, line: &[u8], _: &mut dyn SessionHost) {
            assert_eq!(line, b"said [OUTPUT TRUNCATED");
        }
        fn on_oversized_line(&mut self, _: LineSource, _: u64) {}
        fn finish(self: Box<Self>, _: &Ending, _: &mut dyn SessionHost) -> Conclusion {
            Conclusion::of(Outcome::Completed, Vec::new())
        }
    }

    #[test]
    fn truncation_marker_becomes_an_error() {
        for (output, codes) in [
            ("said [OUTPUT TRUNCATED\n", vec![]),
            (
                "said [OUTPUT TRUNCATED\n[OUTPUT TRUNCATED: only 5]\n",
                vec!["X_TRUNCATED"],
            ),
        ] {
            let mut log = Vec::new();
            let recording = Recording {
                truncated_code: Some("X_TRUNCATED"),
                ..Recording::default()
            };
            let session = Box::new(Nothing);
            let found = normalize(session, output.as_bytes(), &mut log, recording).unwrap();
            assert_eq!(found == Found::Session, !codes.is_empty(), "{output}");
            let log: Document = serde_json::from_slice(&log).unwrap();
            let errors = log.account.errors.iter();
            let found: Vec<&str> = errors.filter_map(|error| error.code.as_deref()).collect();
            assert_eq!(found, codes, "{output}");
        }
    }

    #[test]
    fn lines_are_complete_at_all_buffer_boundaries() {
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
