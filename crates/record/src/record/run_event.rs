//! The events of a run, as one closed set between running and showing.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    record::{IterationReason, Record, Verdict},
    session::{MessageKind, Role, SessionEvent, Text},
};

/// Something happened.
#[derive(Clone, Debug)]
pub enum RunEvent<'a> {
    /// The run begins.
    RunStarted {
        /// Its folder.
        run_dir: &'a camino::Utf8Path,
        /// How many trials it has.
        trials: usize,
    },
    /// A trial begins.
    TrialStarted(TrialName<'a>),
    /// A trial enters its next phase.
    Phase(Phase),
    /// Its agent is started once more, or its fallback is.
    Iteration {
        /// The number of the start, from 1.
        number: u32,
        /// The started agent.
        agent: &'a str,
        /// Why.
        reason: IterationReason,
    },
    /// The running agent, once known.
    SessionStarted {
        /// The model, as the agent names it.
        model: Option<&'a str>,
        /// The agent's version.
        version: Option<&'a str>,
        /// The agent's own id of the session.
        session_id: Option<&'a str>,
    },
    /// The agent uses a tool; [`target`] tells on what.
    ToolUsed {
        /// The call's id, to be found again in its answer.
        id: Option<&'a str>,
        /// The tool.
        tool: &'a str,
        /// Its arguments.
        arguments: Text<'a>,
    },
    /// A tool answered.
    ToolAnswered {
        /// The call that it answers.
        id: &'a str,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// The agent says something; [`first_line`] is what a progress line has room for.
    Said(Text<'a>),
    /// The agent thinks something.
    Thought(Text<'a>),
    /// The agent's usage so far.
    Tokens {
        /// Tokens in, cached ones included.
        input: u64,
        /// Tokens out.
        output: u64,
    },
    /// Something worth a line.
    Note(&'a str),
    /// An evaluator gave its verdict.
    Judged(&'a Verdict),
    /// A trial has ended.
    TrialEnded(&'a Record),
}

/// Which trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialName<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The task.
    pub task: &'a str,
    /// The number, from 1.
    pub trial: u32,
}

/// The current phase of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Fetching the repo, making the workspace.
    Preparing,
    /// The agent works.
    Running,
    /// The evaluators judge.
    Judging,
}

impl Phase {
    /// The word used in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Preparing => "preparing",
            Phase::Running => "running",
            Phase::Judging => "judging",
        }
    }
}

/// The event callback.
pub type Listener<'a> = dyn Fn(&RunEvent<'_>) + Send + Sync + 'a;

/// The longest text that a progress line shows.
const SHOWN_CHARS: usize = 100;

impl<'a> RunEvent<'a> {
    /// The part of a session's event that is worth showing.
    pub fn from_session(event: SessionEvent<'a>) -> Option<RunEvent<'a>> {
        match event {
            SessionEvent::ToolCall {
                id,
                name,
                arguments,
                ..
            } => Some(RunEvent::ToolUsed {
                id,
                tool: name,
                arguments,
            }),
            SessionEvent::ToolResult { id, is_error, .. } => {
                Some(RunEvent::ToolAnswered { id, is_error })
            }
            SessionEvent::Started {
                model,
                version,
                session_id,
            } => Some(RunEvent::SessionStarted {
                model,
                version,
                session_id,
            }),
            SessionEvent::Message {
                role: Role::Assistant,
                kind,
                content,
                ..
            } => Some(match kind {
                MessageKind::Text => RunEvent::Said(content),
                MessageKind::Thinking => RunEvent::Thought(content),
            }),
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => Some(RunEvent::Tokens {
                input: input_tokens,
                output: output_tokens,
            }),
            SessionEvent::Note(note) => Some(RunEvent::Note(note)),
            SessionEvent::Message { .. } => None,
        }
    }
}

/// The message, cropped for a progress line.
pub fn first_line(text: Text<'_>) -> String {
    plain(text).map_or_else(String::new, |text| shorten(&text))
}

/// The arguments that usually name a tool's target. Other arguments (often a whole file) are
/// skipped.
#[derive(Deserialize)]
struct Telling<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    path: Option<&'a RawValue>,
    notebook_path: Option<&'a RawValue>,
    command: Option<&'a RawValue>,
    pattern: Option<&'a RawValue>,
    url: Option<&'a RawValue>,
    query: Option<&'a RawValue>,
    description: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
}

/// The target of a tool: the first of the arguments that usually name it.
pub fn target(arguments: Text<'_>) -> Option<String> {
    match arguments {
        Text::Json(raw) => {
            let told: Telling<'_> = serde_json::from_str(raw).ok()?;
            let in_order = [
                told.file_path,
                told.path,
                told.notebook_path,
                told.command,
                told.pattern,
                told.url,
                told.query,
                told.description,
                told.prompt,
            ];
            let mut texts = in_order.into_iter().flatten();
            let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
            texts.find_map(text).map(|text| shorten(&text))
        }
        other => Some(shorten(&plain(other)?)),
    }
}

/// The text of a message, unescaped.
pub fn plain(text: Text<'_>) -> Option<String> {
    match text {
        Text::Plain(text) => Some(text.to_owned()),
        Text::JsonString(raw) => serde_json::from_str(raw).ok(),
        Text::Json(raw) => Some(raw.to_owned()),
    }
}

/// The first line with something on it, cut to what a progress line holds; control characters
/// of an agent must not reach the user's terminal.
fn shorten(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let shown: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_CHARS)
        .collect();
    if line.chars().count() > SHOWN_CHARS {
        format!("{shown}…")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_tells_what_it_is_used_on() {
        let raw = r#"{"content": "x", "file_path": "/w/a.rs"}"#;
        assert_eq!(target(Text::Json(raw)).unwrap(), "/w/a.rs");
    }

    #[test]
    fn what_is_shown_has_one_line_and_no_escapes() {
        assert_eq!(shorten("\n  \x1b[31mred\x1b[0m\nsecond"), "[31mred[0m");
        assert_eq!(shorten(&"x".repeat(300)).chars().count(), SHOWN_CHARS + 1);
    }
}
