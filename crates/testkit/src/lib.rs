//! Test kit of Proctor: a fake agent that plays a script, helpers for the scripted model, and a
//! context in which end-to-end tests drive the `proctor` binary.
//!
//! Helpers panic with what they saw, as assertions do: a test has no use for their errors.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive binaries from outside and are configured by the environment"
)]

mod artifacts;
mod command;
mod context;
mod docker;
pub mod fake;
mod kills;
mod leftovers;
pub mod llm;
pub mod odd;
mod podman;
mod real_agent;
mod real_cli;
mod real_pip;
mod repo;
mod runners;
mod slurm;

pub use command::{Output, Program, Running};
pub use context::TestContext;
pub use docker::{BUSYBOX, DEBIAN, PrivateEngine, docker_host};
pub use kills::{Kills, Start};
pub use leftovers::{files_with, processes_with, wait_until};
pub use podman::Podman;
pub use real_cli::RealCli;
pub use real_pip::PipCli;
pub use repo::Repo;
pub use runners::{program, test_runner};
pub use slurm::Cluster;
