//! The results of hooks, as recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    /// Before the agent starts.
    PreExecution,
    /// After the results are written.
    PostEvaluation,
}

/// The result of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRecord {
    /// When it ran.
    pub phase: HookPhase,
    /// Its kind: `script`, `webhook` or `database`.
    pub name: String,
    /// Whether it succeeded.
    pub status: HookStatus,
    /// The result in one line.
    pub message: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The time of its end.
    pub timestamp: String,
    /// The exit code of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of attempts of a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The file with a script's output, below the artifacts directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Whether a hook succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// It succeeded.
    Passed,
    /// It failed.
    Failed,
}
