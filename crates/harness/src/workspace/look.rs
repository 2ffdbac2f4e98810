//! Looking at trees of a workspace, and taking over work that was done elsewhere.

use camino::Utf8Path;
use fs_err as fs;

use super::{Workspace, WorkspaceError};
use crate::tree;

impl Workspace {
    /// The difference between two trees as text, for eyes: what is binary is only named.
    pub async fn text_between(&self, one: &str, other: &str) -> Result<Vec<u8>, WorkspaceError> {
        let diff = [
            "diff",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            one,
            other,
        ];
        Ok(self.git.run(diff).await?)
    }

    /// A file of a tree; `None` when there is none of this name.
    pub async fn file_at(&self, tree: &str, path: &str) -> Option<Vec<u8>> {
        let path = path.trim_start_matches("./");
        let object = format!("{tree}:{path}");
        let is_file = self.git.line(["cat-file", "-t", &object]).await;
        if is_file.ok()? != "blob" {
            return None;
        }
        self.git.run(["cat-file", "blob", &object]).await.ok()
    }

    /// Put the files of `folder` in the place of those of the base: what is judged is there already.
    pub fn take_over(&self, folder: &Utf8Path) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if path.symlink_metadata()?.is_dir() {
                tree::remove(&path)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
        let own = folder.join(".git");
        let keep = |path: &std::path::Path| path != own.as_std_path();
        tree::copy_where(folder.as_std_path(), self.path.as_std_path(), &keep)
    }
}
