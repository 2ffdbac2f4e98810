//! The record of a trial whose process can no longer write it: Slurm killed it, or its job was lost
//! too often.

use camino::Utf8Path;
use fs_err as fs;
use jiff::Timestamp;
use proctor_record::{
    outcome::Outcome,
    record::{
        self, DirHandle, Meta, Record, RecordState, StoreError,
        lease::{Ended, Evidence, Holder, Leases, Taken},
        score::Score,
    },
    session::LogError,
};

use crate::{run::attempt::finished_afresh, trial};

/// A lost trial.
pub(super) struct LostTrial<'a> {
    /// The initial content of its record.
    pub(super) first: &'a dyn Fn() -> Record,
    pub(super) folder: &'a Utf8Path,
    pub(super) leases: &'a Leases,
}

impl LostTrial<'_> {
    /// Writes its result, unless there is one. A process that is still alive loses its lease.
    pub(super) fn conclude(
        &self,
        who: &Holder,
        outcome: Outcome,
        message: String,
    ) -> Result<Record, StoreError> {
        let failed = |source| StoreError {
            path: self.folder.to_owned(),
            source,
        };
        let now = || self.leases.server_time();
        let taken = self.leases.take(who, Evidence::Engine, &now);
        let Taken::Ours(lease) = taken.map_err(failed)? else {
            unreachable!("leases are free once Slurm reports the end");
        };
        // The trial may have finished just before.
        let first = (self.first)();
        if let Some(record) = finished_afresh(self.folder, &first.run_id) {
            lease.end(Ended::Recorded).map_err(failed)?;
            return Ok(record);
        }
        let artifacts = self.folder.join("artifacts");
        fs::create_dir_all(&artifacts).map_err(failed)?;
        let begun = RecordState::read(self.folder, Some(&first.run_id)).own();
        let mut record = begun.unwrap_or(first);
        record.outcome = outcome;
        record.status = trial::status(outcome, &record.verdicts, false);
        record.score = Score::of(outcome, record.status, &record.verdicts);
        record.completed_at = Some(Timestamp::now().to_string());
        record.errors.push(LogError::new("ENGINE", message));
        DirHandle::open(&artifacts)?.write_json(record::RECORD_FILE, &record)?;
        Meta::of(&record).write(self.folder)?;
        lease.end(Ended::Recorded).map_err(failed)?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_record::record::RECORD_FILE;

    /// The record was written between the last check and the lease.
    #[test]
    fn existing_record_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let folder = root.join("trial-1");
        fs::create_dir_all(folder.join("artifacts")).unwrap();
        let leases = Leases::at(root.join("claims/trial-1"));
        let first = || -> Record {
            let record = serde_json::json!({
                "version": "1.0.0", "run_id": "r", "trial": 1, "outcome": "interrupted",
                "status": "interrupted", "agent": {"name": "a", "type": "null", "adapter_version": "0"},
                "task": {"name": "t", "config_file": "", "config_hash": "", "repo": ""},
                "started_at": "", "counts": proctor_record::session::Counts::default(),
                "verdicts": [], "errors": [], "notes": [],
                "host": {"os": "", "arch": "", "cpus": 1}, "proctor_version": "0",
            });
            serde_json::from_value(record).unwrap()
        };
        let dead = LostTrial {
            first: &first,
            folder: &folder,
            leases: &leases,
        };
        let conclude = || {
            let who = Holder::here("head", None);
            let message = "too much".to_owned();
            dead.conclude(&who, Outcome::OutOfMemory, message).unwrap()
        };
        let record = conclude();
        assert_eq!(record.outcome, Outcome::OutOfMemory);
        let done = Record {
            outcome: Outcome::Completed,
            status: record::TrialStatus::Passed,
            ..record
        };
        record::write_json(&folder.join("artifacts").join(RECORD_FILE), &done).unwrap();
        assert_eq!(conclude().outcome, Outcome::Completed);
        let kept = finished_afresh(&folder, "r").unwrap();
        assert_eq!(kept.outcome, Outcome::Completed);
    }
}
