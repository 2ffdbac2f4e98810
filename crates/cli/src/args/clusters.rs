//! What the command line takes where it is about clusters.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};

/// `proctor trial`.
#[derive(Debug, Parser)]
#[command(
    after_help = "It may be started more than once and on several machines: one of them runs the trial. Exit codes: as for `proctor run`, and 4 when another process has the trial."
)]
pub struct TrialArgs {
    /// The trial's spec, as a run on a cluster writes it
    #[arg(long, value_name = "FILE")]
    pub spec: Utf8PathBuf,
    /// Where its record goes, instead of the folder that the spec names
    #[arg(long, value_name = "DIR")]
    pub out: Option<Utf8PathBuf>,
}

/// What becomes of a cluster's jobs when a run is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InterruptArg {
    /// They go on; `--resume` takes the run up again
    Detach,
    /// They are cancelled
    Cancel,
}
