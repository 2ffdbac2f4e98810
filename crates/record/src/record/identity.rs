//! Checks whether a record belongs to the trial of its directory. A misplaced record counts as
//! unreadable, so that the trial is run again and not reported as another.

use camino::Utf8Path;
use fs_err as fs;

use super::{RECORD_FILE, Record, trial_path};

/// The state of a trial's record.
pub enum RecordState {
    /// No record.
    Missing,
    /// A file that is not a record.
    Unreadable,
    /// The record of another trial, with its name.
    OfAnother(String),
    /// The trial's own record.
    Own(Box<Record>),
}

impl RecordState {
    /// Reads the record of the trial in `folder`. The run is not compared if its id is unknown.
    pub fn read(folder: &Utf8Path, run_id: Option<&str>) -> RecordState {
        let Ok(bytes) = fs::read(folder.join("artifacts").join(RECORD_FILE)) else {
            return RecordState::Missing;
        };
        match serde_json::from_slice::<Record>(&bytes) {
            Err(_) => RecordState::Unreadable,
            Ok(record) if record.is_of(folder, run_id) => RecordState::Own(Box::new(record)),
            Ok(record) => RecordState::OfAnother(record.trial_name()),
        }
    }

    /// The trial's own record.
    pub fn own(self) -> Option<Record> {
        match self {
            RecordState::Own(record) => Some(*record),
            RecordState::Missing | RecordState::Unreadable | RecordState::OfAnother(_) => None,
        }
    }
}

impl Record {
    /// Whether this is the record of the trial in `folder`. Only in runs of suites the directory
    /// identifies the trial.
    pub fn is_of(&self, folder: &Utf8Path, run_id: Option<&str>) -> bool {
        let below = trial_path(&self.agent.name, &self.task.name, self.trial);
        let trials = folder.ancestors().nth(3).and_then(Utf8Path::file_name);
        let is_same_trial = trials != Some("trials") || folder.ends_with(below);
        is_same_trial && run_id.is_none_or(|id| id == self.run_id)
    }

    /// The trial of the record, for messages.
    fn trial_name(&self) -> String {
        let (agent, task) = (&self.agent.name, &self.task.name);
        format!(
            "trial {} of {agent} on {task} in run {}",
            self.trial, self.run_id
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let record = serde_json::json!({
            "version": "1.0.0", "run_id": "r", "trial": 2, "outcome": "completed",
            "status": "passed", "agent": {"name": "a", "type": "null", "adapter_version": "0"},
            "task": {"name": "t: x", "config_file": "", "config_hash": "", "repo": ""},
            "started_at": "", "counts": crate::session::Counts::default(),
            "verdicts": [], "errors": [], "notes": [],
            "host": {"os": "", "arch": "", "cpus": 1}, "proctor_version": "0",
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn record_belongs_to_the_trial_of_its_directory_and_run() {
        for (folder, run_id, expect) in [
            ("/runs/r/trials/a/t--x/trial-2", Some("r"), true),
            ("/runs/renamed/trials/a/t--x/trial-2", Some("r"), true),
            ("/runs/r/trials/a/t--x/trial-2", None, true),
            ("/runs/r/trials/a/t--x/trial-2", Some("other"), false),
            ("/runs/r/trials/a/t--x/trial-1", Some("r"), false),
            ("/runs/r/trials/b/t--x/trial-2", Some("r"), false),
            ("/runs/r/trials/a/other/trial-2", None, false),
            ("/results/case-r", Some("r"), true),
            ("/results/run-r/2-case", None, true),
        ] {
            let is_of = record().is_of(Utf8Path::new(folder), run_id);
            assert_eq!(is_of, expect, "{folder} {run_id:?}");
        }
    }
}
