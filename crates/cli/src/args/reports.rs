//! Arguments of `report`, `compare` and `baseline`.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};
use proctor_report::{ChangeRule, stats::Level};

/// `proctor report`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor report [OPTIONS] [RUN]...\n       proctor report [OPTIONS] --from <FILE>"
)]
pub struct ReportArgs {
    /// Directories or ids of runs [default: the latest run]
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Suite whose latest run is reported
    #[arg(short, long, value_name = "FILE", conflicts_with = "from")]
    pub config: Option<Utf8PathBuf>,
    /// Report one results.json as a table, Markdown (default) or JSON
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub from: Option<Utf8PathBuf>,
    /// Output format [default: from the extension of the output file, else table]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// Size of the sessions in an HTML page; those of failed trials are first
    #[arg(long, value_name = "MB", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_size: u16,
    #[command(flatten)]
    pub basis: BasisArgs,
}

/// Statistical settings.
#[derive(Debug, Parser)]
pub struct BasisArgs {
    /// Confidence level of intervals and significance tests
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = level)]
    pub level: Level,
    /// Seed for resampling; the same seed produces the same report
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::whole_number)]
    pub seed: u64,
}

fn level(text: &str) -> Result<Level, String> {
    let level = text.parse().ok().and_then(Level::new);
    level.ok_or_else(|| "expected a number between 0.5 and 1, such as 0.95".to_owned())
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal
    Table,
    /// For pull requests
    #[value(alias = "md")]
    Markdown,
    /// Self-contained HTML page
    Html,
    /// JUnit XML: one test suite per agent, one test per trial
    #[value(alias = "xml")]
    Junit,
    /// All results
    Json,
    /// One row per trial
    Csv,
}

/// `proctor compare`.
#[derive(Debug, Parser)]
#[command(
    after_help = "BASELINE and CANDIDATE are runs (directories or ids), saved baselines, RUN:AGENT or, with --run, the names of two agents.\n\nExit codes: 0 no rule violated · 1 a rule is violated · 2 usage error · 3 nothing to compare · 4 too few trials to decide, with --fail-undecided"
)]
pub struct CompareArgs {
    /// Reference of the comparison
    #[arg(value_name = "BASELINE")]
    pub baseline: String,
    /// Results to compare with the reference
    #[arg(value_name = "CANDIDATE")]
    pub candidate: String,
    /// Compare two agents of this run or baseline
    #[arg(long, value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Fail if this change is significant: 'score<-0.05', 'cost>+20%'; repeatable
    #[arg(long, value_name = "RULE")]
    pub fail_on: Vec<ChangeRule>,
    /// Exit with 4 if there are too few trials to decide a rule
    #[arg(long, requires = "fail_on")]
    pub fail_undecided: bool,
    /// Output format [default: from the extension of the output file, else table]
    #[arg(long, value_enum)]
    pub format: Option<CompareFormat>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// Directory of saved baselines
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
    /// All results
    Json,
    /// Self-contained HTML page
    Html,
}

/// `proctor baseline`.
#[derive(Debug, Parser)]
pub struct BaselineArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: BaselineCommand,
    /// Directory of saved baselines
    #[arg(long, global = true, value_name = "DIR", default_value = "baselines")]
    pub baselines: Utf8PathBuf,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Save the results of a run under a name
    Save {
        /// Name of the baseline
        name: String,
        /// Directories or ids of runs [default: the latest run]
        #[arg(value_name = "RUN")]
        runs: Vec<Utf8PathBuf>,
        /// Replace an existing baseline
        #[arg(long)]
        force: bool,
    },
    /// List the saved baselines
    List,
    /// Report the results in a baseline
    Show {
        /// Name of the baseline
        name: String,
    },
}
