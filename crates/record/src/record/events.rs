//! `events.ndjson`: the events of a trial, one JSON object per line, for watching and playback. It
//! is the stream of [`RunEvent`]s, with long texts cut; the whole session is in the log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{IterationReason, TrialStatus};
use crate::{
    outcome::Outcome,
    record::{
        VerdictStatus,
        run_event::{Phase, RunEvent, plain, target},
    },
    session::Text,
    usage::{Usage, Usd},
};

/// The event stream of a trial, in its artifacts folder.
pub const EVENTS_FILE: &str = "events.ndjson";

/// The longest text of one event, in bytes.
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

/// Something that happened in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The trial begins.
    Started {
        /// The agent.
        agent: String,
        /// The task.
        task: String,
        /// The number, from 1.
        trial: u32,
        /// When.
        at: String,
    },
    /// It enters its next phase.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// Its agent is started once more, or its fallback is.
    Iteration {
        /// The number of the start, from 1.
        number: u32,
        /// The started agent.
        agent: String,
        /// Why.
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
    /// The agent says something.
    Said(Passage),
    /// The agent thinks something.
    Thought(Passage),
    /// The agent uses a tool.
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
    /// A tool answered.
    ToolResult {
        /// The call that it answers.
        id: String,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A retry, a denial, a compaction.
    Note(Passage),
    /// The usage so far.
    Usage {
        /// Tokens in, cached ones included.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
    },
    /// An evaluator gave its verdict.
    Judged {
        /// Which.
        evaluator: String,
        /// What it found.
        status: VerdictStatus,
        /// The finding in one line.
        message: String,
    },
    /// The trial has ended.
    Ended(Ended),
    /// Events that are not here, because the disk was too slow or the file too long.
    Lost {
        /// How many.
        events: u64,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// A text, cut at [`LONGEST_TEXT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The text.
    pub text: String,
    /// How many bytes of it are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_bytes: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The result of a trial, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The verdict.
    pub status: TrialStatus,
    /// What became of it.
    pub outcome: Outcome,
    /// All tokens, cached ones included; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// How many files were changed; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
}

impl Passage {
    /// As much of a text as an event holds.
    pub fn of(text: &str) -> Passage {
        let kept = text.floor_char_boundary(LONGEST_TEXT);
        Passage {
            text: text[..kept].to_owned(),
            cut_bytes: text.len() - kept,
        }
    }

    fn of_text(text: Text<'_>) -> Passage {
        Passage::of(&plain(text).unwrap_or_default())
    }
}

impl Event {
    /// The event to keep; `None` for run-level events.
    pub fn of(event: &RunEvent<'_>) -> Option<Event> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(match event {
            RunEvent::RunStarted { .. } => return None,
            RunEvent::TrialStarted(name) => Event::Started {
                agent: name.agent.to_owned(),
                task: name.task.to_owned(),
                trial: name.trial,
                at: Timestamp::now().to_string(),
            },
            RunEvent::Phase(phase) => Event::Phase { phase: *phase },
            RunEvent::Iteration {
                number,
                agent,
                reason,
            } => Event::Iteration {
                number: *number,
                agent: (*agent).to_owned(),
                reason: *reason,
            },
            RunEvent::SessionStarted {
                model,
                version,
                session_id,
            } => Event::Session {
                model: owned(*model),
                version: owned(*version),
                session_id: owned(*session_id),
            },
            RunEvent::Said(text) => Event::Said(Passage::of_text(*text)),
            RunEvent::Thought(text) => Event::Thought(Passage::of_text(*text)),
            RunEvent::ToolUsed {
                id,
                tool,
                arguments,
            } => Event::Tool {
                id: owned(*id),
                tool: (*tool).to_owned(),
                target: target(*arguments),
            },
            RunEvent::ToolAnswered { id, is_error } => Event::ToolResult {
                id: (*id).to_owned(),
                is_error: *is_error,
            },
            RunEvent::Note(note) => Event::Note(Passage::of(note)),
            RunEvent::Tokens { input, output } => Event::Usage {
                input_tokens: *input,
                output_tokens: *output,
            },
            RunEvent::Judged(verdict) => Event::Judged {
                evaluator: verdict.evaluator.clone(),
                status: verdict.status,
                message: Passage::of(&verdict.message).text,
            },
            RunEvent::TrialEnded(record) => Event::Ended(Ended {
                status: record.status,
                outcome: record.outcome,
                tokens: record.usage.as_ref().and_then(Usage::all_tokens),
                cost_usd: record.usage.as_ref().and_then(|usage| usage.total.cost_usd),
                files_changed: record.diff.as_ref().map(|diff| diff.files_changed),
            }),
        })
    }

    /// Whether it is part of the agent's session, of which there may be any number. The others
    /// are few and always kept.
    pub fn is_session(&self) -> bool {
        matches!(
            self,
            Event::Session { .. }
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

    fn line(event: &RunEvent<'_>) -> String {
        let event = Event::of(event).unwrap();
        let entry = Entry { t: 7, event };
        let line = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        line
    }

    #[test]
    fn events_are_flat_objects_and_come_back_as_they_were() {
        let said = RunEvent::Said(Text::JsonString(r#""a\nb""#));
        assert_eq!(line(&said), r#"{"t":7,"event":"said","text":"a\nb"}"#);
        let tool = RunEvent::ToolUsed {
            id: Some("x"),
            tool: "Edit",
            arguments: Text::Json(r#"{"file_path":"a.rs","old":"b"}"#),
        };
        assert_eq!(
            line(&tool),
            r#"{"t":7,"event":"tool","id":"x","tool":"Edit","target":"a.rs"}"#
        );
        let tokens = RunEvent::Tokens {
            input: 3,
            output: 4,
        };
        assert_eq!(
            line(&tokens),
            r#"{"t":7,"event":"usage","input_tokens":3,"output_tokens":4}"#
        );
        assert_eq!(
            line(&RunEvent::Phase(Phase::Judging)),
            r#"{"t":7,"event":"phase","phase":"judging"}"#
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_by_how_much() {
        let long = "ä".repeat(LONGEST_TEXT);
        let passage = Passage::of(&format!("x{long}"));
        assert!(passage.text.len() <= LONGEST_TEXT);
        assert_eq!(passage.text.len() + passage.cut_bytes, 2 * LONGEST_TEXT + 1);
        assert_eq!(Passage::of("short").cut_bytes, 0);
    }

    #[test]
    fn an_event_of_a_later_version_is_no_error() {
        let entry: Entry =
            serde_json::from_str(r#"{"t":1,"event":"danced","how":"well"}"#).unwrap();
        assert_eq!(entry.event, Event::Unknown);
    }
}
