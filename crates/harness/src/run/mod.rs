//! Runs a plan: any number of trials of test cases or of a suite, in parallel, each with one record. A run that
//! was ended can be resumed.
//!
//! [`Runner`] executes a plan. `resources` is the only place that opens what trials share: sandboxes, gateways,
//! judges, caches and event logs. `job` takes one trial through its attempts, and `attempt` holds the lease on it.

pub mod attempt;
pub mod check;
pub mod clean;
pub mod control;
mod error;
mod job;
mod jobs;
mod resources;
mod runner;
mod status;
mod summary;

pub use self::{
    error::{RunError, SlurmError},
    jobs::{Gathered, Jobs, JobsFuture, OnEnd, RunJobs},
    runner::{RunListener, Runner},
    status::{RunStatus, status},
    summary::{FailedStart, RunSummary},
};
pub(crate) use self::{
    resources::{Gateways, ResourceSpec, Resources, TrialScope, cache_of},
    runner::{SNAPSHOT_FILE, trial_key},
};
