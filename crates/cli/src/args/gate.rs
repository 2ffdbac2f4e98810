//! Arguments of `gate` and of `run --gate`.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};
use proctor_report::Rule;

use super::{BasisArgs, RunArgs};

/// `proctor run`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor run [OPTIONS] <PATH>...\n       proctor run [OPTIONS] -c <FILE>\n       proctor run [OPTIONS] [SUITE]"
)]
pub struct GatedRunArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Apply the rules of the suite to the run; they decide the exit code
    #[arg(long, help_heading = "Gate and reports")]
    pub gate: bool,
    /// Write a report in the format of the extension: .xml (JUnit), .md, .html, .json, .csv or
    /// .txt; repeatable
    #[arg(long, value_name = "FILE", help_heading = "Gate and reports")]
    pub report: Vec<Utf8PathBuf>,
    #[command(flatten)]
    pub options: GateOptions,
}

/// Rules and what they are compared with.
#[derive(Debug, Parser)]
#[command(next_help_heading = "Gate and reports")]
pub struct GateOptions {
    /// Rule instead of those of the suite: 'passed >= 80%', 'every task: pass^3'; repeatable
    #[arg(long, value_name = "RULE")]
    pub rule: Vec<Rule>,
    /// Saved baseline or run to compare with [default: the suite's]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Count undecided rules as passed or failed [default: exit with 4]
    #[arg(long, value_enum, value_name = "HOW")]
    pub undecided: Option<UndecidedArg>,
    /// Directory of saved baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub baselines: Utf8PathBuf,
}

impl GateOptions {
    /// An option that is given, for commands where it has no effect.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--rule", !self.rule.is_empty()),
            ("--baseline", self.baseline.is_some()),
            ("--undecided", self.undecided.is_some()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(name, _)| name)
    }
}

/// How undecided rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndecidedArg {
    /// As if they held
    Pass,
    /// As if they were broken
    Fail,
}

/// `proctor gate`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 pass · 1 fail · 2 usage error · 3 nothing to decide about · 4 undecided"
)]
pub struct GateArgs {
    /// Directory or id of a run [default: the latest run]
    #[arg(value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Suite with the rules [default: as the run started]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub options: GateOptions,
    /// Output format [default: from the extension of the output file, else table]
    #[arg(long, value_enum)]
    pub format: Option<GateFormat>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub basis: BasisArgs,
}

/// The format of a gate's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    /// For a terminal
    Table,
    /// For pull requests
    #[value(alias = "md")]
    Markdown,
    /// All results
    Json,
}
