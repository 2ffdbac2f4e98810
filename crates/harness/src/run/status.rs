//! The status of a run, read from its directory only.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::is_locked,
    record::{self, PlanFile, RecordState, TrialSummary, summary},
};
use proctor_report::calibration::calibrate;
use serde::Serialize;

use super::{RunError, RunSummary, attempt::is_finished, summary::in_order};
use crate::model_access::litellm::LiteLlmAccount;

/// The status of an active or finished run.
#[derive(Debug, Serialize)]
pub struct RunStatus {
    /// Whether a live process runs it.
    pub is_running: bool,
    /// The trials that have ended, and the number of those that have not.
    pub summary: RunSummary,
    /// The trials whose record cannot be read or is that of another trial. They are among those not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Utf8PathBuf>,
}

/// Reads the status of the run in a directory.
pub fn status(run: &Utf8Path) -> Result<RunStatus, RunError> {
    let path = record::run_folder(run).unwrap_or_else(|_| run.to_owned());
    let plan = PlanFile::read(&path)?;
    let mut trials: Vec<TrialSummary> = Vec::new();
    let mut unreadable = Vec::new();
    for key in &plan.trials {
        let folder = key.folder(&path);
        match RecordState::read(&folder, plan.run_id.as_deref()) {
            RecordState::Own(record) if is_finished(&record) => {
                trials.push(summary(&record, &folder));
            }
            RecordState::Own(_) | RecordState::Missing => {}
            RecordState::Unreadable | RecordState::OfAnother(_) => unreadable.push(key.path()),
        }
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
        unreadable,
    })
}
