//! What is on disk: the run's folder, its lock, and the files in it. Every file that counts is
//! written whole or not at all.

mod event_log;
mod events;
mod iteration;
mod meta;
mod place;
mod record;
mod results;
mod tail;

pub use event_log::{EventLog, EventWriter};
pub use events::{EVENTS_FILE, Ended, Entry, Event, LONGEST_TEXT, Passage};
pub use iteration::{CheckRecord, IterationReason, IterationRecord};
pub(crate) use meta::meta_scores;
pub use meta::{ExitReason, Meta};
pub use place::Place;
pub use record::{
    AgentLimitsRecord, AgentRecord, ContainerRecord, DiffRecord, EngineRecord, HostRecord,
    Judgement, LimitsRecord, OutputRecord, ProcessRecord, RECORD_VERSION, Record, ResourceRecord,
    SandboxRecord, TaskRecord, TrialStatus, hex,
};
pub use results::{
    AgentResult, Artifacts, Execution, OverallStatus, Results, Summary, TestCaseResult,
};
pub use tail::Tail;

use std::{
    fs::{File, TryLockError},
    io::{Error, ErrorKind},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::Serialize;

use crate::{
    platform::{self, pointer},
    tree,
};

/// The record of a trial, in its artifacts folder.
pub const RECORD_FILE: &str = "record.json";
/// The normalised log.
pub const LOG_FILE: &str = "youbencha-log.json";
/// The judged results.
pub const RESULTS_FILE: &str = "results.json";
/// The trial in Thunderdome's format, beside the artifacts folder.
pub const META_FILE: &str = "meta.json";
/// What the installation changed before the agent started, when that is part of the base.
pub const INSTALL_PATCH_FILE: &str = "install.patch";
/// What the agent changed.
pub const PATCH_FILE: &str = "git-diff.patch";
/// The lock of a run's folder, and of a trial's folder for temporary files.
pub const LOCK_FILE: &str = ".lock";

const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

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
    /// Whether there is no room left: nobody chose a wrong folder then.
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
        let lock = lock(&path)?;
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
                    let lock = lock(&path).map_err(failed(&path))?;
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

/// A sortable id: the time to the second, and random digits.
pub fn new_id() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!("{now}-{}", &random[random.len() - 8..])
}

/// Where a trial of a suite is, below what holds all of them.
pub fn trial_path(agent: &str, task: &str, trial: u32) -> Utf8PathBuf {
    // With slashes everywhere: keys and records name trials by it.
    format!("{agent}/{}/trial-{trial}", folder_name(task)).into()
}

/// A task's name as the name of a folder.
fn folder_name(task: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = task
        .chars()
        .map(|c| if safe(c) { c } else { '-' })
        .take(100)
        .collect();
    name.trim_start_matches('.').to_owned()
}

/// Open a file that is only ever locked. What another has locked is not to be cut short on Windows.
pub(crate) fn lock_file(path: &Utf8Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).open(path)
}

/// Lock a folder of ours. The system gives the lock back when its holder dies.
pub fn lock(folder: &Utf8Path) -> std::io::Result<File> {
    let file = lock_file(&folder.join(LOCK_FILE))?;
    // Whoever only asks whether it is held has it for an instant: see `is_locked`.
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    let reason = "another process holds the lock";
    Err(Error::new(ErrorKind::ResourceBusy, reason))
}

/// Whether a living process holds the lock of a folder. A folder without a lock file is being
/// made just now, or is none of ours: it counts as held.
pub fn is_locked(folder: &Utf8Path) -> bool {
    !File::open(folder.join(LOCK_FILE)).is_ok_and(|file| file.try_lock_shared().is_ok())
}

/// Have a shared file system ask its server about a folder, instead of believing for a while what it saw there:
/// opening is when it does. A folder that is not there says so to whoever looks into it.
pub(crate) fn ask_again(folder: &Utf8Path) {
    let _ = File::open(folder);
}

/// Write a JSON file whole or not at all.
pub fn write_json(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    tree::write_atomically(path.as_std_path(), &bytes).map_err(|source| StoreError {
        path: path.to_owned(),
        source,
    })
}

/// The same for a part of a trial's results: it stays for good with the record, which is written after it.
pub fn write_part(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    tree::write_part(path.as_std_path(), &bytes).map_err(|source| StoreError {
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
    fn a_lock_is_held_while_its_holder_lives() {
        let (_dir, parent) = folder();
        let run = RunDir::create(&parent, "run").unwrap();
        let path = run.path.clone();
        assert!(is_locked(&path));
        drop(run);
        assert!(!is_locked(&path));
    }

    #[test]
    fn a_folder_without_a_lock_file_is_left_alone() {
        let (_dir, parent) = folder();
        assert!(is_locked(&parent));
    }

    #[test]
    fn a_task_name_is_a_safe_folder() {
        assert_eq!(folder_name("../fix: it"), "-fix--it");
    }
}
