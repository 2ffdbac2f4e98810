//! Arguments for logs.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand};

/// `proctor log`.
#[derive(Debug, Parser)]
pub struct LogArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Convert an agent's raw output to youbencha-log.json on standard output
    Normalize(NormalizeArgs),
    /// Write a recorded trial in a format that other tools read
    Export(ExportArgs),
}

/// `proctor log normalize`.
#[derive(Debug, Parser)]
pub struct NormalizeArgs {
    /// Agent that wrote the output
    #[arg(long, default_value = "claude-code")]
    pub agent: String,
    /// Output file: stream-json, terminal capture, plain text or session file; `-` is standard
    /// input
    pub file: Utf8PathBuf,
    /// Exit code of the agent, if known
    #[arg(long, allow_negative_numbers = true)]
    pub exit_code: Option<i32>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: NormalizeFormat,
}

/// Output formats of `proctor log normalize`.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum NormalizeFormat {
    /// Proctor's log, as in `youbencha-log.json`
    #[default]
    Log,
    /// ATIF v1.8 trajectory
    Atif,
}

/// `proctor log export`.
#[derive(Debug, Parser)]
pub struct ExportArgs {
    /// Directory of a trial
    pub trial: Utf8PathBuf,
    /// Output format
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Output file [default: standard output]
    #[arg(short, long)]
    pub output: Option<Utf8PathBuf>,
}

/// Output formats of `proctor log export`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ExportFormat {
    /// ATIF v1.8 trajectory: the whole session, step by step
    Atif,
    /// OpenTelemetry spans of the agent, its tools and its model calls, as OTLP JSON
    OtlpJson,
}
