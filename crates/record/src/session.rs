//! A session: the adapter's reading of one agent's output. It gets lines, reports events, may
//! answer the agent, and returns a conclusion at the end. Sessions do no I/O and never fail:
//! unknown input is counted.

use std::time::Duration;

use camino::Utf8Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    outcome::{Ending, Outcome},
    usage::Usage,
};

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSource {
    /// The agent's standard output (also a PTY).
    Stdout,
    /// The agent's standard error.
    Stderr,
    /// A socket that the agent connected to.
    Socket,
}

/// The adapter's reading of one agent's output.
pub trait Session: Send {
    /// The connection to the agent is open: standard input at the start, or a socket at each
    /// connection. A session that drives the agent sends its first message here.
    fn on_open(&mut self, _host: &mut dyn SessionHost) {}

    /// One complete line, without its line end.
    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost);

    /// Whether the session accepts several lines at once, by `on_block`, from now on.
    fn takes_blocks(&self) -> bool {
        false
    }

    /// Complete lines with their line ends, for a session that accepts several at once.
    fn on_block(&mut self, _source: LineSource, _lines: &[u8], _host: &mut dyn SessionHost) {}

    /// A line that is too long to be parsed; it is only in the raw log.
    fn on_oversized_line(&mut self, source: LineSource, bytes: u64);

    /// A file of `Launch::collect`: read after all output and before `finish`. Missing files are
    /// skipped.
    fn on_file(&mut self, _path: &Utf8Path, _bytes: &[u8], _host: &mut dyn SessionHost) {}

    /// The process has ended and all of its output was read.
    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion;
}

/// The actions that a session can request.
pub trait SessionHost {
    /// Reports an event.
    fn event(&mut self, event: SessionEvent<'_>);
    /// Sends bytes to the agent (standard input, or the socket).
    fn reply(&mut self, bytes: Vec<u8>);
    /// Closes the agent's standard input: there are no further requests.
    fn close_input(&mut self);
    /// Ends the agent if it has not ended by itself within `grace`.
    fn end_within(&mut self, grace: Duration);
}

/// Text for the log: borrowed from the agent's JSON if possible, because unescaping and escaping
/// again is most of the cost of a large session.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Plain text.
    Plain(&'a str),
    /// A JSON string literal, including quotes. Its content is untrusted and may be malformed.
    JsonString(&'a str),
    /// The text of any JSON value (tool arguments, structured results).
    Json(&'a str),
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The prompt, or text on behalf of the user.
    User,
    /// The model.
    Assistant,
    /// The agent program itself.
    System,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// A text.
    #[default]
    Text,
    /// A thought.
    Thinking,
}

/// An event of a session.
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
        /// The author.
        role: Role,
        /// A text or a thought.
        kind: MessageKind,
        /// The content.
        content: Text<'a>,
        /// The time, if the agent reports it.
        timestamp: Option<&'a str>,
        /// The tool call that started the sub-agent that wrote it.
        parent: Option<&'a str>,
    },
    /// The next part of a message that is still being written. The whole message follows.
    Partial(Text<'a>),
    /// A tool call of the agent.
    ToolCall {
        /// The call's id, which its result repeats.
        id: Option<&'a str>,
        /// The tool.
        name: &'a str,
        /// Its arguments.
        arguments: Text<'a>,
        /// The tool call that started the calling sub-agent.
        parent: Option<&'a str>,
    },
    /// A tool's result.
    ToolResult {
        /// The id of the call.
        id: &'a str,
        /// The content; `None` if it is empty.
        content: Option<Text<'a>>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// Usage so far, for the progress display.
    Progress {
        /// Tokens in, without cached ones.
        input_tokens: u64,
        /// Output tokens.
        output_tokens: u64,
    },
    /// The MCP servers of the session, once the agent says which it reached.
    McpServers(&'a [McpServer]),
    /// A note for the progress display: a retry, a hook, a compaction, a denial.
    Note(&'a str),
}

/// An MCP server, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServer {
    /// Its name in the configuration.
    pub name: String,
    /// The agent's word for its state, such as `connected` or `failed`.
    pub status: String,
}

impl McpServer {
    /// Whether the agent can use its tools. A server that is still connecting may become usable.
    pub fn is_usable(&self) -> bool {
        self.status == "connected" || self.is_connecting()
    }

    /// Whether the server had not connected yet when the agent reported it.
    pub fn is_connecting(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "connecting")
    }
}

/// The conclusion of a session after the agent's end.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The outcome of the trial, according to the session.
    pub outcome: Outcome,
    /// The agent's version.
    pub version: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The agent's own id of the session.
    pub session_id: Option<String>,
    /// The number of turns, according to the agent.
    pub turns: Option<u64>,
    /// The usage; `None` if unknown.
    pub usage: Option<Usage>,
    /// The agent's last message.
    pub final_text: Option<String>,
    /// The errors, with codes.
    pub errors: Vec<LogError>,
    /// Counts from the output.
    pub counts: Counts,
    /// The times, according to the agent.
    pub times: AgentTimes,
}

impl Conclusion {
    /// A conclusion with only an outcome and errors.
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

/// The times of a session, from the timestamps and durations in the agent's own output. Recorded
/// output has no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTimes {
    /// The first timestamp in the output.
    pub first: Option<String>,
    /// The last timestamp in the output.
    pub last: Option<String>,
    /// The duration that the agent reports.
    pub duration_ms: Option<u64>,
}

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// API calls that the agent retried.
    pub retries: u64,
    /// Events of an unknown kind; they are in the raw log.
    pub unknown_events: u64,
    /// Lines that should be events and are malformed.
    pub malformed_lines: u64,
    /// Lines that are too long to be parsed.
    pub oversized_lines: u64,
    /// Refused tool calls.
    pub permission_denials: u64,
    /// Compactions of the context.
    pub compactions: u64,
    /// Hook events.
    pub hooks: u64,
    /// Tool calls of sub-agents.
    pub subagent_tool_calls: u64,
    /// Tool results without a call; they are in the log as calls of an unknown tool.
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
    /// The error, and how to fix it.
    pub message: String,
    /// The time of the error. Sessions have no clock and may omit it; the log then has the time of
    /// the end.
    pub timestamp: Option<String>,
    /// A machine-readable code, upper case with underscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A stack trace, if the agent printed one.
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
