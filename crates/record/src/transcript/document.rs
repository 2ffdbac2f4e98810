//! The types of `youbencha-log.json`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::youbencha::{self, UNKNOWN_TIME, exit_code};
use crate::{
    outcome::{Ending, Outcome, Status},
    session::{Conclusion, Counts, LogError, MessageKind, Role},
    usage::Usage,
};

/// The version of the format.
pub const VERSION: &str = "1.0.0";

/// The text for an unknown name or version.
pub const UNKNOWN: &str = "unknown";

/// The complete log, for reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// The version of the format.
    pub version: String,
    /// Everything except the messages and the tool calls.
    #[serde(flatten)]
    pub account: Account,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
}

/// The part of the log that is known only at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// The agent.
    pub agent_info: AgentInfo,
    /// The model.
    pub model_info: ModelInfo,
    /// The times and the end of the execution.
    pub execution: Execution,
    /// The usage. In the file, unknown usage is 0 with the source `unknown`.
    #[serde(default, with = "youbencha::usage")]
    #[schemars(required, with = "youbencha::LogUsage")]
    pub usage: Option<Usage>,
    /// Errors and warnings.
    pub errors: Vec<LogError>,
    /// The environment of the execution.
    pub environment: BTreeMap<String, serde_json::Value>,
    /// Counts from the output.
    pub counts: Counts,
}

/// The agent of a session.
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
    /// The model's name from the agent or the configuration, or `unknown`.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The configured sampling parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// When, for how long, and how it ended. A recorded output may lack its times and its exit code.
/// The file then has 1970-01-01, 0 and -1, because youBencha requires values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When it started.
    #[serde(with = "youbencha::time")]
    #[schemars(with = "String")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(with = "youbencha::time")]
    #[schemars(with = "String")]
    pub completed_at: Option<String>,
    /// The duration in milliseconds.
    #[serde(serialize_with = "youbencha::duration")]
    #[schemars(with = "u64")]
    pub duration_ms: Option<u64>,
    /// The exit code: 0 if and only if the status is `success`; 128 + n for signal n; −1 for a
    /// timeout, for an agent that never started, and for a failure that ended with code 0.
    pub exit_code: i32,
    /// The status: one of three values.
    pub status: Status,
    /// The outcome.
    pub outcome: Outcome,
    /// The agent's own id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The number of turns, according to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
}

/// A message or a thought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content.
    pub content: String,
    /// A text or a thought; absent means text.
    #[serde(default)]
    pub kind: MessageKind,
    /// When: by the agent's clock, else by Proctor's. 1970-01-01 in a recording without times.
    #[serde(default, with = "youbencha::time")]
    #[schemars(required, with = "String")]
    pub timestamp: Option<String>,
    /// The tool call that started the sub-agent that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments: JSON text, or the text in a plain-text transcript.
    pub arguments: String,
    /// Its result; absent if there is none or it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The agent's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether the tool failed; absent without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The tool call that started the calling sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// The log's data about the agent in addition to its session.
#[derive(Clone, Debug, Default)]
pub struct AgentContext<'a> {
    /// The kind of agent.
    pub name: &'a str,
    /// Its version according to `--version`; the session's version takes precedence.
    pub version: Option<&'a str>,
    /// The version of the adapter.
    pub adapter_version: &'a str,
    /// The provider of the model.
    pub provider: &'a str,
    /// The configured model, for output without one.
    pub model: Option<&'a str>,
    /// The configured sampling parameters.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// The environment of the execution.
    pub environment: BTreeMap<String, serde_json::Value>,
}

/// The times of an execution, by our clock.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// When it started.
    pub started_at: Option<String>,
    /// When it ended.
    pub completed_at: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
}

impl Account {
    /// The account of a session with this conclusion.
    pub fn new(
        conclusion: Conclusion,
        agent: AgentContext<'_>,
        ending: &Ending,
        times: Times,
    ) -> Account {
        let known = |name: Option<String>, other: Option<&str>| {
            name.or_else(|| other.map(str::to_owned))
                .unwrap_or_else(|| UNKNOWN.to_owned())
        };
        let mut errors = conclusion.errors;
        for error in &mut errors {
            let unknown = || Some(UNKNOWN_TIME.to_owned());
            error.timestamp = error.timestamp.take().or(times.completed_at.clone());
            error.timestamp = error.timestamp.take().or_else(unknown);
        }
        let mut environment = agent.environment;
        for name in youbencha::ENVIRONMENT {
            environment
                .entry(name.to_owned())
                .or_insert_with(|| UNKNOWN.into());
        }
        Account {
            agent_info: AgentInfo {
                name: agent.name.to_owned(),
                version: known(conclusion.version, agent.version),
                adapter_version: agent.adapter_version.to_owned(),
            },
            model_info: ModelInfo {
                name: known(conclusion.model, agent.model),
                provider: agent.provider.to_owned(),
                parameters: agent.parameters,
            },
            execution: Execution {
                started_at: times.started_at,
                completed_at: times.completed_at,
                duration_ms: times.duration_ms,
                exit_code: exit_code(conclusion.outcome, shown_code(conclusion.outcome, ending)),
                status: conclusion.outcome.status(),
                outcome: conclusion.outcome,
                session_id: conclusion.session_id,
                turns: conclusion.turns,
            },
            usage: conclusion.usage,
            errors,
            environment,
            counts: conclusion.counts,
        }
    }
}

/// The exit code of the process. An agent that we ended after it had said that it was done counts
/// as exited with 0, because readers take `success` and 0 to be the same.
fn shown_code(outcome: Outcome, ending: &Ending) -> Option<i32> {
    match ending.ended_by {
        Some(_) if outcome == Outcome::Completed => Some(0),
        Some(by) if by.is_time_limit() => Some(-1),
        _ => ending.code.or(ending.signal.map(|signal| 128 + signal)),
    }
}

/// The JSON Schema of the log.
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(Document);
    youbencha::complete(&mut schema);
    schema
}
