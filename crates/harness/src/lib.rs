//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

pub mod check;
pub mod clean;
pub mod cluster;
pub mod config;
pub mod control;
pub mod evaluate;
pub mod export;
pub mod hook;
pub mod litellm;
pub mod model_access;
pub mod plan;
pub mod provider_limits;
pub mod rescore;
pub mod run;
mod source;
pub mod spec;
pub mod task;
pub mod trial;
mod workspace;

pub use proctor_agents::{self as agents, agent};
use proctor_record::{error_chain, platform, shuffle};
pub use proctor_record::{fs, outcome, record, secrets, session, transcript, usage};
pub use proctor_report::{self as report, calibration, foreign, stats};
pub use proctor_sandbox::{self as sandbox, availability, host};
use proctor_sandbox::{area, git, packages};
