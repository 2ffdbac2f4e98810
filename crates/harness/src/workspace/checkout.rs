//! The repository and revision that a workspace starts from.

use crate::config::{History, Repo};

/// The repository and revision to check out; HEAD if neither branch nor commit is given.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The repo.
    pub repo: Repo,
    /// The branch or tag, as written.
    pub branch: Option<String>,
    /// The commit, as written.
    pub commit: Option<String>,
    /// The commits before it that the agent can see.
    pub history: History,
}

impl Checkout {
    /// The revision for git.
    pub fn revision(&self) -> Option<&str> {
        self.commit.as_deref().or(self.branch.as_deref())
    }
}
