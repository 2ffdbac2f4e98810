//! The reference solution of a task.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8PathBuf;

/// The reference solution of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A branch or tag of the repo.
    Branch(String),
    /// A patch file.
    Patch(Utf8PathBuf),
    /// The text of a patch.
    PatchText(Arc<str>),
    /// A directory with all files of the solution.
    Folder(Utf8PathBuf),
    /// A script in its own directory.
    Script(Solution),
}

/// A solution script: `solve.sh` in a directory that only the oracle can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The folder.
    pub folder: Utf8PathBuf,
    /// The text of `solve.sh`, if the folder is not that of a solution.
    pub script: Option<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
}
