//! The session of a CLI agent, with a reader of its output: standard error, lines that are not
//! events, and the conclusion are shared.

use camino::Utf8Path;
use proctor_record::{
    outcome::Ending,
    session::{Conclusion, LineSource, Session, SessionHost},
    usage::Usage,
};
use serde_json::Value;

use super::{transcript::Transcript, verdict::CliNames};

/// Reads the output of one CLI: one JSON event per line, unless it overrides `line`.
pub(super) trait Reader: Default + Send + 'static {
    fn transcript(&mut self) -> &mut Transcript;

    /// Reads one event.
    fn event(&mut self, _event: &Value, _host: &mut dyn SessionHost) {}

    /// Reads one line of standard output.
    fn line(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        if let Some(event) = self.transcript().object(line) {
            self.event(&event, host);
        }
    }

    /// Reads one line of standard error.
    fn stderr(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        self.transcript().stderr(line, host);
    }

    /// Reads a file of the CLI.
    fn file(&mut self, _bytes: &[u8], _host: &mut dyn SessionHost) {}

    /// Completes the transcript. Returns the usage.
    fn finish(&mut self, ending: &Ending, host: &mut dyn SessionHost) -> Option<Usage>;
}

/// The session of a CLI with the reader `R`.
pub(super) struct CliSession<R> {
    names: CliNames,
    reader: R,
}

impl<R: Reader> CliSession<R> {
    pub(super) fn start(names: CliNames) -> Box<dyn Session> {
        let reader = R::default();
        Box::new(CliSession { names, reader })
    }
}

impl<R: Reader> Session for CliSession<R> {
    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost) {
        match source {
            LineSource::Stderr => self.reader.stderr(line, host),
            LineSource::Stdout | LineSource::Socket => self.reader.line(line, host),
        }
    }

    fn on_oversized_line(&mut self, _source: LineSource, _bytes: u64) {
        self.reader.transcript().counts.oversized_lines += 1;
    }

    fn on_file(&mut self, _path: &Utf8Path, bytes: &[u8], host: &mut dyn SessionHost) {
        self.reader.file(bytes, host);
    }

    fn finish(mut self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        let usage = self.reader.finish(ending, host);
        let transcript = std::mem::take(self.reader.transcript());
        transcript.conclude(self.names, usage, ending)
    }
}
