//! A session: the adapter's reading of one agent's output. It is fed lines, tells what it
//! understood as events, may answer the agent, and draws the conclusion at the end.
//! Sessions do no I/O and never fail: what they do not understand is counted.

use std::time::Duration;

use camino::Utf8Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    outcome::{Ending, Outcome},
    usage::Usage,
};

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The agent's standard output (also a PTY).
    Stdout,
    /// The agent's standard error.
    Stderr,
    /// A socket that the agent connected to.
    Socket,
}

/// The adapter's reading of one agent's output.
pub trait Session: Send {
    /// The way to the agent is open: standard input at the start, or a socket at each
    /// connection. A session that drives the agent speaks first here.
    fn on_open(&mut self, _host: &mut dyn SessionHost) {}

    /// One whole line, without its line end.
    fn on_line(&mut self, source: Source, line: &[u8], host: &mut dyn SessionHost);

    /// Whether the session takes several lines at once, by `on_block`, from now on.
    fn takes_blocks(&self) -> bool {
        false
    }

    /// Whole lines with their line ends, of a session that takes several at once.
    fn on_block(&mut self, _source: Source, _lines: &[u8], _host: &mut dyn SessionHost) {}

    /// A line too long to be parsed went by; it is in the raw log only.
    fn on_oversized_line(&mut self, source: Source, bytes: u64);

    /// A file that `Launch::collect` names: read after all output and before `finish`. Missing
    /// files are skipped.
    fn on_file(&mut self, _path: &Utf8Path, _bytes: &[u8], _host: &mut dyn SessionHost) {}

    /// The process has ended and all its output was seen.
    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion;
}

