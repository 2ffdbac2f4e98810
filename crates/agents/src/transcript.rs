//! State shared by the sessions of all CLIs: the agent, counts, the last message.

use std::collections::VecDeque;

use proctor_record::{
    outcome::Ending,
    session::{
        AgentTimes, Conclusion, Counts, LogError, MessageKind, Role, SessionEvent, SessionHost,
        Text,
    },
    transcript::strip_ansi,
    usage::Usage,
};
use serde_json::Value;

use super::verdict::{CliNames, End};

/// The code of warnings, without the CLI's prefix.
const MALFORMED: &str = "MALFORMED_LINE";
const MAX_WARNINGS: usize = 5;
/// The number of lines of standard error in an error message.
const QUOTED_LINES: usize = 5;
/// The maximum number of characters of a quoted line.
const QUOTED_CHARS: usize = 300;

/// The state of a session.
#[derive(Default)]
pub(super) struct Transcript {
    pub(super) end: End,
    pub(super) counts: Counts,
    pub(super) times: AgentTimes,
    pub(super) model: Option<String>,
    pub(super) version: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) turns: Option<u64>,
    final_text: String,
    last_errors: VecDeque<String>,
    warnings: Vec<LogError>,
}

impl Transcript {
    /// Reads a line as a JSON object with a `type`. Terminal escapes around it and invalid UTF-8
    /// are tolerated; other lines are counted.
    pub(super) fn object(&mut self, line: &[u8]) -> Option<Value> {
        let text = String::from_utf8_lossy(line);
        let text = strip_ansi(&text);
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.get("type").is_some_and(Value::is_string) => Some(value),
            _ => {
                self.malformed(text);
                None
            }
        }
    }

    fn malformed(&mut self, text: &str) {
        self.counts.malformed_lines += 1;
        if self.warnings.len() < MAX_WARNINGS {
            let shown = &text[..text.floor_char_boundary(120)];
            let mut warning = LogError::new(MALFORMED, format!("not an event, skipped: {shown}"));
            warning.timestamp.clone_from(&self.times.last);
            self.warnings.push(warning);
        }
    }

    /// Reads a line of standard error: it is logged, and quoted if the run fails.
    pub(super) fn stderr(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let text = String::from_utf8_lossy(line);
        let text = strip_ansi(&text);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        say(host, Role::System, text, None);
        if self.last_errors.len() == QUOTED_LINES {
            self.last_errors.pop_front();
        }
        let quoted = &text[..text.floor_char_boundary(QUOTED_CHARS)];
        self.last_errors.push_back(quoted.trim().to_owned());
    }

    /// Reports a message of the model.
    pub(super) fn said(&mut self, text: &str, host: &mut dyn SessionHost) {
        if text.trim().is_empty() {
            return;
        }
        self.final_text.clear();
        self.final_text.push_str(text);
        say(host, Role::Assistant, text, self.times.last.as_deref());
    }

    /// Sets the time from a timestamp.
    pub(super) fn time(&mut self, timestamp: &str) {
        if self.times.first.is_none() {
            self.times.first = Some(timestamp.to_owned());
        }
        let last = self.times.last.get_or_insert_default();
        last.clear();
        last.push_str(timestamp);
    }

    /// Sets the time in milliseconds since the Unix epoch.
    pub(super) fn time_ms(&mut self, millis: i64) {
        if let Ok(time) = jiff::Timestamp::from_millisecond(millis) {
            self.time(&format!("{time:.3}"));
        }
    }

    /// Reports the agent's identity, once it is known.
    pub(super) fn started(&self, host: &mut dyn SessionHost) {
        host.event(SessionEvent::Started {
            model: self.model.as_deref(),
            version: self.version.as_deref(),
            session_id: self.session_id.as_deref(),
        });
    }

    /// Records a retry of a call.
    pub(super) fn retry(&mut self, note: &str, host: &mut dyn SessionHost) {
        self.counts.retries += 1;
        host.event(SessionEvent::Note(note));
    }

    /// The conclusion, with the usage.
    pub(super) fn conclude(
        self,
        names: CliNames,
        usage: Option<Usage>,
        ending: &Ending,
    ) -> Conclusion {
        let last_words = Vec::from(self.last_errors).join(" / ");
        let is_unused = usage
            .as_ref()
            .is_some_and(|usage| usage.total.all_tokens() == Some(0));
        let end = match self.end {
            End::Done if is_unused && self.final_text.is_empty() => End::Error {
                code: "NO_MODEL_CALL",
                why: "reported success without a model call".to_owned(),
            },
            end => end,
        };
        let (outcome, mut errors) = names.judge(&end, ending, &last_words);
        errors.extend(self.warnings.into_iter().map(|mut warning| {
            warning.code = Some(format!("{}_{MALFORMED}", names.code));
            warning
        }));
        Conclusion {
            version: self.version,
            model: self.model,
            session_id: self.session_id,
            turns: self.turns,
            usage,
            final_text: Some(self.final_text).filter(|text| !text.is_empty()),
            counts: self.counts,
            times: self.times,
            ..Conclusion::of(outcome, errors)
        }
    }
}

/// Reports a message.
pub(super) fn say(host: &mut dyn SessionHost, role: Role, content: &str, timestamp: Option<&str>) {
    host.event(SessionEvent::Message {
        role,
        kind: MessageKind::Text,
        content: Text::Plain(content),
        timestamp,
        parent: None,
    });
}

/// Reports a thought.
pub(super) fn think(host: &mut dyn SessionHost, content: &str, timestamp: Option<&str>) {
    host.event(SessionEvent::Message {
        role: Role::Assistant,
        kind: MessageKind::Thinking,
        content: Text::Plain(content),
        timestamp,
        parent: None,
    });
}

/// Reports a tool call.
pub(super) fn call(
    host: &mut dyn SessionHost,
    id: Option<&str>,
    name: &str,
    arguments: &Value,
    parent: Option<&str>,
) {
    host.event(SessionEvent::ToolCall {
        id,
        name,
        arguments: Text::Json(&arguments.to_string()),
        parent,
    });
}

/// Reports a tool's result.
pub(super) fn answer(host: &mut dyn SessionHost, id: &str, content: &str, failed: Failed) {
    host.event(SessionEvent::ToolResult {
        id,
        content: (!content.is_empty()).then_some(Text::Plain(content)),
        is_error: failed == Failed::Yes,
    });
}

/// Whether a tool failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Yes,
    No,
}

/// The text at a JSON pointer.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}
