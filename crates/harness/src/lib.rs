//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

pub mod agent;
pub mod agents;
mod area;
pub mod availability;
pub mod check;
pub mod config;
mod drive;
pub mod evaluate;
pub mod event;
mod git;
pub mod host;
pub mod log;
pub mod outcome;
pub mod plan;
pub mod runner;
pub mod session;
mod shuffle;
mod socket;
mod source;
pub mod stats;
pub mod store;
pub mod suite;
mod tree;
pub mod trial;
pub mod usage;
mod workspace;
