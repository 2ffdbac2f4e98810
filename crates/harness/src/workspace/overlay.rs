//! Files that an agent has in its workspace and that are not the task's. The agent starts from a commit with them; its
//! work is judged on the task's own base without them.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_sandbox::{git::Git, host::Host};

use super::{Base, ChangedFile, Workspace, WorkspaceError};

/// The files of an agent over the task's base.
#[derive(Debug)]
pub(super) struct Overlay {
    /// The tree that the agent started from.
    start: String,
    /// The paths of its files, including removed ones.
    paths: BTreeSet<String>,
}

/// A file of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFile {
    /// Its path.
    pub path: Utf8PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it is executable.
    pub is_executable: bool,
}

impl Workspace {
    /// Makes the current content the agent's start. The base of judging stays the same, and `declared` are paths whose
    /// content is not the agent's work in any case.
    pub async fn start_agent_here(
        &mut self,
        declared: BTreeSet<String>,
    ) -> Result<(), WorkspaceError> {
        let start = self.stage().await?.tree;
        let mut paths = declared;
        let changed = self.changed_between(&self.base_tree, &start).await?;
        paths.extend(changed.into_iter().map(|file| file.path));
        if start != self.base_tree {
            let message = "Base of the trial: with the files of the agent";
            self.commit_start(&start, message).await?;
            self.renew_repository().await?;
        }
        self.overlay = Some(Overlay { start, paths });
        Ok(())
    }

    /// The agent's tree on the task's base, without the overlay, and the files of the overlay that the agent changed.
    pub(super) async fn without_overlay(
        &self,
        tree: String,
    ) -> Result<(String, Vec<String>), WorkspaceError> {
        let Some(overlay) = &self.overlay else {
            return Ok((tree, Vec::new()));
        };
        let changed = self.changed_between(&overlay.start, &tree).await?;
        let is_own = |file: &ChangedFile| overlay.paths.contains(&file.path);
        let (own, work): (Vec<_>, Vec<_>) = changed.into_iter().partition(is_own);
        let entries = work.into_iter().map(|file| (file.name, file.work));
        let entries: Vec<_> = entries.collect();
        let judged = self.with_entries(&self.base_tree, &entries).await?;
        Ok((judged, own.into_iter().map(|file| file.path).collect()))
    }
}

impl Base {
    /// The regular files at a path of its commit: one file, or all files of a folder.
    pub async fn files_at(
        &self,
        path: &Utf8Path,
        host: &Host,
    ) -> Result<Vec<RevisionFile>, WorkspaceError> {
        let Some(packed) = &self.packed else {
            return Ok(Vec::new());
        };
        let git = Git::new(host, &packed.dir);
        let list = ["ls-tree", "-r", "-z", "--full-tree", &packed.tree, "--"];
        let listed = git.run(list.into_iter().chain([path.as_str()])).await?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut files = Vec::new();
        for entry in listed.split_terminator('\0') {
            let Some((about, name)) = entry.split_once('\t') else {
                continue;
            };
            if let [mode @ ("100644" | "100755"), "blob", blob] =
                about.split(' ').collect::<Vec<_>>()[..]
            {
                files.push(RevisionFile {
                    path: name.into(),
                    bytes: git.run(["cat-file", "blob", blob]).await?,
                    is_executable: mode == "100755",
                });
            }
        }
        Ok(files)
    }

    /// The tree of its commit; `None` for a folder.
    pub fn tree(&self) -> Option<&str> {
        self.packed.as_ref().map(|packed| packed.tree.as_str())
    }
}
