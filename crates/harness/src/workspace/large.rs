//! Files that are too large for a line-by-line comparison or a patch, such as a sparse file of
//! gigabytes. They are recorded as binary, with their size, and the base's version is judged.

use proctor_record::platform;
use proctor_sandbox::git::GitError;

use super::{FileChange, Workspace, WorkspaceError};

/// The maximum size of a file in the change.
const LARGEST: u64 = 100 << 20;

/// A file that is too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LargeFile {
    path: String,
    bytes: u64,
}

impl LargeFile {
    /// A regular file of this size, if it is too large.
    pub(super) fn new(path: &str, bytes: u64) -> Option<LargeFile> {
        (bytes > LARGEST).then(|| LargeFile {
            path: platform::slashed(path).into_owned(),
            bytes,
        })
    }

    pub(super) fn note(&self) -> String {
        let LargeFile { path, bytes } = self;
        format!(
            "{path} has {bytes} bytes, more than the limit of {LARGEST}: it is recorded as a binary file and judged as the base has it"
        )
    }

    pub(super) fn left_out(&self) -> String {
        format!("{} is too large for a diff", self.path)
    }

    pub(super) fn change(&self) -> FileChange {
        FileChange {
            path: self.path.clone(),
            added: None,
            removed: None,
        }
    }
}

impl Workspace {
    /// The large files that the agent created or changed, without ignored ones.
    pub(super) async fn large_files(
        &self,
        mut found: Vec<LargeFile>,
    ) -> Result<Vec<LargeFile>, WorkspaceError> {
        if found.is_empty() {
            return Ok(found);
        }
        let ignored = self.ignored(&found).await?;
        found.retain(|file| !ignored.contains(&file.path));
        let mut large = Vec::new();
        for file in found {
            let object = format!("{}:{}", self.base_commit, file.path);
            let size = self.git.line(["cat-file", "-s", &object]).await;
            // A large file of the base is compared like any other.
            if size.is_ok_and(|size| size == file.bytes.to_string()) {
                continue;
            }
            large.push(file);
        }
        Ok(large)
    }

    async fn ignored(&self, files: &[LargeFile]) -> Result<Vec<String>, WorkspaceError> {
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let names = names.join("\0");
        let check = ["check-ignore", "-z", "--stdin"];
        match self.git.run_with_input(check, names.into_bytes()).await {
            Ok(names) => {
                let names = String::from_utf8_lossy(&names).into_owned();
                Ok(names.split_terminator('\0').map(str::to_owned).collect())
            }
            // Git exits with 1 and no output if none is ignored.
            Err(GitError::Failed { stderr, .. }) if stderr.is_empty() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds all files except these to our own index.
    pub(super) async fn add_all(&self, large: &[LargeFile]) -> Result<Vec<u8>, GitError> {
        let add = ["add", "--all", "--ignore-errors"];
        if large.is_empty() {
            return self.git.run(add).await;
        }
        let mut paths = ".\0".to_owned();
        for file in large {
            paths.push_str(":(exclude,literal)");
            paths.push_str(&file.path);
            paths.push('\0');
        }
        let from_input = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        let args = add.into_iter().chain(from_input);
        self.git.run_with_input(args, paths.into_bytes()).await
    }
}
