//! The result of an experiment.

use proctor_record::record::delivery::{DeliveryState, DeliverySummary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    compare::Metric,
    stats::{CostPerSolved, Decision, Interval, Margins, Scope, Step, ToDecide, VarianceShares},
};

/// The version of the result's JSON.
pub const EXPERIMENT_VERSION: &str = "1.0.0";

/// The result of an experiment with two agents.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentResult {
    /// The version of this format.
    pub version: &'static str,
    /// The name of the baseline.
    pub baseline: String,
    /// The name of the candidate.
    pub candidate: String,
    /// The conclusion, in one sentence.
    pub sentence: String,
    /// The decision about the score; null if there is nothing to compare. Undecided if an agent's
    /// treatment was not delivered.
    pub decision: Option<Decision>,
    /// The margins of practical importance: of scores, and relative to the baseline of others.
    pub margins: Margins,
    /// All metrics that both have. Costs and tokens are first: they are decided by fewer trials.
    pub metrics: Vec<MetricResult>,
    /// Metrics that one of them does not have on any shared task.
    pub unknown: Vec<Metric>,
    /// The analyses of an experiment with a schedule.
    pub stage: Option<ExperimentStage>,
    /// Tasks that are passed by most trials of one agent only.
    pub flipped: FlippedTasks,
    /// The parts of the variance of the score's difference; null if trials were not repeated.
    pub variance: Option<VarianceShares>,
    /// The sample size that would decide the score; null if it is decided or cannot be estimated.
    pub to_decide: Option<ToDecide>,
    /// The cost of a solved task.
    pub cost_per_solved: SolvedCost,
    /// Whether the parts of the agents' treatments reached the model.
    pub delivery: Vec<DeliverySummary>,
    /// The plan before the first trial; null without a schedule.
    pub registration: Option<Registration>,
    /// The number of excluded trials of both agents, which are not part of any figure.
    pub excluded: usize,
    /// Notes for reading the result: differences of the agents, and excluded trials.
    pub notes: Vec<String>,
}

/// The change of one metric, with the decision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetricResult {
    /// The metric.
    pub metric: Metric,
    /// The decision.
    pub decision: Decision,
    /// The change in one sentence.
    pub sentence: String,
    /// The baseline's mean over shared tasks, with equal weight for all tasks.
    pub baseline: f64,
    /// The candidate's mean.
    pub candidate: f64,
    /// The candidate's mean minus the baseline's.
    pub difference: f64,
    /// The confidence interval of the difference; null if nothing varied.
    pub interval: Option<Interval>,
    /// The confidence level of the interval. It is higher than usual at interim analyses.
    pub confidence: f64,
    /// The probability of a difference at least as large between equal agents.
    pub p_value: f64,
    /// The scope of the decision.
    pub scope: Scope,
    /// The number of shared tasks.
    pub tasks: usize,
    /// The baseline's trials.
    pub baseline_trials: usize,
    /// The candidate's trials.
    pub candidate_trials: usize,
}

/// The last analysis of an experiment with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentStage {
    /// The number of the last analysis, from 1; 0 before the first.
    pub analysis: usize,
    /// The number of planned analyses.
    pub of: usize,
    /// The p-value that is significant at this analysis.
    pub level: f64,
    /// The consequence.
    pub step: Step,
    /// Whether any result of the final analysis can be significant.
    pub can_decide: bool,
    /// Trials that ended after the analysis and are not used.
    pub unused_trials: usize,
}

/// The plan of an experiment as registered before its first trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Registration {
    /// The SHA-256 of the trials, the definitions and the analyses.
    pub digest: String,
    /// How the run deviates from the plan; empty if it is as planned.
    pub deviations: Vec<String>,
}

/// Tasks that are passed by most trials of one agent only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlippedTasks {
    /// Only by the candidate.
    pub gained: Vec<String>,
    /// Only by the baseline.
    pub lost: Vec<String>,
}

/// The cost of a solved task of both agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SolvedCost {
    /// That of the baseline; null if the cost of a trial is unknown, and without a solved task.
    pub baseline: Option<CostPerSolved>,
    /// That of the candidate.
    pub candidate: Option<CostPerSolved>,
    /// The cheapest agent among those not shown to be worse; null if a cost is unknown.
    pub recommended: Option<String>,
}

impl ExperimentResult {
    /// The exit code: 0 for better, equivalent and not worse, 1 for worse, 3 if there is nothing to
    /// compare, 4 for undecided.
    pub fn exit_code(&self) -> u8 {
        match self.decision {
            Some(Decision::Better | Decision::Equivalent | Decision::NotWorse) => 0,
            Some(Decision::Worse) => 1,
            None => 3,
            Some(Decision::Undecided) => 4,
        }
    }

    /// The agents whose treatment was not delivered: none of its parts reached the model.
    pub fn not_delivered(&self) -> impl Iterator<Item = &str> {
        let agents = [&self.baseline, &self.candidate].into_iter();
        let is_missing = |agent: &&String| {
            let mut own = self.delivery.iter().filter(|it| it.agent == **agent);
            let states: Vec<DeliveryState> = own.by_ref().map(|it| it.state).collect();
            states.contains(&DeliveryState::NotDelivered)
                && !states.contains(&DeliveryState::Delivered)
        };
        agents.filter(is_missing).map(String::as_str)
    }

    /// The result of one metric.
    pub fn metric(&self, metric: Metric) -> Option<&MetricResult> {
        self.metrics.iter().find(|it| it.metric == metric)
    }
}
