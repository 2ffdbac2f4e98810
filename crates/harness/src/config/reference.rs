//! The reference solution of a task.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

/// The reference solution of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A branch or tag of the repo.
    Branch(String),
    /// A patch file.
    Patch(Utf8PathBuf),
    /// A folder that holds all files as they should be.
    Folder(Utf8PathBuf),
    /// A script in a folder of its own.
    Script(Solution),
}

/// A solution that is a script: `solve.sh` in a folder that the oracle alone gets to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The folder.
    pub folder: Utf8PathBuf,
    /// More environment.
    pub env: BTreeMap<String, String>,
}
