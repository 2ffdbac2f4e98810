//! The files of a run: its directory, its lock, and its records. Every important file is written
//! atomically.

pub mod cli;
mod event_log;
mod events;
pub mod follow;
mod gateway;
mod holders;
mod hook;
mod identity;
mod iteration;
pub mod lease;
pub mod list;
mod meta;
pub mod metrics_file;
mod place;
mod plan;
mod results;
pub mod run_event;
pub mod score;
mod summary;
mod tail;
mod trial;
mod verdict;

pub use event_log::{EventLog, EventWriter};
pub use events::{EVENTS_FILE, Ended, Entry, Event, LONGEST_TEXT, Passage};
pub use gateway::MOST_DIFFERENCES;
pub use gateway::{GatewayPlace, GatewayRecord, ReplayRecord, SideCall};
pub use holders::{CLUSTER_DIR, has_living, silent};
pub use hook::{HookPhase, HookRecord, HookStatus};
pub use identity::RecordState;
pub use iteration::{CheckRecord, IterationReason, IterationRecord, RetryOn};
pub use meta::meta_scores;
pub use meta::{ExitReason, Meta};
pub use place::Place;
pub use plan::NoRun;
pub use plan::{PLAN_FILE, PlanFile, SUMMARY_FILE, TrialKey};
pub use results::{
    AgentResult, Artifacts, Execution, OverallStatus, Results, Summary, TestCaseResult,
};
pub use summary::{TrialSummary, summary};
pub use tail::Tail;
pub use trial::{
    AgentLimitsRecord, AgentRecord, ContainerRecord, DiffRecord, EngineRecord, HostRecord,
    Judgement, LimitsRecord, OutputRecord, ProcessRecord, RECORD_VERSION, Record, ResourceRecord,
    SandboxRecord, TaskKind, TaskRecord, TrialStatus,
};
pub use verdict::DEFAULT_WEIGHT;
pub use verdict::{Artifact, Verdict, VerdictError, VerdictStatus};

use std::{
    fs::File,
    io::{Error, ErrorKind},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::Serialize;

use crate::{
    fs::{dir, folder_name, lock_dir, new_id, pointer},
    platform,
};

/// The record of a trial, in its artifacts folder.
pub const RECORD_FILE: &str = "record.json";
/// The normalised log.
pub const LOG_FILE: &str = "youbencha-log.json";
/// The judged results.
pub const RESULTS_FILE: &str = "results.json";
/// The trial in Thunderdome's format, beside the artifacts folder.
pub const META_FILE: &str = "meta.json";
/// The changes of the installation before the agent started, if they are part of the base.
pub const INSTALL_PATCH_FILE: &str = "install.patch";
/// Files of an agent that its session read at the end, below its raw output.
pub const COLLECTED_DIR: &str = "collected";
/// The agent's change.
pub const PATCH_FILE: &str = "git-diff.patch";
/// The folder of a project that holds its runs.
pub const PROJECT_DIR: &str = ".proctor";

/// A run's folder could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to {path}")]
pub struct StoreError {
    /// Where.
    pub path: Utf8PathBuf,
    /// Why.
    pub source: Error,
}

impl StoreError {
    /// Whether the disk is full, which is not a wrong choice of the user.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        )
    }
}

/// The folder of a run, locked while we live.
#[derive(Debug)]
pub struct RunDir {
    /// The id of the run.
    pub id: String,
    /// The folder.
    pub path: Utf8PathBuf,
    _lock: File,
}

impl RunDir {
    /// Make `<parent>/<id>`, for a run of a suite.
    pub fn create_plain(parent: &Utf8Path) -> Result<RunDir, StoreError> {
        let failed = |source| StoreError {
            path: parent.to_owned(),
            source,
        };
        fs::create_dir_all(parent).map_err(failed)?;
        let parent = platform::canonical(parent).map_err(failed)?;
        RunDir::make(&parent, str::to_owned)
    }

    /// Take up the folder of an earlier run, unless a living process holds it.
    pub fn open(path: &Utf8Path) -> std::io::Result<RunDir> {
        let path = run_folder(path)?;
        let lock = lock_dir(&path)?;
        let id = path.file_name().unwrap_or_default().to_owned();
        Ok(RunDir {
            id,
            path,
            _lock: lock,
        })
    }

    /// Make `<parent>/<name>-<id>`. The id starts with the time, so that folders sort; making the
    /// folder is what makes it unique.
    pub fn create(parent: &Utf8Path, name: &str) -> Result<RunDir, StoreError> {
        RunDir::make(parent, |id| format!("{name}-{id}"))
    }

    fn make(parent: &Utf8Path, name: impl Fn(&str) -> String) -> Result<RunDir, StoreError> {
        let failed = |path: &Utf8Path| {
            let path = path.to_owned();
            move |source| StoreError { path, source }
        };
        fs::create_dir_all(parent).map_err(failed(parent))?;
        loop {
            let id = new_id();
            let path = parent.join(name(&id));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let lock = lock_dir(&path).map_err(failed(&path))?;
                    return Ok(RunDir {
                        id,
                        path,
                        _lock: lock,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path)(error)),
            }
        }
    }
}

/// The real path of a run's folder, which `latest` may stand for.
pub fn run_folder(path: &Utf8Path) -> std::io::Result<Utf8PathBuf> {
    pointer::real_folder(path)
}

/// Where a trial of a suite is, below what holds all of them.
pub fn trial_path(agent: &str, task: &str, trial: u32) -> Utf8PathBuf {
    // With slashes everywhere: keys and records name trials by it.
    format!("{agent}/{}/trial-{trial}", folder_name(task)).into()
}

/// Write a JSON file whole or not at all.
pub fn write_json(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    dir::write_atomically(path.as_std_path(), &bytes).map_err(|source| StoreError {
        path: path.to_owned(),
        source,
    })
}

/// The same for a part of a trial's results: it stays for good with the record, which is written after it.
pub fn write_part(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    dir::write_part(path.as_std_path(), &bytes).map_err(|source| StoreError {
        path: path.to_owned(),
        source,
    })
}

fn json(path: &Utf8Path, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| StoreError {
        path: path.to_owned(),
        source: error.into(),
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::is_locked;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().to_owned()).unwrap();
        (dir, path)
    }

    #[test]
    fn two_runs_in_the_same_instant_have_folders_of_their_own() {
        let (_dir, parent) = folder();
        let runs: Vec<RunDir> = (0..50)
            .map(|_| RunDir::create(&parent, "run").unwrap())
            .collect();
        let mut ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 50);
    }

    #[test]
    fn run_directory_is_locked_while_its_run_lives() {
        let (_dir, parent) = folder();
        let run = RunDir::create(&parent, "run").unwrap();
        let path = run.path.clone();
        assert!(is_locked(&path));
        drop(run);
        assert!(!is_locked(&path));
    }
}
