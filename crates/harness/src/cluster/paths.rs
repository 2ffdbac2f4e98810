//! Where the files of a run on a cluster lie, and the list of its jobs.

use std::{collections::BTreeMap, io::Write, time::SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{board::TaskId, slurm};
use crate::{claim::STALE, store::StoreError};

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
    array: &super::board::Array<slurm::Shape>,
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
    let claims = run.join("claims");
    // By the file server's clock, which made the claims' times.
    let now = tempfile::tempfile_in(&claims).and_then(|file| file.metadata()?.modified());
    run.join(FOLDER).is_dir() && any_fresh(&claims, now.unwrap_or_else(|_| SystemTime::now()))
}

fn any_fresh(folder: &Utf8Path, now: SystemTime) -> bool {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    let mut paths = entries.map(camino::Utf8DirEntry::into_path);
    paths.any(|path| {
        if path.is_dir() {
            any_fresh(&path, now)
        } else {
            is_fresh(&path, now)
        }
    })
}

fn is_fresh(claim: &Utf8Path, now: SystemTime) -> bool {
    let heard = claim.metadata().and_then(|about| about.modified());
    let age = heard.map(|heard| now.duration_since(heard).unwrap_or_default());
    // The second line says that it was given up.
    age.is_ok_and(|age| age < STALE)
        && fs::read_to_string(claim).is_ok_and(|text| text.lines().count() < 2)
}
