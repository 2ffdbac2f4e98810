//! What `report`, `compare` and `baseline` take.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};
use proctor_harness::{report::Rule, stats::Level};

/// `proctor report`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor report [OPTIONS] [RUN]...\n       proctor report [OPTIONS] --from <FILE>"
)]
pub struct ReportArgs {
    /// Runs: folders, or ids; the newest one when left out
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// The suite whose results are meant when no run is named
    #[arg(short, long, value_name = "FILE", conflicts_with = "from")]
    pub config: Option<Utf8PathBuf>,
    /// Report one results.json instead, as a table, Markdown (the default) or JSON
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub from: Option<Utf8PathBuf>,
    /// In which format; that of the output's name when left out, else a table
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub basis: BasisArgs,
}

/// What figures depend on besides the records.
#[derive(Debug, Parser)]
pub struct BasisArgs {
    /// How sure intervals are, and claims have to be
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = level)]
    pub level: Level,
    /// Where random draws start: the same seed gives the same report
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn level(text: &str) -> Result<Level, String> {
    let level = text.parse().ok().and_then(Level::new);
    level.ok_or_else(|| "a share between 0.5 and 1, such as 0.95".to_owned())
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal
    Table,
    /// For pull requests
    #[value(alias = "md")]
    Markdown,
    /// One page that needs nothing else
    Html,
    /// JUnit XML: an agent is a suite, a trial a test
    #[value(alias = "xml")]
    Junit,
    /// All figures
    Json,
    /// One line for each trial
    Csv,
}

/// `proctor compare`.
#[derive(Debug, Parser)]
#[command(
    after_help = "BASELINE and CANDIDATE are runs (folders or ids), saved baselines, RUN:AGENT, or with --run the names of two agents.\n\nExit codes: 0 no rule is broken · 1 a rule is broken · 2 usage · 3 nothing to compare, or with --fail-undecided too few trials to know"
)]
pub struct CompareArgs {
    /// What to compare with
    #[arg(value_name = "BASELINE")]
    pub baseline: String,
    /// What is compared
    #[arg(value_name = "CANDIDATE")]
    pub candidate: String,
    /// Compare two agents of this run, or baseline
    #[arg(long, value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Fail when this change is certain: 'score<-0.05', 'cost>+20%'; may be given more than once
    #[arg(long, value_name = "RULE")]
    pub fail_on: Vec<Rule>,
    /// End with 3 when there are too few trials to know whether a rule is broken
    #[arg(long, requires = "fail_on")]
    pub fail_undecided: bool,
    /// In which format
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub format: CompareFormat,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// The folder of saved baselines
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub baselines: Utf8PathBuf,
    #[command(flatten)]
    pub basis: BasisArgs,
}

/// The format of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For a terminal
    Table,
    /// For pull requests
    #[value(alias = "md")]
    Markdown,
    /// All figures
    Json,
}

/// `proctor baseline`.
#[derive(Debug, Parser)]
pub struct BaselineArgs {
    /// What to do with baselines.
    #[command(subcommand)]
    pub command: BaselineCommand,
    /// The folder of saved baselines
    #[arg(long, global = true, value_name = "DIR", default_value = "baselines")]
    pub baselines: Utf8PathBuf,
}

/// What to do with baselines.
#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Save the figures of a run under a name
    Save {
        /// The name
        name: String,
        /// Runs: folders, or ids; the newest one when left out
        #[arg(value_name = "RUN")]
        runs: Vec<Utf8PathBuf>,
        /// Replace a baseline of this name
        #[arg(long)]
        force: bool,
    },
    /// List the saved baselines
    List,
    /// Report what a baseline holds
    Show {
        /// The name
        name: String,
    },
}
