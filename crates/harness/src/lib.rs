//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

pub mod agent;
pub mod agents;
pub mod config;
pub mod log;
pub mod outcome;
pub mod session;
pub mod usage;
