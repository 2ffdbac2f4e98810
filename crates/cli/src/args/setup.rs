//! Arguments of `proctor init`, `proctor doctor` and `proctor self`.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand};

/// `proctor init`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Without PATH, two files are written: proctor.yaml, a suite, and testcase.yaml, its task. On a terminal, agent, test command and workflow are asked for; the detected values are the defaults."
)]
pub struct InitArgs {
    /// Write only a test case, to this file; with --mine, the suite
    pub path: Option<Utf8PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Type of agent [default: the first one that is installed]
    #[arg(long, value_name = "TYPE", conflicts_with = "mine")]
    pub agent: Option<String>,
    /// Test command that must pass after the agent's work [default: detected from the repository]
    #[arg(long, value_name = "CMD", conflicts_with = "mine")]
    pub test_cmd: Option<String>,
    /// Make this many tasks from the history of this repository, and a suite that runs them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub mine: Option<u32>,
    /// Also write a workflow for GitHub Actions
    #[arg(long)]
    pub ci: bool,
    /// Ask nothing, and take the detected values
    #[arg(short, long)]
    pub yes: bool,
}

/// `proctor doctor`.
#[derive(Debug, Parser)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// First remove the leftovers of killed runs; nothing is installed
    #[arg(long)]
    pub fix: bool,
}

/// `proctor self`.
#[derive(Debug, Parser)]
pub struct SelfArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: SelfCommand,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum SelfCommand {
    /// Check that this installation works: run a trial with a scripted model, offline
    Check(SelfCheckArgs),
}

/// `proctor self check`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 everything that trials on this machine need works · 3 something does not work. Containers are optional."
)]
pub struct SelfCheckArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
