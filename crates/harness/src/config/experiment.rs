//! The `experiment` section of a suite: which agents are compared, and when the answer is clear.

use proctor_document::{Fault, Node};
use proctor_report::stats::Margins;
use schemars::JsonSchema;
use serde::Deserialize;

/// Compares the agents of a suite with one of them, and answers whether they are better.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Experiment")]
pub struct ExperimentSettings {
    /// The agent that the others are compared with. Default: the first one that is not `null` or
    /// `oracle`.
    pub baseline: Option<String>,
    /// Scores that differ by less than this are equivalent, such as 0.05 for 5 points.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub equivalent: Option<f64>,
    /// An agent that loses less than this against the baseline is accepted.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub not_worse: Option<f64>,
    /// When the run ends.
    #[serde(default)]
    pub stop: StopRule,
    /// Whether trials after the first analysis go to tasks with varying results.
    #[serde(default)]
    pub adaptive: bool,
    /// The maximum number of trials of all agents. Reduces the number of trials of each task.
    #[schemars(range(min = 1))]
    pub max_trials: Option<u32>,
    /// No trial is started after this cost of all trials, in US dollars.
    #[schemars(range(min = 0.0))]
    pub max_cost_usd: Option<f64>,
}

/// When the run of an experiment ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// After all trials.
    #[default]
    End,
    /// As soon as the answer is clear, or no answer can be expected any more.
    Settled,
}

impl ExperimentSettings {
    /// Reports values that are out of range, and keys without effect.
    pub(super) fn check(&self, node: &Node, faults: &mut Vec<Fault>) {
        let is_margin = |it: f64| it > 0.0 && it < 1.0;
        let is_positive = |it: f64| it > 0.0 && it.is_finite();
        let mut refuse = |key: &str, message: String| faults.push(node.fault(key, message));
        for (key, margin) in [
            ("equivalent", self.equivalent),
            ("not_worse", self.not_worse),
        ] {
            if margin.is_some_and(|margin| !is_margin(margin)) {
                refuse(key, format!("`{key}` must be between 0 and 1"));
            }
        }
        if self.equivalent.is_some() && self.not_worse.is_some() {
            let message = "`equivalent` and `not_worse` cannot be combined";
            refuse("not_worse", message.to_owned());
        }
        if self.max_trials == Some(0) {
            refuse("max_trials", "`max_trials` must be at least 1".to_owned());
        }
        if self.max_cost_usd.is_some_and(|it| !is_positive(it)) {
            refuse(
                "max_cost_usd",
                "`max_cost_usd` must be more than 0".to_owned(),
            );
        }
    }

    /// The margins of practical importance.
    pub fn margins(&self) -> Margins {
        Margins {
            equivalent: self.equivalent,
            not_worse: self.not_worse,
        }
    }
}
