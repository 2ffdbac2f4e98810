//! `plan.json`: the trials of a run, so that the run can be resumed and followed.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{lease::Leases, trial_path};

/// The trials of a run, in its directory.
pub const PLAN_FILE: &str = "plan.json";
/// The results of a run, in its directory.
pub const SUMMARY_FILE: &str = "summary.json";

/// A directory does not hold a run.
#[derive(Debug, thiserror::Error)]
#[error("there is no run {run} to resume")]
pub struct NoRun {
    /// The directory.
    pub run: Utf8PathBuf,
}

/// The content of `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanFile {
    /// The suite's file, as the user named it.
    #[serde(default)]
    pub suite: Option<String>,
    /// The id of the run, which its records name; the directory may have been renamed.
    #[serde(default)]
    pub run_id: Option<String>,
    pub seed: u64,
    pub trials: Vec<TrialKey>,
}

/// Identifies a trial within a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    pub agent: String,
    pub task: String,
    pub trial: u32,
    /// Whether the directory of the run is the directory of the trial, as for a single test case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole_run: bool,
}

impl PlanFile {
    pub fn read(run: &Utf8Path) -> Result<PlanFile, NoRun> {
        let plan = fs::read(run.join(PLAN_FILE)).ok();
        let plan = plan.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        plan.ok_or_else(|| NoRun {
            run: run.to_owned(),
        })
    }

    /// Whether both plan the same trials. The suite's file may have moved.
    pub fn is_same(&self, other: &PlanFile) -> bool {
        self.seed == other.seed && self.trials == other.trials
    }
}

impl TrialKey {
    /// The trial's directory in a run.
    pub fn folder(&self, run: &Utf8Path) -> Utf8PathBuf {
        if self.is_whole_run {
            return run.to_owned();
        }
        run.join("trials").join(self.path())
    }

    /// The leases on the trial.
    pub fn leases(&self, run: &Utf8Path) -> Leases {
        Leases::at(run.join("claims").join(self.path()))
    }

    pub fn path(&self) -> Utf8PathBuf {
        trial_path(&self.agent, &self.task, self.trial)
    }
}
