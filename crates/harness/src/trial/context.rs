//! The context of a trial: the resources of its run, and the cause of a cancellation.

use std::sync::OnceLock;

use camino::Utf8Path;
use proctor_record::{
    outcome::Outcome,
    record::{
        Listener,
        lease::{Lease, Ownership},
    },
};
use proctor_sandbox::{Sandbox, host::Host};
use tokio_util::sync::CancellationToken;

use super::evidence::Cancelled;
use crate::{config::KeepWorkspace, model_access::Models, workspace::Bases};

/// The run's data for a trial.
pub struct Context<'a> {
    /// The host.
    pub host: &'a Host,
    /// The sandbox.
    pub sandbox: &'a Sandbox,
    /// How agents access models; `None` if they connect to providers directly.
    pub models: Option<&'a Models>,
    /// Variables that the agent gets unchanged.
    pub pass_through: &'a [String],
    /// Whether the workspace is kept.
    pub keep_workspace: KeepWorkspace,
    /// The gateway for models as judges, if any.
    pub judges: Option<&'a Models>,
    /// The directory of the judges' answer cache, which all runs share.
    pub cache: &'a Utf8Path,
    /// The source of workspaces.
    pub bases: &'a Bases,
    /// The id of the run.
    pub run_id: &'a str,
    /// The trial's directory in the run's directory.
    pub folder: &'a Utf8Path,
    /// The event callback.
    pub listener: &'a Listener<'a>,
    /// The cancellation token of the run.
    pub cancel: &'a CancellationToken,
    /// The cause of a cancellation other than by the user.
    pub cause: &'a Cause<'a>,
}

impl Context<'_> {
    /// Whether the trial is cancelled, and why.
    pub(super) fn cancelled(&self) -> Cancelled {
        match self.cause.outcome.get() {
            Some(outcome) => Cancelled::Because(*outcome),
            None if self.cancel.is_cancelled() => Cancelled::Interrupted,
            None => Cancelled::No,
        }
    }
}

/// The cause of a cancellation other than by the user.
#[derive(Debug, Default)]
pub struct Cause<'a> {
    outcome: OnceLock<Outcome>,
    lease: Option<&'a Lease>,
}

impl<'a> Cause<'a> {
    /// The cause for a trial that another process can take over.
    pub fn of(lease: &'a Lease) -> Cause<'a> {
        Cause {
            outcome: OnceLock::new(),
            lease: Some(lease),
        }
    }

    /// Sets the outcome of the interrupted trial, before cancelling it.
    pub fn set(&self, outcome: Outcome) {
        // Only the first cause is kept.
        let _ = self.outcome.set(outcome);
    }

    /// Whether another process has the trial: the directory at this path is no longer ours.
    pub(super) fn is_lost(&self) -> bool {
        let ownership = self.lease.map(Lease::ownership);
        matches!(ownership, Some(Ok(Ownership::Lost)))
    }

    /// Whether the trial is cancelled permanently and not run again.
    pub(super) fn is_final(&self) -> bool {
        self.outcome.get().is_some()
    }
}
