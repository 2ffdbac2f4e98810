//! The answers of evaluators, as recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an evaluator says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Which evaluator.
    pub evaluator: String,
    /// What it found.
    pub status: VerdictStatus,
    /// How good the work is, from 0 to 1; null when it only says passed or failed.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: Option<f64>,
    /// How much it counts in the trial's score; 0 for what only measures.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0.0))]
    pub weight: f64,
    /// What it measured.
    pub metrics: Map<String, Value>,
    /// The finding in one line.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done.
    pub timestamp: String,
    /// What was asserted, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertions: Option<Map<String, Value>>,
    /// Files that it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Files of the agent that were judged as the task has them: changed ones were restored, new ones removed. A
    /// manifest names the keys that came from the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Why no verdict was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VerdictError>,
}

/// The weight of an evaluator that does not set one.
pub const DEFAULT_WEIGHT: f64 = 1.0;

fn default_weight() -> f64 {
    DEFAULT_WEIGHT
}

/// What an evaluator found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictStatus {
    /// All is as it should be.
    Passed,
    /// Something is not.
    Failed,
    /// There was nothing to judge.
    Skipped,
    /// The evaluator itself failed: no verdict.
    Error,
}

/// A file that an evaluator left in the artifacts folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What kind of file.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path below the artifacts folder.
    pub path: String,
    /// What it shows.
    pub description: String,
}

/// Why no verdict was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictError {
    /// What went wrong.
    pub message: String,
}
