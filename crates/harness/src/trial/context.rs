//! The context of a trial: what its run provides, and why it may be cancelled.

use std::sync::OnceLock;

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use super::evidence::Cancelled;
use crate::{
    config::KeepWorkspace,
    host::Host,
    model_access::Models,
    outcome::Outcome,
    record::{
        lease::{Lease, Standing},
        run_event::Listener,
    },
    sandbox::Sandbox,
    workspace::Bases,
};

/// The run's data for a trial.
pub struct Context<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Where it executes.
    pub sandbox: &'a Sandbox,
    /// How agents reach models; `None` when they do so by themselves.
    pub models: Option<&'a Models>,
    /// Variables that the agent gets as they are.
    pub pass_through: &'a [String],
    /// Whether its workspace is kept.
    pub keep_workspace: KeepWorkspace,
    /// The gateway that judges ask models through; `None` when none does.
    pub judges: Option<&'a Models>,
    /// Where answers of judges are kept from run to run.
    pub cache: &'a Utf8Path,
    /// The source of workspaces.
    pub bases: &'a Bases,
    /// The id of the run.
    pub run_id: &'a str,
    /// The trial's own folder in the run's.
    pub folder: &'a Utf8Path,
    /// The event callback.
    pub listener: &'a Listener<'a>,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
    /// Why it is cancelled, when that is not somebody's wish.
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

/// Why a trial is cancelled, when it is not by the user's wish.
#[derive(Debug, Default)]
pub struct Cause<'a> {
    outcome: OnceLock<Outcome>,
    lease: Option<&'a Lease>,
}

impl<'a> Cause<'a> {
    /// The cause of a trial that another process may take over.
    pub fn of(lease: &'a Lease) -> Cause<'a> {
        Cause {
            outcome: OnceLock::new(),
            lease: Some(lease),
        }
    }

    /// Set the outcome of the interrupted trial, before cancelling it.
    pub fn set(&self, outcome: Outcome) {
        // The first cause counts.
        let _ = self.outcome.set(outcome);
    }

    /// Whether another process has the trial: its folder is at our path and is not ours any more.
    pub(super) fn is_lost(&self) -> bool {
        let standing = self.lease.map(Lease::standing);
        matches!(standing, Some(Ok(Standing::Lost)))
    }

    /// Whether the trial is cancelled for good, and not run again.
    pub(super) fn is_final(&self) -> bool {
        self.outcome.get().is_some()
    }
}
