//! One trial, from its plan to its record.
//!
//! [`run`] goes through the phases: a `Prepared` trial can start its agent, the agent of an
//! `AgentRun` has ended, a `Judged` trial has its verdicts, and the [`Record`](proctor_record::record::Record) is the result of a
//! finished trial. `evidence` decides the outcome.

mod agent_run;
mod container;
mod contestant;
mod context;
mod drive;
mod equip;
mod error;
mod evidence;
pub mod export;
mod first_record;
mod hooks;
mod iterate;
mod judge;
mod judge_trial;
mod keep;
mod launch;
mod metrics_file;
mod phases;
mod prepare;
pub mod provider_limits;
mod script;
pub mod sdk_server;
mod services;
mod socket;
mod steps;
mod stuck;
mod task_tools;
mod tools;
mod treatment;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod trial;
mod workspace;

use proctor_record::error_chain::chain;

use self::{
    contestant::{AgentTools, Contestant, ContestantPlan},
    phases::{
        AgentEnd, AgentRun, AgentStart, AgentWork, Agents, Judged, Prepared, SessionLog, Site,
        Stage,
    },
    trial::{Trial, logs_folder, millis, settled},
};
pub use self::{
    context::{Cause, Context},
    error::TrialError,
    trial::run,
};
pub(crate) use self::{
    first_record::first_record, judge::status, judge_trial::run_judge, trial::PRIVATE,
};
