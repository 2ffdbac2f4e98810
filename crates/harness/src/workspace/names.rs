//! The names of files in trees: which there are, and in which two trees differ.

use super::{Workspace, WorkspaceError};
use crate::{git::GitError, workspace::source::Source};

impl Workspace {
    /// The files of a tree.
    pub async fn names_in(&self, tree: &str) -> Result<Vec<String>, WorkspaceError> {
        let list = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", tree];
        Ok(names(&self.git.run(list).await?))
    }

    /// The files in which two trees differ; one that is only in the first is not among them.
    pub async fn names_changed(
        &self,
        one: &str,
        other: &str,
    ) -> Result<Vec<String>, WorkspaceError> {
        if one == other {
            return Ok(Vec::new());
        }
        let differing = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--diff-filter=d",
            "--name-only",
            one,
            other,
        ];
        Ok(names(&self.git.run(differing).await?))
    }

    /// The text files of a tree that hold a word.
    pub async fn names_with(&self, tree: &str, word: &str) -> Result<Vec<String>, WorkspaceError> {
        let grep = [
            "grep",
            "-l",
            "-z",
            "-I",
            "-F",
            "--full-name",
            "-e",
            word,
            tree,
        ];
        match self.git.run(grep).await {
            Ok(listed) => {
                let prefix = format!("{tree}:");
                let names = names(&listed);
                let inner = names.iter().filter_map(|name| name.strip_prefix(&prefix));
                Ok(inner.map(str::to_owned).collect())
            }
            // It exits with 1, silently, when there is none.
            Err(GitError::Failed { stderr, .. }) if stderr.is_empty() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// The files that `lay_over` lays over a copy.
    pub async fn names_laid_over(&self, revision: &str) -> Result<Vec<String>, WorkspaceError> {
        let tree = self.base.source.tree_of(revision).await?;
        let Source::Git {
            git: from,
            tree: source_tree,
            ..
        } = &self.base.source
        else {
            return Ok(Vec::new());
        };
        self.git.copy_tree_from(from, &tree).await?;
        self.git.copy_tree_from(from, source_tree).await?;
        self.names_changed(source_tree, &tree).await
    }
}

fn names(listed: &[u8]) -> Vec<String> {
    let listed = String::from_utf8_lossy(listed);
    listed.split_terminator('\0').map(str::to_owned).collect()
}
