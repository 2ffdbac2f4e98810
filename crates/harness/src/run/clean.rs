//! Removes kept workspaces, complete runs, and files of dead runs in the temporary directory.
//! Active runs are never touched.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::{dir, pointer},
    platform,
    record::{self, RunDir, follow::trial_folders, list},
};
use proctor_sandbox::trial_dir;

/// The part of a run that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The workspaces; records and artifacts are kept.
    Workspaces,
    /// The complete run.
    Run,
}

/// Whether to remove or only to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Removes the files.
    Remove,
    /// Lists the files that would be removed.
    DryRun,
}

/// A directory that was or would be removed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Removed {
    /// The folder.
    pub path: Utf8PathBuf,
    /// Its size on disk.
    pub bytes: u64,
}

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The directory is not a run.
    #[error("{run} is not a run")]
    NoRun {
        /// The folder.
        run: Utf8PathBuf,
    },
    /// The run is active.
    #[error("{run} is running")]
    Running {
        /// The run.
        run: Utf8PathBuf,
    },
    /// A folder could not be removed.
    #[error("cannot remove {path}")]
    Remove {
        /// The folder.
        path: Utf8PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Removes a run, or its workspaces. The run's lock is held meanwhile, so that it cannot be
/// resumed.
pub fn run(run: &Utf8Path, extent: Extent, mode: Mode) -> Result<Vec<Removed>, CleanError> {
    if !list::is_run(run) {
        let run = run.to_owned();
        return Err(CleanError::NoRun { run });
    }
    let held = RunDir::open(run).map_err(|_| CleanError::Running {
        run: run.to_owned(),
    })?;
    if record::has_living(&held.path) {
        return Err(CleanError::Running {
            run: run.to_owned(),
        });
    }
    let folders = match extent {
        Extent::Run => vec![held.path.clone()],
        Extent::Workspaces => workspaces(&held.path),
    };
    let path = held.path.clone();
    let is_in_the_way = extent == Extent::Run && !platform::REMOVES_WHAT_IS_OPEN;
    let held = (!is_in_the_way).then_some(held);
    let mut removed = Vec::new();
    for path in folders {
        removed.push(remove(path, mode)?);
    }
    drop(held);
    if (extent, mode) == (Extent::Run, Mode::Remove) {
        unlink_latest(&path);
    }
    Ok(removed)
}

/// Removes files of dead runs from the temporary directory.
pub fn leftovers(temp: &Utf8Path, mode: Mode) -> Vec<Removed> {
    let removed = trial_dir::dead(temp).filter_map(|dead| {
        let path = dead.path();
        let bytes = size(&path);
        if mode == Mode::Remove {
            dead.discard();
        }
        (mode == Mode::DryRun || !path.exists()).then_some(Removed { path, bytes })
    });
    removed.collect()
}

fn remove(path: Utf8PathBuf, mode: Mode) -> Result<Removed, CleanError> {
    let bytes = size(&path);
    if mode == Mode::Remove {
        dir::remove(&path).map_err(|source| CleanError::Remove {
            path: path.clone(),
            source,
        })?;
    }
    Ok(Removed { path, bytes })
}

/// The kept workspaces of a run, including those of earlier attempts.
fn workspaces(run: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut trials: Vec<Utf8PathBuf> = trial_folders(run)
        .into_iter()
        .map(|(_, trial)| trial)
        .collect();
    for agent in dir::subdirs(&run.join("trials")) {
        trials.extend(
            dir::subdirs(&agent)
                .iter()
                .flat_map(|task| dir::subdirs(task)),
        );
    }
    let workspaces = trials.iter().map(|trial| trial.join("src-modified"));
    workspaces.filter(|workspace| workspace.is_dir()).collect()
}

/// Removes `latest` if its run no longer exists.
fn unlink_latest(run: &Utf8Path) {
    let Some(results) = run.parent().and_then(Utf8Path::parent) else {
        return;
    };
    let latest = results.join("latest");
    if pointer::target(latest.as_std_path()).is_some_and(|target| !target.exists()) {
        pointer::unpoint(latest.as_std_path());
    }
}

/// The size of a directory on disk, without following links. Names may be any bytes.
fn size(path: &Utf8Path) -> u64 {
    fn below(path: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let sizes = entries.map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => below(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        });
        sizes.sum()
    }
    below(path.as_std_path())
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn a_run() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(dir.path().canonicalize().unwrap()).unwrap();
        let run = root.join("runs/20260101-000000-00000001");
        for trial in ["trial-1", "trial-1.attempt-1"] {
            let workspace = run.join("trials/a/t").join(trial).join("src-modified");
            fs::create_dir_all(&workspace).unwrap();
            fs::write(workspace.join("file"), "12345").unwrap();
        }
        fs::write(run.join(".lock"), "").unwrap();
        let target = std::path::Path::new("runs/20260101-000000-00000001");
        platform::link(target, root.join("latest").as_std_path()).unwrap();
        (dir, run)
    }

    #[test]
    fn cleaning_workspaces_keeps_records() {
        let (_dir, path) = a_run();
        let reported = run(&path, Extent::Workspaces, Mode::DryRun).unwrap();
        assert_eq!(reported.len(), 2);
        assert!(
            reported
                .iter()
                .all(|one| one.bytes == 5 && one.path.exists())
        );
        let removed = run(&path, Extent::Workspaces, Mode::Remove).unwrap();
        assert_eq!(removed, reported);
        assert!(removed.iter().all(|one| !one.path.exists()));
        assert!(path.join("trials/a/t/trial-1").exists());
    }

    #[test]
    fn run_is_removed_with_its_link_unless_active() {
        let (dir, path) = a_run();
        let living = RunDir::open(&path).unwrap();
        let refused = run(&path, Extent::Run, Mode::Remove);
        assert!(matches!(refused, Err(CleanError::Running { .. })));
        drop(living);
        let claim = path.join("claims/a/t/trial-1.1");
        std::fs::create_dir_all(path.join("cluster")).unwrap();
        std::fs::create_dir_all(claim.parent().unwrap()).unwrap();
        std::fs::write(&claim, "{}\n").unwrap();
        let refused = run(&path, Extent::Run, Mode::Remove);
        assert!(matches!(refused, Err(CleanError::Running { .. })), "a job");
        std::fs::write(&claim, "{}\n\"recorded\"\n").unwrap();
        run(&path, Extent::Run, Mode::Remove).unwrap();
        assert!(!path.exists());
        assert_eq!(pointer::target(&dir.path().join("latest")), None);
    }

    #[test]
    fn folder_that_is_not_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap();
        let refused = run(path, Extent::Run, Mode::Remove);
        assert!(matches!(refused, Err(CleanError::NoRun { .. })));
        assert!(path.exists());
    }
}
