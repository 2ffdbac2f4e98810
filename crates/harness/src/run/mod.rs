//! Runs a plan: any number of trials of test cases or of a suite, in parallel, each with one
//! record. An unfinished run can be resumed.
//!
//! [`Runner`] executes a plan. `resources` is the only module that opens the resources that trials
//! share: sandboxes, gateways, judges, caches and event logs. `job` takes one trial through its
//! attempts, and `attempt` holds the lease on it.

mod agenda;
pub mod attempt;
pub mod check;
pub mod clean;
pub mod control;
mod error;
pub mod experiment;
mod job;
mod jobs;
mod preflight;
mod resources;
mod runner;
mod stage;
mod status;
mod summary;

pub(crate) use self::{
    error::list_changes,
    resources::{Gateways, ResourceSpec, Resources, TrialScope, cache_of},
    runner::{plan_file, trial_key},
};
pub use self::{
    error::{RunError, SlurmError},
    jobs::{Gathered, Jobs, JobsFuture, OnEnd, RunJobs},
    preflight::Preflight,
    runner::{OnChange, RunListener, Runner, SNAPSHOT_FILE},
    status::{RunStatus, status},
    summary::{FailedStart, RunSummary},
};
