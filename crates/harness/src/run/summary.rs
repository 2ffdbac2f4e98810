//! Summaries of runs, as in `summary.json` and the output of `--json`.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::record::{
    TrialStatus, TrialSummary,
    delivery::{DeliverySummary, sum_delivery},
};
use proctor_report::{Role, calibration::TaskSummary};
use proctor_sandbox::LostEngine;
use serde::{Deserialize, Serialize};

use crate::{model_access::litellm::LiteLlmAccount, plan::TrialPlan, trial::TrialError};

/// The summary of a run.
#[derive(Debug, Serialize)]
pub struct RunSummary {
    /// The id of the run.
    pub run_id: String,
    /// Its folder.
    pub run_dir: Utf8PathBuf,
    /// The worst status of the contestants' trials.
    pub status: TrialStatus,
    /// The number of trials that were not started.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_run: usize,
    /// The totals of LiteLLM's own log, if it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub litellm: Option<LiteLlmAccount>,
    /// Whether cluster jobs keep running without this process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// Engines that failed; other engines ran their trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_engines: Vec<LostEngine>,
    /// Trials that were not started because their input is not valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_starts: Vec<FailedStart>,
    /// Why no further trial was started, if a limit of the run was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The calibration of tasks by trials of null agents and oracles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskSummary>,
    /// Whether the parts of agents' treatments reached the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delivery: Vec<DeliverySummary>,
    /// Its trials.
    pub trials: Vec<TrialSummary>,
}

impl RunSummary {
    /// The summary of the run in a directory with these finished trials.
    pub(crate) fn of(
        path: &Utf8Path,
        planned: usize,
        trials: Vec<TrialSummary>,
        is_cancelled: bool,
    ) -> RunSummary {
        let parts = trials.iter();
        let parts = parts.map(|trial| (trial.agent.as_str(), trial.delivery.as_slice()));
        RunSummary {
            run_id: path.file_name().unwrap_or_default().to_owned(),
            run_dir: path.to_owned(),
            status: overall(&trials, is_cancelled),
            not_run: planned.saturating_sub(trials.len()),
            litellm: None,
            detached: false,
            lost_engines: Vec::new(),
            failed_starts: Vec::new(),
            stopped: None,
            tasks: Vec::new(),
            delivery: sum_delivery(parts),
            trials,
        }
    }
}

/// A trial that was not started because its input is not valid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedStart {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// The error.
    pub message: String,
    /// A suggestion for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl FailedStart {
    pub(crate) fn of(plan: &TrialPlan, error: &TrialError) -> FailedStart {
        FailedStart {
            agent: plan.name.clone(),
            task: plan.task.name.clone(),
            trial: plan.number,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Sorts trials by agent, task and number.
pub(super) fn in_order(trials: &mut [TrialSummary]) {
    let key = |trial: &TrialSummary| (trial.agent.clone(), trial.task.clone(), trial.trial);
    trials.sort_by_cached_key(key);
}

/// The overall status: the worst of the contestants. Floor and ceiling agents count only in a run
/// without contestants: a null agent is meant to fail.
fn overall(trials: &[TrialSummary], is_cancelled: bool) -> TrialStatus {
    let is_contender =
        |trial: &TrialSummary| Role::named(&trial.agent, &trial.agent_type) == Role::Contender;
    let has_contenders = trials.iter().any(is_contender);
    let is_counted = |trial: &&TrialSummary| !has_contenders || is_contender(trial);
    let any = |status| {
        let mut counted = trials.iter().filter(is_counted);
        counted.any(|trial| trial.status == status)
    };
    if is_cancelled || any(TrialStatus::Interrupted) {
        TrialStatus::Interrupted
    } else if any(TrialStatus::Failed) {
        TrialStatus::Failed
    } else if any(TrialStatus::Error) {
        TrialStatus::Error
    } else {
        TrialStatus::Passed
    }
}
