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
pub mod fake;
pub mod layers;
mod leftovers;
pub mod llm;
mod platform;
mod repo;
#[cfg(windows)]
mod shim;
pub mod youbencha;

// Engines, clusters, real CLIs and odd files are driven by shell scripts, modes and signals.
#[cfg(unix)]
mod docker;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
pub mod odd;
#[cfg(unix)]
mod podman;
#[cfg(unix)]
mod real_agent;
#[cfg(unix)]
mod real_cli;
#[cfg(unix)]
mod real_pip;
#[cfg(unix)]
mod runners;
#[cfg(unix)]
mod slurm;
#[cfg(unix)]
mod terminal;

pub use command::{Output, Program, Running};
pub use context::TestContext;
pub use leftovers::{files_with, processes_with, wait_until};
pub use repo::Repo;

#[cfg(unix)]
pub use docker::{BUSYBOX, DEBIAN, PrivateEngine, docker_host};
#[cfg(unix)]
pub use kills::{Kills, Start};
#[cfg(unix)]
pub use podman::Podman;
#[cfg(unix)]
pub use real_cli::RealCli;
#[cfg(unix)]
pub use real_pip::PipCli;
#[cfg(unix)]
pub use runners::{program, test_runner};
#[cfg(unix)]
pub use slurm::Cluster;
#[cfg(unix)]
pub use terminal::Terminal;
