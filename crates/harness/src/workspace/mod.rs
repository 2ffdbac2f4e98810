//! The agent's workspace: one commit of the repo without history or remotes, and the baseline that
//! its work is compared with. The baseline is a git directory of Proctor that the agent cannot
//! access, so the change is known regardless of changes to `.git`.

mod attributes;
mod base;
mod checkout;
mod commit;
mod commits;
pub(crate) mod compose;
mod dataset;
mod dockerfile;
mod environment;
mod head;
mod judged;
mod large;
mod litter;
mod nested;
mod numstat;
mod overlay;
mod pristine;
mod recipe;
mod reference;
pub(crate) mod source;
mod survey;
mod trees;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod workspace;

pub(crate) use self::recipe::NEEDS_DOCKER;
use self::workspace::{ALTERNATES, BRANCH, make_git_dir};
pub use self::workspace::{Change, FileChange, Origin, Workspace, WorkspaceError};
pub use self::{
    base::{Base, Bases},
    checkout::Checkout,
    dataset::GitDataset,
    environment::{Environment, Healthcheck, Image, Install},
    judged::{ChangedFile, TreeEntry},
    recipe::Recipe,
};
