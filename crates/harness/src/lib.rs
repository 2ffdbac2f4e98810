//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

pub mod agent;
pub mod agents;
mod area;
pub mod availability;
pub mod calibration;
pub mod check;
pub mod clean;
pub mod cluster;
pub mod config;
pub mod control;
pub mod evaluate;
pub mod export;
pub mod foreign;
mod git;
mod helper;
pub mod hook;
pub mod host;
pub mod litellm;
pub mod model_access;
mod packages;
pub mod plan;
pub mod provider_limits;
pub mod report;
pub mod rescore;
pub mod run;
pub mod sandbox;
mod socket;
mod source;
pub mod spec;
pub mod stats;
pub mod task;
pub mod trial;
mod workspace;

use proctor_record::{error_chain, parallel_map, platform, shuffle};
pub use proctor_record::{fs, outcome, record, secrets, session, transcript, usage};
