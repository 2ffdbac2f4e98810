//! The results of hooks, as recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookPhase {
    /// Before the agent starts.
    PreExecution,
    /// When the results are there.
    PostEvaluation,
}

/// What came of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRecord {
    /// When it ran.
    pub phase: HookPhase,
    /// Its kind: `script`, `webhook` or `database`.
    pub name: String,
    /// Whether it did what it is for.
    pub status: HookStatus,
    /// What came of it, in one line.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done.
    pub timestamp: String,
    /// The exit code of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How often a webhook was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The file with what a script printed, below the artifacts folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Whether a hook did what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// It did.
    Passed,
    /// It did not.
    Failed,
}
