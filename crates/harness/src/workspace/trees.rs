//! Reads trees of a workspace, and takes over existing work.

use std::collections::BTreeSet;

use camino::Utf8Path;
use proctor_record::{fs::dir, record};
use proctor_sandbox::git::GitError;

use super::{FileChange, Workspace, WorkspaceError};

/// The maximum size of binary files whose lines are counted.
const MAX_COUNTED: u64 = 16 << 20;

/// Names of files that may have settings of runners or linters, as patterns for git.
const SETTINGS: &[&str] = &[
    "*package.json",
    "*conf*",
    "*jest*",
    "*vite*",
    "*rc",
    "*rc.*",
    "*.ini",
    "*.cfg",
    "*.toml",
];

impl Workspace {
    /// The difference between two trees as readable text: binary files are only named.
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

    /// A change with the lines of binary files, counted as text: a single zero byte makes a file
    /// binary and would hide all of its lines. The lines of very large files stay unknown.
    pub async fn with_binary_lines(
        &self,
        one: &str,
        other: &str,
        files: &[FileChange],
    ) -> Result<Vec<FileChange>, WorkspaceError> {
        let mut counted = files.to_vec();
        let is_binary = |file: &&mut FileChange| file.added.is_none();
        for file in counted.iter_mut().filter(is_binary) {
            let sizes = [
                self.size_of(one, &file.path).await,
                self.size_of(other, &file.path).await,
            ];
            if sizes.iter().any(|size| *size > MAX_COUNTED) {
                continue;
            }
            let path = format!(":(literal){}", file.path);
            let diff = [
                "diff",
                "--text",
                "--unified=0",
                "--no-renames",
                "--no-color",
            ];
            let plain = ["--no-ext-diff", "--no-textconv", one, other, "--", &path];
            let text = self.git.run(diff.into_iter().chain(plain)).await?;
            let (added, removed) = lines_of(&text);
            (file.added, file.removed) = (Some(added), Some(removed));
        }
        Ok(counted)
    }

    /// The size of a file of a tree; 0 if it does not exist.
    async fn size_of(&self, tree: &str, path: &str) -> u64 {
        let object = format!("{tree}:{path}");
        let size = self.git.line(["cat-file", "-s", &object]).await;
        size.ok().and_then(|size| size.parse().ok()).unwrap_or(0)
    }

    /// The files of a tree.
    pub async fn names_in(&self, tree: &str) -> Result<Vec<String>, WorkspaceError> {
        let list = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", tree];
        Ok(names(&self.git.run(list).await?))
    }

    /// The text files of a tree that contain a word.
    pub async fn names_with(&self, tree: &str, word: &str) -> Result<Vec<String>, WorkspaceError> {
        self.search(tree, word, &[]).await
    }

    /// The files of a tree that contain one of these words and have names like those of settings.
    pub async fn settings_with(
        &self,
        tree: &str,
        words: &BTreeSet<&str>,
    ) -> Result<Vec<String>, WorkspaceError> {
        let usable = words
            .iter()
            .filter(|it| !it.is_empty() && !it.contains('\n'));
        let lines: Vec<&str> = usable.copied().collect();
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        self.search(tree, &lines.join("\n"), SETTINGS).await
    }

    /// The text files of a tree at these paths that contain one of the words, which are lines.
    async fn search(
        &self,
        tree: &str,
        words: &str,
        paths: &[&str],
    ) -> Result<Vec<String>, WorkspaceError> {
        let mut grep = vec![
            "grep",
            "-l",
            "-z",
            "-I",
            "-F",
            "--full-name",
            "-f",
            "-",
            tree,
            "--",
        ];
        grep.extend(paths);
        match self.git.run_with_input(grep, words.into()).await {
            Ok(listed) => {
                let prefix = format!("{tree}:");
                let names = names(&listed);
                let inner = names.iter().filter_map(|name| name.strip_prefix(&prefix));
                Ok(inner.map(str::to_owned).collect())
            }
            // Git exits with 1 and no output if there is none.
            Err(GitError::Failed { stderr, .. }) if stderr.is_empty() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// A file of a tree; `None` if it does not exist.
    pub async fn file_at(&self, tree: &str, path: &str) -> Option<Vec<u8>> {
        let path = path.trim_start_matches("./");
        let object = format!("{tree}:{path}");
        let is_file = self.git.line(["cat-file", "-t", &object]).await;
        if is_file.ok()? != "blob" {
            return None;
        }
        self.git.run(["cat-file", "blob", &object]).await.ok()
    }

    /// Replaces the files of the base by those of `folder`, the existing work without runs.
    pub fn take_over(&self, folder: &Utf8Path) -> std::io::Result<()> {
        for name in self.files.names("")? {
            if name != ".git" {
                self.files.remove(name)?;
            }
        }
        let left_out = [".git"].into_iter().chain(record::RUN_DIRS);
        let left_out: Vec<_> = left_out.map(|name| folder.join(name)).collect();
        let keep = |path: &std::path::Path| !left_out.iter().any(|left_out| path == left_out);
        dir::copy_where(folder.as_std_path(), self.path().as_std_path(), &keep)
    }
}

/// The names in git's NUL-separated output.
pub(super) fn names(listed: &[u8]) -> Vec<String> {
    let listed = String::from_utf8_lossy(listed);
    listed.split_terminator('\0').map(str::to_owned).collect()
}

/// The numbers of lines that a diff without context adds and removes, from its hunks: `@@ -1,2 +3
/// @@`.
fn lines_of(diff: &[u8]) -> (u64, u64) {
    let headers = diff.split(|byte| *byte == b'\n');
    let headers = headers.filter_map(|line| line.strip_prefix(b"@@ "));
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().unwrap_or(0),
        None => 1,
    };
    let mut total = (0, 0);
    for header in headers {
        let header = String::from_utf8_lossy(header);
        let mut ranges = header.split(' ');
        total.1 += ranges.next().map_or(0, count);
        total.0 += ranges.next().map_or(0, count);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_the_hunks() {
        assert_eq!(lines_of(b""), (0, 0));
        let diff = b"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\0\n-b\n+@@ -9,9 +9,9 @@\n@@ -5,0 +5,3 @@\n+1\n+2\n+3\n";
        assert_eq!(lines_of(diff), (4, 2));
    }
}
