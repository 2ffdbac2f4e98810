//! The iterations of a trial with several starts of its agent: their results and sums.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiffRecord, GatewayRecord, ProcessRecord, Record, Verdict};
use crate::{
    outcome::Outcome,
    session::{Counts, LogError},
    usage::Usage,
};

/// One start of an agent in a trial, with a fresh context, to its end.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IterationRecord {
    /// Its number, from 1.
    pub number: u32,
    /// The reason of the start.
    pub reason: IterationReason,
    /// The step of the task; absent for a task without steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The started agent: `agent.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The requested model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_requested: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The directory of its files below the artifacts; absent for the last one, whose files are in
    /// the artifacts directory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The agent's process; absent if none was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRecord>,
    /// The usage: the gateway's figures if it counted any, else the agent's own; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The agent's own figures, if `usage` has the gateway's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usage: Option<Usage>,
    /// The gateway's counts; absent without a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRecord>,
    /// The agent's own id of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The number of turns, according to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Counts from its output.
    pub counts: Counts,
    /// The errors.
    pub errors: Vec<LogError>,
    /// The result of the loop's check command; absent if it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRecord>,
    /// The verdicts of the step that ended with this iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// The agent's change in the step that ended with this iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffRecord>,
}

impl IterationRecord {
    /// The agent's own figures.
    fn own_usage(&self) -> Option<&Usage> {
        let used = self.usage.as_ref().filter(|usage| usage.is_own());
        self.agent_usage.as_ref().or(used)
    }

    /// The result in one line.
    pub fn describe(&self) -> String {
        let mut text = match &self.step {
            Some(step) => format!("step {step}: "),
            None => String::new(),
        };
        let _ = write!(text, "{} {}", self.kind, self.outcome.as_str());
        let usage = self.usage.as_ref();
        if let Some(cost) = usage.and_then(|usage| usage.total.cost_usd) {
            let _ = write!(text, ", ${:.4}", cost.dollars());
        }
        if let Some(check) = &self.check {
            text.push_str(if check.passed {
                ", check passed"
            } else {
                ", check failed"
            });
        }
        for verdict in &self.verdicts {
            let _ = write!(text, ", {}", verdict.message);
        }
        text
    }
}

/// Why an agent was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IterationReason {
    /// It was the first start.
    First,
    /// An infrastructure failure ended the previous iteration.
    Infrastructure,
    /// The previous iteration failed.
    Error,
    /// The previous iteration changed nothing.
    NoChange,
    /// The check command failed after the previous iteration.
    CheckFailed,
    /// It was the next step of the task.
    NextStep,
}

impl IterationReason {
    /// Its display text.
    pub fn describe(self) -> &'static str {
        match self {
            IterationReason::First => "the first",
            IterationReason::Infrastructure => {
                "an infrastructure failure ended the previous iteration"
            }
            IterationReason::Error => "the previous iteration failed",
            IterationReason::NoChange => "the previous iteration changed nothing",
            IterationReason::CheckFailed => "the check failed",
            IterationReason::NextStep => "the next step of the task",
        }
    }
}

impl From<RetryOn> for IterationReason {
    fn from(on: RetryOn) -> IterationReason {
        match on {
            RetryOn::Infrastructure => IterationReason::Infrastructure,
            RetryOn::Error => IterationReason::Error,
            RetryOn::NoChange => IterationReason::NoChange,
        }
    }
}

/// The result of a loop's check command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRecord {
    /// The command.
    pub command: String,
    /// Whether it succeeded.
    pub passed: bool,
    /// The exit code; absent if it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why there is no exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

impl Record {
    /// The agent's own figures.
    pub fn own_usage(&self) -> Option<&Usage> {
        let used = self.usage.as_ref().filter(|usage| usage.is_own());
        self.agent_usage.as_ref().or(used)
    }

    /// The duration of the agent over all iterations; absent if it did not run.
    pub fn agent_ms(&self) -> Option<u64> {
        let of = |process: &Option<ProcessRecord>| process.as_ref().map(|it| it.duration_ms);
        if self.iterations.is_empty() {
            return of(&self.process);
        }
        let ran: Vec<u64> = self
            .iterations
            .iter()
            .filter_map(|it| of(&it.process))
            .collect();
        (!ran.is_empty()).then(|| ran.iter().sum())
    }

    /// Replaces the figures of the last iteration by the sums of all iterations. A figure that is
    /// unknown for one iteration is unknown in the sum.
    pub fn sum_iterations(&mut self) {
        let all = &self.iterations;
        if all.len() < 2 {
            return;
        }
        let own: Option<Vec<&Usage>> = all.iter().map(IterationRecord::own_usage).collect();
        let own = own.as_deref().and_then(Usage::sum);
        self.turns = all.iter().map(|it| it.turns).sum();
        self.counts = all.iter().map(|it| it.counts).sum();
        let accounts: Vec<&GatewayRecord> =
            all.iter().filter_map(|it| it.gateway.as_ref()).collect();
        self.gateway = GatewayRecord::sum(&accounts);
        let counted = self.gateway.as_ref().and_then(GatewayRecord::usage);
        self.usage = Usage::settled(own.as_ref(), counted.clone());
        self.agent_usage = own.filter(|_| counted.is_some());
    }
}

/// The cause of a restart of an agent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The provider, the network or the sandbox failed.
    Infrastructure,
    /// The agent itself failed, gave up, or was ended for making no progress.
    Error,
    /// The agent completed, and the workspace is unchanged.
    NoChange,
}
