//! What happens during a run, as one closed set of events between running and showing.

use serde_json::Value;

use crate::{
    evaluate::Verdict,
    session::{MessageKind, Role, SessionEvent, Text},
    store::Record,
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
    /// The agent uses a tool; [`target`] tells on what.
    ToolUsed {
        /// The tool.
        tool: &'a str,
        /// Its arguments.
        arguments: Text<'a>,
    },
    /// The agent says something; [`first_line`] is what a progress line has room for.
    Said(Text<'a>),
    /// What the agent has used so far.
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

/// What a trial is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Fetching the repo, making the workspace.
    Preparing,
    /// The agent works.
    Running,
    /// The evaluators judge.
    Judging,
}

/// Who is told.
pub type Listener<'a> = dyn Fn(&RunEvent<'_>) + Send + Sync + 'a;

/// The longest text that a progress line shows.
const SHOWN_CHARS: usize = 100;

impl<'a> RunEvent<'a> {
    /// What of a session's event is worth showing.
    pub fn from_session(event: SessionEvent<'a>) -> Option<RunEvent<'a>> {
        match event {
            SessionEvent::ToolCall {
                name, arguments, ..
            } => Some(RunEvent::ToolUsed {
                tool: name,
                arguments,
            }),
            SessionEvent::Message {
                role: Role::Assistant,
                kind: MessageKind::Text,
                content,
                ..
            } => Some(RunEvent::Said(content)),
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => Some(RunEvent::Tokens {
                input: input_tokens,
                output: output_tokens,
            }),
            SessionEvent::Note(note) => Some(RunEvent::Note(note)),
            SessionEvent::Message { .. }
            | SessionEvent::Started { .. }
            | SessionEvent::ToolResult { .. } => None,
        }
    }
}

/// What is said, as far as a progress line has room.
pub fn first_line(text: Text<'_>) -> String {
    plain(text).map_or_else(String::new, |text| shorten(&text))
}

/// What a tool is used on: the first of the arguments that usually say so.
pub fn target(arguments: Text<'_>) -> Option<String> {
    const TELLING: &[&str] = &[
        "file_path",
        "path",
        "notebook_path",
        "command",
        "pattern",
        "url",
        "query",
        "description",
        "prompt",
    ];
    match arguments {
        Text::Json(raw) => {
            let value: Value = serde_json::from_str(raw).ok()?;
            let text = TELLING.iter().find_map(|key| value.get(key)?.as_str())?;
            Some(shorten(text))
        }
        other => Some(shorten(&plain(other)?)),
    }
}

fn plain(text: Text<'_>) -> Option<String> {
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
