//! What the command line takes where it is about logs.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand};

/// `proctor log`.
#[derive(Debug, Parser)]
pub struct LogArgs {
    /// What to do with a log.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// What to do with a log.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Turn an agent's raw output into youbencha-log.json on standard output
    Normalize(NormalizeArgs),
    /// Write a recorded trial in a format that other tools read
    Export(ExportArgs),
}

/// `proctor log normalize`.
#[derive(Debug, Parser)]
pub struct NormalizeArgs {
    /// The agent whose output it is
    #[arg(long, default_value = "claude-code")]
    pub agent: String,
    /// The output: stream-json, a terminal capture, plain text or a session file; `-` is standard input
    pub file: Utf8PathBuf,
    /// The agent's exit code, if it is known
    #[arg(long, allow_negative_numbers = true)]
    pub exit_code: Option<i32>,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    pub format: NormalizeFormat,
}

/// What `proctor log normalize` writes.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum NormalizeFormat {
    /// Our log, as in `youbencha-log.json`
    #[default]
    Log,
    /// An ATIF v1.8 trajectory
    Atif,
}

/// `proctor log export`.
#[derive(Debug, Parser)]
pub struct ExportArgs {
    /// The trial's folder
    pub trial: Utf8PathBuf,
    /// The format
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// The file to write, instead of standard output
    #[arg(short, long)]
    pub output: Option<Utf8PathBuf>,
}

/// What `proctor log export` writes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ExportFormat {
    /// An ATIF v1.8 trajectory: the whole session, step by step
    Atif,
    /// OpenTelemetry spans of the agent, its tools and its model calls, as OTLP JSON
    OtlpJson,
}
