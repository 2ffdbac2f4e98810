//! Summaries of trials, as in `summary.json` and the output of `--json`.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::{RECORD_FILE, Record, ReplayRecord, TrialStatus, delivery::DeliveryRecord};
use crate::{
    outcome::Outcome,
    usage::{Usage, Usd},
};

/// The summary of a trial.
#[derive(Debug, Serialize)]
pub struct TrialSummary {
    /// The agent.
    pub agent: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub agent_type: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// How the agent ended.
    pub outcome: Outcome,
    /// The status.
    pub status: TrialStatus,
    /// The score, from 0 to 1; null if the trial is excluded.
    pub score: Option<f64>,
    /// The score on a scale where the null agent is 0 and the reference solution is 1; absent if
    /// either is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalized_score: Option<f64>,
    /// The number of starts of its agent, if it can be restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// The path of its record.
    pub record: Utf8PathBuf,
    /// Tokens; null if unknown.
    pub usage: Option<Usage>,
    /// The cost; null if unknown.
    pub cost_usd: Option<Usd>,
    /// The infrastructure failure that ended it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it did not pass, in one line; absent if it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The parts of the agent's treatment, and whether they reached the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delivery: Vec<DeliveryRecord>,
    /// The use of a recording, if calls were answered from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
}

/// The summary of the trial whose results are in `folder`.
pub fn summary(record: &Record, folder: &Utf8Path) -> TrialSummary {
    TrialSummary {
        agent: record.agent.name.clone(),
        agent_type: record.agent.kind.clone(),
        task: record.task.name.clone(),
        trial: record.trial,
        outcome: record.outcome,
        status: record.status,
        score: record.score.as_ref().map(|score| score.value),
        normalized_score: None,
        iterations: (!record.iterations.is_empty()).then_some(record.iterations.len()),
        record: folder.join("artifacts").join(RECORD_FILE),
        usage: record.usage.clone(),
        cost_usd: record.usage.as_ref().and_then(|usage| usage.total.cost_usd),
        error: record
            .errors
            .first()
            .filter(|_| record.outcome.is_infrastructure())
            .map(|error| error.message.clone()),
        reason: record.reason(),
        delivery: record.delivery.clone(),
        replay: record
            .gateway
            .as_ref()
            .and_then(|gateway| gateway.replay.clone()),
    }
}
