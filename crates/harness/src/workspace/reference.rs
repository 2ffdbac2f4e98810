//! The reference solution of a task, as a tree and as a patch.

use camino::Utf8Path;
use fs_err as fs;

use super::{Workspace, WorkspaceError};
use crate::{config::Reference, workspace::source::Source};

impl Workspace {
    /// The tree with the reference solution applied to the base.
    pub async fn reference_tree(&self, reference: &Reference) -> Result<String, WorkspaceError> {
        let git = &self.git;
        match reference {
            Reference::Branch(branch) => {
                let tree = self.base.tree_of(branch).await?;
                if let Source::Git { git: from, .. } = &self.base.source {
                    git.copy_tree_from(from, &tree).await?;
                }
                Ok(tree)
            }
            Reference::Patch(patch) => self.patched(&self.base_tree, patch).await,
            Reference::PatchText(text) => self.patched_by(&self.base_tree, text).await,
            Reference::Folder(folder) => {
                let index = git.dir().join(format!("index-{}", uuid::Uuid::now_v7()));
                let git = git
                    .with_files(folder)
                    .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
                git.run(["add", "--all"]).await?;
                let tree = git.line(["write-tree"]).await?;
                fs::remove_file(&index)?;
                Ok(tree)
            }
            Reference::Script(_) => Err(WorkspaceError::NoTree),
        }
    }

    /// Writes the difference between the base and `reference` (a branch, tag or commit of the
    /// source) to `patch`.
    pub async fn reference_patch(
        &self,
        reference: &str,
        patch: &Utf8Path,
    ) -> Result<(), WorkspaceError> {
        let reference = Reference::Branch(reference.to_owned());
        let tree = self.reference_tree(&reference).await?;
        self.write_patch(&self.base_tree, &tree, patch).await
    }
}
