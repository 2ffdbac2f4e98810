//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record. Only the cli
//! crate prints and reads the environment.

pub mod cluster;
pub mod config;
pub mod evaluate;
pub mod hook;
pub mod model_access;
pub mod plan;
pub mod rescore;
pub mod run;
pub mod task;
pub mod trial;
mod workspace;
