//! The directory of a run: file names, its lock, and atomic writes.

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

/// The record of a trial, in its artifacts directory.
pub const RECORD_FILE: &str = "record.json";

/// The normalised log.
pub const LOG_FILE: &str = "youbencha-log.json";

/// The judged results.
pub const RESULTS_FILE: &str = "results.json";

/// The trial in Thunderdome's format, next to the artifacts directory.
pub const META_FILE: &str = "meta.json";

/// The changes of the installation before the agent started, if they are part of the base.
pub const INSTALL_PATCH_FILE: &str = "install.patch";

/// Files of an agent that its session read at the end, below its raw output.
pub const COLLECTED_DIR: &str = "collected";

/// The agent's prompt, as it was sent.
pub const PROMPT_FILE: &str = "prompt.md";

/// The agent's change.
pub const PATCH_FILE: &str = "git-diff.patch";

/// The directory of a project's runs.
pub const PROJECT_DIR: &str = ".proctor";

/// Directories that hold runs and nothing else: a project's, and the two of youBencha.
pub const RUN_DIRS: [&str; 3] = [PROJECT_DIR, ".youbencha-workspace", ".youbencha-eval"];

/// A run's directory could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to {path}")]
pub struct StoreError {
    /// The path.
    pub path: Utf8PathBuf,
    /// The cause.
    pub source: Error,
}

impl StoreError {
    /// Whether the disk is full, which is not a user error.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        )
    }
}

/// The directory of a run, locked while this process uses it.
#[derive(Debug)]
pub struct RunDir {
    /// The id of the run.
    pub id: String,
    /// The folder.
    pub path: Utf8PathBuf,
    _lock: File,
}

impl RunDir {
    /// Creates `<parent>/<id>`, for a run of a suite.
    pub fn create_plain(parent: &Utf8Path) -> Result<RunDir, StoreError> {
        let failed = |source| StoreError {
            path: parent.to_owned(),
            source,
        };
        fs::create_dir_all(parent).map_err(failed)?;
        let parent = platform::canonical(parent).map_err(failed)?;
        RunDir::make(&parent, str::to_owned)
    }

    /// Opens the directory of an earlier run, unless a live process holds its lock.
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

    /// Creates `<parent>/<name>-<id>`. The id starts with the time, so that directories are sorted;
    /// creating the directory makes it unique.
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

/// The canonical path of a run's directory, which may be given as `latest`.
pub fn run_folder(path: &Utf8Path) -> std::io::Result<Utf8PathBuf> {
    pointer::real_folder(path)
}

/// The path of a suite's trial, relative to the directory of all trials.
pub fn trial_path(agent: &str, task: &str, trial: u32) -> Utf8PathBuf {
    // With slashes on all platforms, because keys and records contain it.
    format!("{agent}/{}/trial-{trial}", folder_name(task)).into()
}

/// Writes a JSON file atomically.
pub fn write_json(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    dir::write_atomically(path.as_std_path(), &bytes).map_err(|source| StoreError {
        path: path.to_owned(),
        source,
    })
}

/// The same for a part of a trial's results: it becomes durable with the record, which is written
/// after it.
pub fn write_part(path: &Utf8Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = json(path, value)?;
    dir::write_part(path.as_std_path(), &bytes).map_err(|source| StoreError {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn json(path: &Utf8Path, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
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
    fn concurrent_runs_have_separate_directories() {
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
