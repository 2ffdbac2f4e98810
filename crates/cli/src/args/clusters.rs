//! Arguments for clusters.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};

/// `proctor trial`.
#[derive(Debug, Parser)]
#[command(
    after_help = "The command can be started more than once, on several machines: exactly one process runs the trial. Exit codes: as for `proctor run`, and 4 if another process holds the trial's lease."
)]
pub struct TrialArgs {
    /// Trial spec, written by a run on a cluster
    #[arg(long, value_name = "FILE")]
    pub spec: Utf8PathBuf,
    /// Directory for the record; overrides the spec
    #[arg(long, value_name = "DIR")]
    pub out: Option<Utf8PathBuf>,
}

/// How an interrupt affects the jobs on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InterruptArg {
    /// Keep jobs running; `--resume` continues the run
    Detach,
    /// Cancel jobs
    Cancel,
}
