//! The paths of a run's files on a cluster, and the list of its jobs.

use std::{collections::BTreeMap, io::Write};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
pub(super) use proctor_record::record::CLUSTER_DIR as FOLDER;
use proctor_record::record::StoreError;
use serde::{Deserialize, Serialize};

use super::{planner::TaskId, slurm};

const JOBS: &str = "jobs.ndjson";
/// The file with the address of the head's gateway.
pub(super) const GATEWAY: &str = "gateway.json";
/// The certificate of the head's gateway.
pub(super) const CERTIFICATE: &str = "gateway.pem";

/// A job that was submitted.
#[derive(Debug, Serialize, Deserialize)]
struct KeptJob {
    job: u64,
    base: u32,
    indices: String,
}

/// The common name of a run's jobs.
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

/// Records a job before any other step, so that the next head knows it.
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
    let mut line = serde_json::to_vec(&kept).expect("numbers and strings can be serialized");
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

/// The last submitted task of each trial.
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
