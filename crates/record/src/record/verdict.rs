//! The verdicts of evaluators, as recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The verdict of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The evaluator.
    pub evaluator: String,
    /// The status.
    pub status: VerdictStatus,
    /// The score, from 0 to 1; null if there is only passed or failed.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: Option<f64>,
    /// How much it counts in the trial's score; 0 for gates and for what only measures.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0.0))]
    pub weight: f64,
    /// Whether it is a gate: it can fail the trial, and adds no points.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// The measurements.
    pub metrics: Map<String, Value>,
    /// The message in one line.
    pub message: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The time of its end.
    pub timestamp: String,
    /// The assertions, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertions: Option<Map<String, Value>>,
    /// The files of the evaluator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Files of the agent that were replaced by the task's: changed ones were restored, new ones
    /// removed. A manifest lists the keys that came from the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Why there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VerdictError>,
}

impl Verdict {
    /// Whether it is the verdict of a Harbor verifier that gave a reward. The reward is the score,
    /// however the agent ended.
    pub fn is_reward(&self) -> bool {
        self.evaluator == VERIFIER && self.metrics.get("reward").is_some_and(Value::is_number)
    }
}

/// The evaluator of tasks in Harbor's format.
pub const VERIFIER: &str = "verifier";

/// The weight of an evaluator that does not set one.
pub const DEFAULT_WEIGHT: f64 = 1.0;

fn default_weight() -> f64 {
    DEFAULT_WEIGHT
}

/// The status of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictStatus {
    /// The work meets the conditions.
    Passed,
    /// A condition is not met.
    Failed,
    /// There was nothing to judge.
    Skipped,
    /// The evaluator itself failed: there is no verdict.
    Error,
}

/// A file of an evaluator in the artifacts directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// The kind of the file.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path below the artifacts folder.
    pub path: String,
    /// A description of the file.
    pub description: String,
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictError {
    /// The error.
    pub message: String,
}
