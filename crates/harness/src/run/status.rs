//! The status of a run, read from its folder alone.

use camino::Utf8Path;
use serde::Serialize;

use super::{RunError, RunSummary, attempt::finished, summary::in_order};
use crate::{
    calibration::calibrate,
    fs::is_locked,
    model_access::litellm::LiteLlmAccount,
    record::{self, PlanFile, TrialSummary, summary},
};

/// The status of a run, while it runs or afterwards.
#[derive(Debug, Serialize)]
pub struct RunStatus {
    /// Whether a living process runs it.
    pub is_running: bool,
    /// The trials that have ended, and the number of those that have not.
    pub summary: RunSummary,
}

/// Read the status of the run in a folder.
pub fn status(run: &Utf8Path) -> Result<RunStatus, RunError> {
    let path = record::run_folder(run).unwrap_or_else(|_| run.to_owned());
    let plan = PlanFile::read(&path)?;
    let mut trials: Vec<TrialSummary> = Vec::new();
    for key in &plan.trials {
        let folder = key.folder(&path);
        let record = finished(&folder, plan.run_id.as_deref());
        trials.extend(record.map(|record| summary(&record, &folder)));
    }
    in_order(&mut trials);
    let tasks = calibrate(&mut trials);
    let summary = RunSummary::of(&path, plan.trials.len(), trials, false);
    Ok(RunStatus {
        is_running: is_locked(&path),
        summary: RunSummary {
            litellm: LiteLlmAccount::read(&path),
            tasks,
            ..summary
        },
    })
}
