//! The baseline before the agent started. On this machine an agent runs as the same user and could
//! change the settings of our repository, which git would use.

use std::{io, sync::PoisonError};

use proctor_record::fs::{beneath::UntrustedDir, hex};
use proctor_sandbox::git::SHALLOW;
use sha2::{Digest, Sha256};

use super::{ALTERNATES, BRANCH, Workspace, WorkspaceError, attributes};

/// Small files that control git. A file that did not exist is removed.
const FILES: [&str; 16] = [
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
    "info/grafts",
    // Git would take these for another process at work, and do nothing.
    "config.lock",
    "HEAD.lock",
    "index.lock",
    "packed-refs.lock",
];

/// The maximum size of one of them, and of the index.
const LONGEST: u64 = 64 << 20;
const LONGEST_INDEX: u64 = 1 << 30;

/// The state of a git directory.
#[derive(Debug, Default)]
pub(super) struct Pristine {
    files: Vec<(&'static str, Option<Vec<u8>>)>,
    index: Option<String>,
}

impl Workspace {
    /// Saves the state of the baseline.
    pub(super) fn seal(&self) {
        let dir = UntrustedDir::new(self.git.dir());
        let content = |name: &&'static str| (*name, dir.read(name, LONGEST).ok());
        let now = Pristine {
            files: FILES.iter().map(content).collect(),
            index: index(&dir),
        };
        let mut pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
        *pristine = now;
    }

    /// Restores the settings and the index of the saved state.
    pub(super) async fn unseal(&self) -> Result<(), WorkspaceError> {
        let is_same_index = {
            let pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
            let dir = UntrustedDir::new(self.git.dir());
            pristine.restore(&dir)?;
            pristine.index == index(&dir)
        };
        if !is_same_index {
            self.git.run(["read-tree", &self.base_commit]).await?;
        }
        Ok(())
    }
}

impl Pristine {
    fn restore(&self, dir: &UntrustedDir) -> io::Result<()> {
        for (name, content) in &self.files {
            // A pipe, a link or a huge file never equals the saved content.
            if dir.read(name, LONGEST).ok() == *content
                && dir.metadata(name).is_ok() == content.is_some()
            {
                continue;
            }
            // A file that must not exist is written first, too: that replaces links in its path.
            dir.write(name, content.as_deref().unwrap_or_default())?;
            if content.is_none() {
                dir.remove(name)?;
            }
        }
        Ok(())
    }
}

fn index(dir: &UntrustedDir) -> Option<String> {
    let bytes = dir.read("index", LONGEST_INDEX).ok()?;
    Some(hex(&Sha256::digest(bytes)))
}
