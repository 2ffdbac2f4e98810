//! The baseline as it was before the agent started. On this machine an agent runs as the same user, so that it could
//! change the settings of our repository, which git would obey, or its objects.

use std::{collections::BTreeMap, io, path::Path, time::SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::{Digest, Sha256};

use super::{ALTERNATES, BRANCH, Workspace, WorkspaceError, attributes};
use crate::{git::SHALLOW, platform, store};

/// Small files that decide what git does. One that was not there is removed.
const FILES: [&str; 11] = [
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "HEAD",
    "packed-refs",
    "info/exclude",
    attributes::FILE,
    ALTERNATES,
    BRANCH,
    SHALLOW,
];

/// The state of a git directory.
#[derive(Debug, Default)]
pub(super) struct Pristine {
    files: Vec<(&'static str, Option<Vec<u8>>)>,
    index: Option<String>,
    /// Size and time of the last change of every object file, which programs cannot set.
    objects: BTreeMap<Utf8PathBuf, (u64, SystemTime)>,
}

impl Workspace {
    /// Remember the baseline as it is.
    pub(super) fn seal(&self) -> io::Result<()> {
        let dir = self.git.dir();
        let content = |name: &&'static str| (*name, fs::read(dir.join(name)).ok());
        let mut objects = BTreeMap::new();
        stamps(&dir.join("objects"), &mut objects)?;
        if let Some(packed) = &self.base.packed {
            stamps(&packed.dir.join("objects"), &mut objects)?;
        }
        let pristine = Pristine {
            files: FILES.iter().map(content).collect(),
            index: index(dir),
            objects,
        };
        *self
            .pristine
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = pristine;
        Ok(())
    }

    /// Make the baseline what it was when it was sealed. Objects that were changed cannot be made again.
    pub(super) async fn unseal(&self) -> Result<(), WorkspaceError> {
        let is_same_index = {
            let pristine = self
                .pristine
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            pristine.restore(self.git.dir())?;
            pristine.index == index(self.git.dir())
        };
        if !is_same_index {
            self.git.run(["read-tree", &self.base_commit]).await?;
        }
        Ok(())
    }
}

impl Pristine {
    fn restore(&self, dir: &Utf8Path) -> Result<(), WorkspaceError> {
        for (name, content) in &self.files {
            let path = dir.join(name);
            if fs::read(&path).ok() == *content && !path.is_symlink() {
                continue;
            }
            if path.symlink_metadata().is_ok_and(|it| it.is_dir()) {
                platform::remove(path.as_std_path())?;
            } else if path.symlink_metadata().is_ok() {
                fs::remove_file(&path)?;
            }
            if let Some(content) = content {
                fs::create_dir_all(path.parent().unwrap_or(dir))?;
                fs::write(&path, content)?;
            }
        }
        for (path, stamp) in &self.objects {
            let now = fs::symlink_metadata(path).map(|it| (it.len(), platform::changed(&it)));
            if now.ok() != Some(*stamp) {
                return Err(WorkspaceError::Tampered { path: path.clone() });
            }
        }
        Ok(())
    }
}

fn index(dir: &Utf8Path) -> Option<String> {
    let bytes = fs::read(dir.join("index")).ok()?;
    Some(store::hex(&Sha256::digest(bytes)))
}

fn stamps(
    folder: &Utf8Path,
    found: &mut BTreeMap<Utf8PathBuf, (u64, SystemTime)>,
) -> io::Result<()> {
    let entries = match Path::new(folder).symlink_metadata() {
        Ok(_) => fs::read_dir(folder)?,
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else {
            continue;
        };
        let about = entry.metadata()?;
        if about.is_dir() {
            stamps(&path, found)?;
        } else if path.file_name() != Some("alternates") {
            found.insert(path, (about.len(), platform::changed(&about)));
        }
    }
    Ok(())
}
