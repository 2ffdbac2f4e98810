//! The baseline as it was before the agent started. On this machine an agent runs as the same user, so that it could
//! change the settings of our repository, which git would obey.

use std::{io, sync::PoisonError};

use camino::Utf8Path;
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
}

impl Workspace {
    /// Remember the baseline as it is.
    pub(super) fn seal(&self) {
        let dir = self.git.dir();
        let content = |name: &&'static str| (*name, fs::read(dir.join(name)).ok());
        let now = Pristine {
            files: FILES.iter().map(content).collect(),
            index: index(dir),
        };
        let mut pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
        *pristine = now;
    }

    /// Make the settings and the index what they were when the baseline was sealed.
    pub(super) async fn unseal(&self) -> Result<(), WorkspaceError> {
        let is_same_index = {
            let pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn restore(&self, dir: &Utf8Path) -> io::Result<()> {
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
        Ok(())
    }
}

fn index(dir: &Utf8Path) -> Option<String> {
    let bytes = fs::read(dir.join("index")).ok()?;
    Some(store::hex(&Sha256::digest(bytes)))
}
