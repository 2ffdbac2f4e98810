//! Output formats of a program: text, one JSON object per line, or the output of a known agent.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    outcome::Ending,
    session::{Conclusion, LineSource, Session, SessionHost},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::usage::{UsageReader, at};
use crate::{
    agent::Adapter, claude_code::ClaudeCode, copilot::COPILOT, opencode::OPENCODE,
    plain::PlainSession,
};

/// The output format of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Output")]
pub(super) enum OutputKind {
    /// Text; the exit code decides the outcome.
    #[default]
    Text,
    /// One JSON object per line; the exit code decides the outcome.
    Ndjson,
    /// The `stream-json` format of Claude Code.
    Claude,
    /// The format of `copilot --output-format json`.
    CopilotCli,
    /// The format of `opencode run --format json`.
    Opencode,
}

impl OutputKind {
    /// The session of the agent with this format.
    fn session(self) -> Option<Box<dyn Session>> {
        let adapter: &dyn Adapter = match self {
            OutputKind::Text | OutputKind::Ndjson => return None,
            OutputKind::Claude => &ClaudeCode,
            OutputKind::CopilotCli => &COPILOT,
            OutputKind::Opencode => &OPENCODE,
        };
        adapter.recorded_session()
    }
}

/// A wrapper of another session, with the configured usage.
pub(super) struct CommandSession {
    inner: Box<dyn Session>,
    output: OutputKind,
    message: Option<String>,
    usage: Option<UsageReader>,
    usage_file: Option<Utf8PathBuf>,
    malformed_lines: u64,
}

impl CommandSession {
    pub(super) fn new(
        output: OutputKind,
        message: Option<String>,
        usage: Option<UsageReader>,
        usage_file: Option<Utf8PathBuf>,
    ) -> CommandSession {
        let plain = || Box::new(PlainSession::default()) as Box<dyn Session>;
        CommandSession {
            inner: output.session().unwrap_or_else(plain),
            output,
            message,
            usage,
            usage_file,
            malformed_lines: 0,
        }
    }

    /// Reads a line of JSON: reports the model's text and records the usage.
    fn json(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            self.malformed_lines += u64::from(!line.trim_ascii().is_empty());
            return;
        };
        if let Some(usage) = self.usage.as_mut().filter(|_| self.usage_file.is_none()) {
            usage.read(&value);
        }
        match &self.message {
            None => self.inner.on_line(LineSource::Stdout, line, host),
            Some(path) => {
                if let Some(said) = at(&value, path).and_then(Value::as_str) {
                    self.inner
                        .on_line(LineSource::Stdout, said.as_bytes(), host);
                }
            }
        }
    }
}

impl Session for CommandSession {
    fn on_open(&mut self, host: &mut dyn SessionHost) {
        self.inner.on_open(host);
    }

    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost) {
        if self.output == OutputKind::Ndjson && source == LineSource::Stdout {
            self.json(line, host);
        } else {
            self.inner.on_line(source, line, host);
        }
    }

    fn takes_blocks(&self) -> bool {
        self.output == OutputKind::Text && self.inner.takes_blocks()
    }

    fn on_block(&mut self, source: LineSource, lines: &[u8], host: &mut dyn SessionHost) {
        self.inner.on_block(source, lines, host);
    }

    fn on_oversized_line(&mut self, source: LineSource, bytes: u64) {
        self.inner.on_oversized_line(source, bytes);
    }

    fn on_file(&mut self, _path: &Utf8Path, bytes: &[u8], _host: &mut dyn SessionHost) {
        if let Some(usage) = &mut self.usage {
            usage.read_file(bytes);
        }
    }

    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        let mut conclusion = self.inner.finish(ending, host);
        conclusion.counts.malformed_lines += self.malformed_lines;
        if let Some(usage) = self.usage {
            conclusion.usage = usage.conclude();
        }
        conclusion
    }
}
