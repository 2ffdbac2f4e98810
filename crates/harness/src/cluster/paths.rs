//! Where the files of a run on a cluster lie, and the list of its jobs.

use std::{collections::BTreeMap, io::Write, time::SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{planner::TaskId, slurm};
use crate::record::{
    self, StoreError,
    lease::{Leases, STALE},
};

/// The folder in a run's folder.
pub(super) const FOLDER: &str = "cluster";
const JOBS: &str = "jobs.ndjson";
/// The file that says where the gateway of the head is.
pub(super) const GATEWAY: &str = "gateway.json";
/// Its certificate.
pub(super) const CERTIFICATE: &str = "gateway.pem";

/// A job that was submitted.
#[derive(Debug, Serialize, Deserialize)]
struct KeptJob {
    job: u64,
    base: u32,
    indices: String,
}

/// The name that all jobs of a run have.
pub(super) fn job_name(run_id: &str) -> String {
    format!("proctor-{run_id}")
}

/// The file of a trial's spec.
pub(super) fn spec(folder: &Utf8Path, trial: usize) -> Utf8PathBuf {
    folder.join("trials").join(format!("{trial}.json"))
}

/// The log of a task.
pub(super) fn log(folder: &Utf8Path, task: TaskId) -> Utf8PathBuf {
    folder.join(format!("logs/{}_{}.log", task.job, task.index))
}

/// Note a job before anything else is done: should the head die, the next one knows it.
pub(super) fn add_job(
    folder: &Utf8Path,
    job: u64,
    array: &super::planner::Array<slurm::Shape>,
) -> Result<(), StoreError> {
    let path = folder.join(JOBS);
    let kept = KeptJob {
        job,
        base: array.base,
        indices: slurm::expression(&array.indices),
    };
    let mut line = serde_json::to_vec(&kept).expect("numbers and texts are JSON");
    line.push(b'\n');
    let mut options = fs::OpenOptions::new();
    let written = options
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| {
            file.write_all(&line)?;
            file.sync_data()
        });
    written.map_err(|source| StoreError { path, source })
}

/// The last task of each trial that was ever submitted.
pub(super) fn tasks(folder: &Utf8Path) -> BTreeMap<usize, TaskId> {
    let text = fs::read_to_string(folder.join(JOBS)).unwrap_or_default();
    let jobs = text.lines();
    let jobs = jobs.filter_map(|line| serde_json::from_str::<KeptJob>(line).ok());
    let mut tasks = BTreeMap::new();
    for kept in jobs {
        for index in slurm::indices(&kept.indices) {
            let number = usize::try_from(kept.base + index).unwrap_or(usize::MAX);
            let job = kept.job;
            tasks.insert(number, TaskId { job, index });
        }
    }
    tasks
}

/// Whether jobs of a run without a head are at work: their claims are fresh.
pub(crate) fn has_living(run: &Utf8Path) -> bool {
    Holders::of(run).living > 0
}

/// How many trials have a process of which nothing was heard for long: its node may be dead, or cut off.
pub fn silent(run: &Utf8Path) -> usize {
    record::run_folder(run).map_or(0, |run| Holders::of(&run).silent)
}

/// The processes that have trials of a run on a cluster, by their claims.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holders {
    living: usize,
    silent: usize,
}

impl Holders {
    fn of(run: &Utf8Path) -> Holders {
        let mut holders = Holders::default();
        let claims = run.join("claims");
        if !run.join(FOLDER).is_dir() || !claims.is_dir() {
            return holders;
        }
        // By the file server's clock, which made the claims' times.
        let now = tempfile::tempfile_in(&claims).and_then(|file| file.metadata()?.modified());
        holders.count(&claims, now.unwrap_or_else(|_| SystemTime::now()));
        holders
    }

    fn count(&mut self, folder: &Utf8Path, now: SystemTime) {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        for entry in entries {
            if entry.path().is_dir() {
                self.count(entry.path(), now);
                continue;
            }
            // Each trial once, by its first claim.
            let Some(prefix) = entry.path().as_str().strip_suffix(".1") else {
                continue;
            };
            match Leases::at(prefix).last() {
                Ok(Some(seen)) if seen.ended.is_some() => {}
                Ok(Some(seen)) if seen.is_silent(STALE, now) => self.silent += 1,
                Ok(Some(_)) => self.living += 1,
                Ok(None) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::lease::{Ended, Evidence, Holder, Taken};

    #[test]
    fn holders_live_or_are_silent_until_they_give_up() {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let claim = |trial: &str| {
            let claims = Leases::at(run.join("claims/agent/task").join(trial));
            let who = Holder::here("node", None);
            let now = || Ok(SystemTime::now());
            match claims.take(&who, Evidence::Engine, &now).unwrap() {
                Taken::Ours(claim) => claim,
                Taken::Held(seen) => panic!("{seen:?}"),
            }
        };
        let (living, silent, over) = (claim("trial-1"), claim("trial-2"), claim("trial-3"));
        assert_eq!(Holders::of(run), Holders::default(), "it is on no cluster");
        fs::create_dir(run.join(FOLDER)).unwrap();
        let long_ago = SystemTime::now() - STALE - Duration::from_secs(5);
        silent.beat_at(long_ago).unwrap();
        over.end(Ended::Recorded).unwrap();
        let expect = Holders {
            living: 1,
            silent: 1,
        };
        assert_eq!(Holders::of(run), expect);
        living.end(Ended::Interrupted).unwrap();
        // Another has it now.
        claim("trial-2");
        assert_eq!(Holders::of(run).silent, 0);
    }
}
