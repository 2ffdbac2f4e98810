//! The runner's interface to trials that run as jobs of a cluster; `cluster` implements it.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
};

use proctor_record::record::{RunDir, TrialSummary};
use proctor_sandbox::LostEngine;
use tokio_util::sync::CancellationToken;

use super::{FailedStart, RunError, RunListener, Runner};
use crate::config::SlurmSettings;

/// Runs the trials of a run as jobs.
pub type RunJobs = for<'a> fn(Jobs<'a>) -> JobsFuture<'a>;

/// The results of the trials that ran as jobs.
pub type JobsFuture<'a> = Pin<Box<dyn Future<Output = Result<Gathered, RunError>> + 'a>>;

/// A run whose trials are jobs.
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    /// The run.
    pub runner: &'a Runner<'a>,
    /// Its folder.
    pub run_dir: &'a RunDir,
    /// The jobs' resources.
    pub settings: &'a SlurmSettings,
    /// Called once when jobs can be submitted.
    pub on_start: &'a dyn Fn(),
    /// Event callback.
    pub listener: &'a RunListener<'a>,
    /// The cancellation token of the run.
    pub cancel: &'a CancellationToken,
}

/// The results of the trials of a run.
#[derive(Debug, Default)]
pub struct Gathered {
    pub(crate) done: Vec<TrialSummary>,
    pub(crate) failed_starts: Vec<FailedStart>,
    pub(crate) lost_engines: Vec<LostEngine>,
    /// Whether jobs continue without this process.
    pub(crate) is_detached: bool,
    /// Whether jobs were cancelled from outside.
    pub(crate) was_cancelled: bool,
    /// Why no further trial was started, if a limit of the run was reached.
    pub(crate) stopped: Option<String>,
}

/// Whether jobs are cancelled when their run ends early.
#[derive(Debug, Default)]
pub struct OnEnd {
    cancels: AtomicBool,
}

impl OnEnd {
    /// Cancels the jobs when the run ends. Otherwise they continue without it.
    pub fn cancel_jobs(&self) {
        self.cancels.store(true, Ordering::Relaxed);
    }

    pub(crate) fn cancels(&self) -> bool {
        self.cancels.load(Ordering::Relaxed)
    }
}
