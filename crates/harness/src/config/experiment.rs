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
    /// Whether the run stops as soon as the answer is clear, or no answer can be expected any more.
    #[serde(default)]
    pub until_settled: bool,
}

impl ExperimentSettings {
    /// Reports margins that are not between 0 and 1.
    pub(super) fn check(&self, node: &Node, faults: &mut Vec<Fault>) {
        for (key, margin) in [
            ("equivalent", self.equivalent),
            ("not_worse", self.not_worse),
        ] {
            if margin.is_some_and(|margin| !(margin > 0.0 && margin < 1.0)) {
                let message = format!("`{key}` must be between 0 and 1");
                faults.push(node.fault(key, message));
            }
        }
        if self.equivalent.is_some() && self.not_worse.is_some() {
            let message = "`equivalent` and `not_worse` cannot be combined";
            faults.push(node.fault("not_worse", message));
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
