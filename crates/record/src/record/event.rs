//! The events of a run. Those of a trial are recorded as they are, one JSON object on each line of `events.ndjson`;
//! the terminal, the live view and pages read the same type. Long texts are cut: the whole session is in the log.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    IterationReason, Record, TrialStatus, Verdict, VerdictStatus,
    event_text::{plain, target},
};
use crate::{
    outcome::Outcome,
    session::{MessageKind, Role, SessionEvent, Text},
    usage::{Usage, Usd},
};

/// The event stream of a trial, in its artifacts folder.
pub const EVENTS_FILE: &str = "events.ndjson";

/// The maximum length of a text in an event, in bytes.
pub const LONGEST_TEXT: usize = 4096;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since the trial started.
    pub t: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The event callback of a trial.
pub type Listener<'a> = dyn Fn(&Event) + Send + Sync + 'a;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run begins. The file of a trial does not have it.
    RunStarted {
        /// Its directory.
        run_dir: Utf8PathBuf,
        /// The number of its trials.
        trials: usize,
    },
    /// The trial starts.
    Started {
        /// The agent.
        agent: String,
        /// The task.
        task: String,
        /// The number, from 1.
        trial: u32,
        /// The time.
        at: String,
    },
    /// The next phase starts.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// The agent is restarted, or its fallback is started.
    Iteration {
        /// The number of the start, from 1.
        number: u32,
        /// The started agent.
        agent: String,
        /// The reason.
        reason: IterationReason,
    },
    /// The running agent, once known.
    Session {
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The agent's version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The agent's own id of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
    },
    /// The next part of a message that the agent is still writing.
    Saying(Passage),
    /// A message of the agent.
    Said(Passage),
    /// A thought of the agent.
    Thought(Passage),
    /// A tool call of the agent.
    Tool {
        /// The call's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool.
        tool: String,
        /// Its target.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// A tool's result.
    ToolResult {
        /// The id of the call.
        id: String,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A retry, a denial, a compaction.
    Note(Passage),
    /// The usage so far.
    Usage {
        /// Tokens in, without cached ones.
        input_tokens: u64,
        /// Output tokens.
        output_tokens: u64,
    },
    /// An evaluator's verdict.
    Judged {
        /// The evaluator.
        evaluator: String,
        /// The status.
        status: VerdictStatus,
        /// The message in one line.
        message: String,
    },
    /// The trial has ended.
    Ended(Ended),
    /// Events that are missing, because the disk was too slow or the file too long.
    Lost {
        /// The number of events.
        events: u64,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// The current phase of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Fetching the repo, creating the workspace.
    Preparing,
    /// The agent works.
    Running,
    /// The evaluators judge.
    Judging,
}

impl Phase {
    /// The name in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Preparing => "preparing",
            Phase::Running => "running",
            Phase::Judging => "judging",
        }
    }
}

/// A text, truncated at [`LONGEST_TEXT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The text.
    pub text: String,
    /// The number of omitted bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_bytes: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The result of a trial, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The status.
    pub status: TrialStatus,
    /// The outcome.
    pub outcome: Outcome,
    /// Input plus output, without cached input; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// The number of changed files; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
}

impl Passage {
    /// The truncated text.
    pub fn of(text: &str) -> Passage {
        let kept = text.floor_char_boundary(LONGEST_TEXT);
        Passage {
            text: text[..kept].to_owned(),
            cut_bytes: text.len() - kept,
        }
    }

    fn of_text(text: Text<'_>) -> Passage {
        match text {
            Text::Plain(text) | Text::Json(text) => Passage::of(text),
            Text::JsonString(_) => Passage::of(&plain(text).unwrap_or_default()),
        }
    }
}

impl Event {
    /// The start of a trial, now.
    pub fn started(agent: &str, task: &str, trial: u32) -> Event {
        Event::Started {
            agent: agent.to_owned(),
            task: task.to_owned(),
            trial,
            at: Timestamp::now().to_string(),
        }
    }

    /// The verdict of an evaluator.
    pub fn judged(verdict: &Verdict) -> Event {
        Event::Judged {
            evaluator: verdict.evaluator.clone(),
            status: verdict.status,
            message: Passage::of(&verdict.message).text,
        }
    }

