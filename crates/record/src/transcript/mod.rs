//! `youbencha-log.json`: the normalized log of one agent's session. This module has its types;
//! `LogWriter` writes it as a stream, `normalize` converts recorded output. A session can also be
//! written as an ATIF trajectory and as OpenTelemetry spans.

mod atif;
mod escape;
mod normalize;
mod otlp;
mod text;
mod writer;

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::{
    outcome::{Ending, Outcome, Status},
    session::{Conclusion, Counts, LogError, MessageKind, Role},
    usage::Usage,
};

pub use self::{
    atif::{AtifWriter, Known},
    normalize::{Format, Recording, normalize},
    otlp::{Span, spans},
    writer::LogWriter,
};
pub use self::{
    escape::marks,
    text::{lossy_text, strip_ansi},
};

/// The version of the format.
pub const VERSION: &str = "1.0.0";

/// The text for an unknown name or version.
pub const UNKNOWN: &str = "unknown";

/// The whole log, for reading it back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// The version of the format.
    pub version: String,
    /// Everything but the messages and the tool calls.
    #[serde(flatten)]
    pub account: Account,
    /// What was said, in order.
    pub messages: Vec<Message>,
    /// Which tools were used, in the order of the calls.
    pub tool_calls: Vec<ToolCall>,
}

/// Everything in the log that is known only at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Who ran.
    pub agent_info: AgentInfo,
    /// On which model.
    pub model_info: ModelInfo,
    /// When, for how long, and how it ended.
    pub execution: Execution,
    /// What it used; absent when nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What went wrong, and warnings.
    pub errors: Vec<LogError>,
    /// Where it ran.
    pub environment: BTreeMap<String, serde_json::Value>,
    /// What was counted on the way.
    pub counts: Counts,
}

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// The kind of agent.
    pub name: String,
    /// Its version, or `unknown`.
    pub version: String,
    /// The version of the adapter that drove it.
    pub adapter_version: String,
}

/// The model that answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// Its name as the agent gives it, or as it was asked for, or `unknown`.
    pub name: String,
    /// Who provides it.
    pub provider: String,
    /// Sampling parameters that were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// When, for how long, and how it ended. A recorded output need not tell its times or its
/// exit code: those are null then, never made up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When it started.
    pub started_at: Option<String>,
    /// When it was complete.
    pub completed_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The exit code; −1 for a timeout, 128 + n for signal n.
    pub exit_code: Option<i32>,
    /// The outcome in one of three words.
    pub status: Status,
    /// What became of it.
    pub outcome: Outcome,
    /// The agent's own id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// How many turns it took, by the agent's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
}

/// Something said or thought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who.
    pub role: Role,
    /// What.
    pub content: String,
    /// Said or thought; absent means said.
    #[serde(default)]
    pub kind: MessageKind,
    /// When, if the agent told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The tool call that started the sub-agent who speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// One use of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments: JSON text, or what stood in a plain-text transcript.
    pub arguments: String,
    /// What it answered; absent when no answer, or an empty one, came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The agent's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether the tool failed; absent when no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The tool call that started the sub-agent who called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// The log's data about the agent in addition to its session.
#[derive(Clone, Debug, Default)]
pub struct Contender<'a> {
    /// The kind of agent.
    pub name: &'a str,
    /// Its version according to `--version`; the session's version takes precedence.
    pub version: Option<&'a str>,
    /// The version of the adapter.
    pub adapter_version: &'a str,
    /// The provider of the model.
    pub provider: &'a str,
    /// The model that was asked for, for an output that names none.
    pub model: Option<&'a str>,
    /// Sampling parameters that were asked for.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Where it ran.
    pub environment: BTreeMap<String, serde_json::Value>,
}

/// When an execution happened, by our clock.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// When it started.
    pub started_at: Option<String>,
    /// When it was complete.
    pub completed_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
}

impl Account {
    /// The account of a session that concluded so.
    pub fn new(
        conclusion: Conclusion,
        contender: Contender<'_>,
        ending: &Ending,
        times: Times,
    ) -> Account {
        let known = |name: Option<String>, other: Option<&str>| {
            name.or_else(|| other.map(str::to_owned))
                .unwrap_or_else(|| UNKNOWN.to_owned())
        };
        let mut errors = conclusion.errors;
        for error in &mut errors {
            error.timestamp = error.timestamp.take().or(times.completed_at.clone());
        }
        Account {
            agent_info: AgentInfo {
                name: contender.name.to_owned(),
                version: known(conclusion.version, contender.version),
                adapter_version: contender.adapter_version.to_owned(),
            },
            model_info: ModelInfo {
                name: known(conclusion.model, contender.model),
                provider: contender.provider.to_owned(),
                parameters: contender.parameters,
            },
            execution: Execution {
                started_at: times.started_at,
                completed_at: times.completed_at,
                duration_ms: times.duration_ms,
                exit_code: exit_code(conclusion.outcome, ending),
                status: conclusion.outcome.status(),
                outcome: conclusion.outcome,
                session_id: conclusion.session_id,
                turns: conclusion.turns,
            },
            usage: conclusion.usage,
            errors,
            environment: contender.environment,
            counts: conclusion.counts,
        }
    }
}

/// The exit code that the log shows. An agent that we ended after it had said that it was
/// done counts as exited with 0, because readers take `success` and 0 to be the same.
fn exit_code(outcome: Outcome, ending: &Ending) -> Option<i32> {
    match ending.ended_by {
        Some(_) if outcome == Outcome::Completed => Some(0),
        Some(by) if by.is_time_limit() => Some(-1),
        _ => ending.code.or(ending.signal.map(|signal| 128 + signal)),
    }
}

/// The JSON Schema of the log.
pub fn schema() -> Schema {
    schemars::schema_for!(Document)
}