/// The actions of a session.
pub trait SessionHost {
    /// Tell what was understood.
    fn event(&mut self, event: SessionEvent<'_>);
    /// Send bytes to the agent (standard input, or the socket).
    fn reply(&mut self, bytes: Vec<u8>);
    /// Close the agent's standard input: nothing more will be asked of it.
    fn close_input(&mut self);
    /// End the agent when it has not ended by itself within `grace`.
    fn end_within(&mut self, grace: Duration);
}

/// Text that is on its way to the log: borrowed as it stands in the agent's JSON where that
/// is possible, because unescaping and escaping again is most of the cost of a large session.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Plain text.
    Plain(&'a str),
    /// A JSON string literal, quotes included. It may come from anywhere: what is between
    /// the quotes need not be well-formed.
    JsonString(&'a str),
    /// The text of any JSON value (tool arguments, structured results).
    Json(&'a str),
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The prompt, or text put in for the user.
    User,
    /// The model.
    Assistant,
    /// The agent program itself.
    System,
}

/// What kind of thing a message says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Something said.
    #[default]
    Text,
    /// Something thought.
    Thinking,
}

/// Something that a session understood.
#[derive(Clone, Copy, Debug)]
pub enum SessionEvent<'a> {
    /// The running agent, once known.
    Started {
        /// The model, as the agent names it.
        model: Option<&'a str>,
        /// The agent's version.
        version: Option<&'a str>,
        /// The agent's own id of the session.
        session_id: Option<&'a str>,
    },
    /// A message or a thought.
    Message {
        /// Who.
        role: Role,
        /// Said or thought.
        kind: MessageKind,
        /// What.
        content: Text<'a>,
        /// When, if the agent told.
        timestamp: Option<&'a str>,
        /// The tool call that started the sub-agent who speaks.
        parent: Option<&'a str>,
    },
    /// The agent uses a tool.
    ToolCall {
        /// The call's id, to be found again in its result.
        id: Option<&'a str>,
        /// The tool.
        name: &'a str,
        /// Its arguments.
        arguments: Text<'a>,
        /// The tool call that started the sub-agent who calls.
        parent: Option<&'a str>,
    },
    /// A tool answered.
    ToolResult {
        /// The call that it answers.
        id: &'a str,
        /// The answer; `None` when it was empty.
        content: Option<Text<'a>>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// Usage so far, for the progress display.
    Progress {
        /// Tokens in, cached ones included.
        input_tokens: u64,
        /// Tokens out.
        output_tokens: u64,
    },
    /// Anything else worth a line of progress: a retry, a hook, a compaction, a denial.
    Note(&'a str),
}

/// The conclusion of a session after the agent's end.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The outcome of the trial, as far as the session knows.
    pub outcome: Outcome,
    /// The agent's version.
    pub version: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The agent's own id of the session.
    pub session_id: Option<String>,
    /// How many turns it took, by the agent's account.
    pub turns: Option<u64>,
    /// The usage; `None` is unknown.
    pub usage: Option<Usage>,
    /// The agent's last word.
    pub final_text: Option<String>,
    /// The errors, with codes.
    pub errors: Vec<LogError>,
    /// What was counted on the way.
    pub counts: Counts,
    /// When it happened, by the agent's account.
    pub times: AgentTimes,
}

impl Conclusion {
    /// The conclusion of a session without data except its end.
    pub fn of(outcome: Outcome, errors: Vec<LogError>) -> Conclusion {
        Conclusion {
            outcome,
            version: None,
            model: None,
            session_id: None,
            turns: None,
            usage: None,
            final_text: None,
            errors,
            counts: Counts::default(),
            times: AgentTimes::default(),
        }
    }
}

/// When a session happened, by the timestamps and durations in the agent's own output. A
/// recorded output has no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTimes {
    /// The first timestamp in the output.
    pub first: Option<String>,
    /// The last timestamp in the output.
    pub last: Option<String>,
    /// How long the agent says that it worked.
    pub duration_ms: Option<u64>,
}

/// Things that a session counts on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// API calls that the agent tried again.
    pub retries: u64,
    /// Events of a kind that the adapter does not know; they are in the raw log.
    pub unknown_events: u64,
    /// Lines that should have been events and were not.
    pub malformed_lines: u64,
    /// Lines too long to be parsed.
    pub oversized_lines: u64,
    /// Tool uses that were refused.
    pub permission_denials: u64,
    /// Times that the agent compacted its context.
    pub compactions: u64,
    /// Hook events.
    pub hooks: u64,
    /// Tool calls made by sub-agents.
    pub subagent_tool_calls: u64,
    /// Tool results whose call was not seen; they are in the log as calls of an unknown tool.
    #[serde(default)]
    pub unmatched_results: u64,
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |one, other| Counts {
            retries: one.retries + other.retries,
            unknown_events: one.unknown_events + other.unknown_events,
            malformed_lines: one.malformed_lines + other.malformed_lines,
            oversized_lines: one.oversized_lines + other.oversized_lines,
            permission_denials: one.permission_denials + other.permission_denials,
            compactions: one.compactions + other.compactions,
            hooks: one.hooks + other.hooks,
            subagent_tool_calls: one.subagent_tool_calls + other.subagent_tool_calls,
            unmatched_results: one.unmatched_results + other.unmatched_results,
        })
    }
}

/// One entry of the log's `errors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogError {
    /// What went wrong, and what to do about it.
    pub message: String,
    /// When it was noticed. Sessions have no clock and may leave it out; the log then says
    /// when the execution was complete.
    pub timestamp: Option<String>,
    /// A code to act on, upper case with underscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A stack trace, where the agent printed one.
    #[serde(
        default,
        rename = "stackTrace",
        skip_serializing_if = "Option::is_none"
    )]
    pub stack_trace: Option<String>,
    /// Details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<serde_json::Value>,
}

impl LogError {
    /// An entry with a code.
    pub fn new(code: &str, message: impl Into<String>) -> LogError {
        LogError {
            message: message.into(),
            timestamp: None,
            code: Some(code.to_owned()),
            stack_trace: None,
            context: None,
        }
    }
}