    /// The end of a trial.
    pub fn ended(record: &Record) -> Event {
        Event::Ended(Ended {
            status: record.status,
            outcome: record.outcome,
            tokens: record.usage.as_ref().and_then(Usage::tokens),
            cost_usd: record.usage.as_ref().and_then(|usage| usage.total.cost_usd),
            files_changed: record.diff.as_ref().map(|diff| diff.files_changed),
        })
    }

    /// The event of an agent's session; `None` for messages that are not the agent's.
    pub fn of_session(event: SessionEvent<'_>) -> Option<Event> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(match event {
            SessionEvent::ToolCall {
                id,
                name,
                arguments,
                ..
            } => Event::Tool {
                id: owned(id),
                tool: name.to_owned(),
                target: target(arguments),
            },
            SessionEvent::ToolResult { id, is_error, .. } => Event::ToolResult {
                id: id.to_owned(),
                is_error,
            },
            SessionEvent::Started {
                model,
                version,
                session_id,
            } => Event::Session {
                model: owned(model),
                version: owned(version),
                session_id: owned(session_id),
            },
            SessionEvent::Partial(text) => Event::Saying(Passage::of_text(text)),
            SessionEvent::Message {
                role: Role::Assistant,
                kind,
                content,
                ..
            } => match kind {
                MessageKind::Text => Event::Said(Passage::of_text(content)),
                MessageKind::Thinking => Event::Thought(Passage::of_text(content)),
            },
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => Event::Usage {
                input_tokens,
                output_tokens,
            },
            SessionEvent::Note(note) => Event::Note(Passage::of(note)),
            SessionEvent::Message { .. } | SessionEvent::McpServers(_) => return None,
        })
    }

    /// Whether it is part of the agent's session, which may have any number of events. Other events
    /// are few and always kept.
    pub fn is_session(&self) -> bool {
        matches!(
            self,
            Event::Session { .. }
                | Event::Saying(_)
                | Event::Said(_)
                | Event::Thought(_)
                | Event::Tool { .. }
                | Event::ToolResult { .. }
                | Event::Note(_)
                | Event::Usage { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: Event) -> String {
        let entry = Entry { t: 7, event };
        let line = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        line
    }

    #[test]
    fn events_are_flat_objects_and_can_be_read_back() {
        let said = SessionEvent::Message {
            role: Role::Assistant,
            kind: MessageKind::Text,
            content: Text::JsonString(r#""a\nb""#),
            timestamp: None,
            parent: None,
        };
        let said = Event::of_session(said).unwrap();
        assert_eq!(line(said), r#"{"t":7,"event":"said","text":"a\nb"}"#);
        let tool = Event::Tool {
            id: Some("x".to_owned()),
            tool: "Edit".to_owned(),
            target: target(Text::Json(r#"{"file_path":"a.rs","old":"b"}"#)),
        };
        assert_eq!(
            line(tool),
            r#"{"t":7,"event":"tool","id":"x","tool":"Edit","target":"a.rs"}"#
        );
        let tokens = Event::Usage {
            input_tokens: 3,
            output_tokens: 4,
        };
        assert_eq!(
            line(tokens),
            r#"{"t":7,"event":"usage","input_tokens":3,"output_tokens":4}"#
        );
        let phase = Event::Phase {
            phase: Phase::Judging,
        };
        assert_eq!(line(phase), r#"{"t":7,"event":"phase","phase":"judging"}"#);
    }

    #[test]
    fn long_text_is_truncated_at_a_character_boundary() {
        let long = "ä".repeat(LONGEST_TEXT);
        let passage = Passage::of(&format!("x{long}"));
        assert!(passage.text.len() <= LONGEST_TEXT);
        assert_eq!(passage.text.len() + passage.cut_bytes, 2 * LONGEST_TEXT + 1);
        assert_eq!(Passage::of("short").cut_bytes, 0);
    }

    #[test]
    fn event_of_a_later_version_is_accepted() {
        let entry: Entry =
            serde_json::from_str(r#"{"t":1,"event":"danced","how":"well"}"#).unwrap();
        assert_eq!(entry.event, Event::Unknown);
    }
}
