//! Proctor's harness: config, plan, agents, workspaces, evaluators, runner and record.
//! It never prints and never reads the environment; the cli crate does both.

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

pub use proctor_agents::{self as agents, agent};
use proctor_record::{error_chain, platform, shuffle};
pub use proctor_record::{fs, outcome, record, secrets, session, transcript, usage};
pub use proctor_report::{self as report, calibration, foreign, stats};
pub use proctor_sandbox::{self as sandbox, availability, host};
use proctor_sandbox::{area, git, packages};
