//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

pub mod agent;
pub mod agents;
mod area;
pub mod availability;
pub mod check;
pub mod clean;
pub mod config;
pub mod control;
mod drive;
pub mod evaluate;
pub mod event;
mod git;
mod glob;
pub mod host;
pub mod log;
pub mod models;
pub mod outcome;
pub mod plan;
pub mod providers;
pub mod runner;
pub mod runs;
pub mod sandbox;
pub mod session;
mod shuffle;
pub mod sidecar;
mod socket;
mod source;
pub mod stats;
pub mod store;
pub mod suite;
pub mod task;
mod tree;
pub mod trial;
pub mod usage;
pub mod watch;
mod workspace;
