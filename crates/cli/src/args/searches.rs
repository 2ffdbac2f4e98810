//! Arguments of `ablate`, `bisect` and `trend`.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};

use super::{RunArgs, experiments::margin, label};

/// `proctor ablate`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor ablate [OPTIONS] <FILE> <PATH>...",
    after_help = "Exit codes: 0 every part helps or has no measurable effect · 1 a part hurts · 2 usage or configuration error · 3 infrastructure failure · 4 a part is undecided · 130 interrupted"
)]
pub struct AblateArgs {
    /// File of the agent, such as CLAUDE.md; a directory of files or skills; or a JSON file with
    /// `mcpServers`
    #[arg(value_name = "FILE")]
    pub file: Utf8PathBuf,
    /// Parts of the file [default: section; for directories: file]
    #[arg(long, value_enum, value_name = "PART")]
    pub by: Option<PartArg>,
    /// Path of the file in the workspace [default: FILE]
    #[arg(long = "as", value_name = "PATH")]
    pub place: Option<String>,
    /// An effect smaller than this is not measurable, such as 0.05 for 5 points
    #[arg(long, value_name = "MARGIN", default_value = "0.05", value_parser = margin)]
    pub equivalent: f64,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Sections of a Markdown file, with their subsections
    Section,
    /// List items of a Markdown file
    Item,
    /// Whole files, skills or servers
    File,
}

/// `proctor bisect`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor bisect [OPTIONS] --agent <NAME> --good <VERSION> --bad <VERSION> <PATH>...\n       proctor bisect [OPTIONS] --refs --good <REF> --bad <REF> [--file <FILE>] <PATH>...\n       proctor bisect [OPTIONS] --file <FILE> <PATH>...",
    after_help = "Exit codes: 0 no change · 1 a version is worse · 2 usage or configuration error · 3 infrastructure failure · 4 undecided · 130 interrupted"
)]
pub struct BisectArgs {
    /// Version or revision that is known to be good [default with --versions: the first one]
    #[arg(long, value_name = "VERSION")]
    pub good: Option<String>,
    /// Later version or revision that is known to be bad [default with --versions: the last one]
    #[arg(long, value_name = "VERSION")]
    pub bad: Option<String>,
    /// File with the versions of the agent, one per line, oldest first [default: the versions in the
    /// agent's registry]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["refs", "file"])]
    pub versions: Option<Utf8PathBuf>,
    /// Search the commits of this repository from --good to --bad, as the agent's starting point
    #[arg(long, requires_all = ["good", "bad"])]
    pub refs: bool,
    /// Search the lines of this file of the agent; with --refs, the commits that changed the file
    #[arg(long, value_name = "FILE")]
    pub file: Option<Utf8PathBuf>,
    /// Path of the file in the workspace [default: FILE]
    #[arg(long = "as", value_name = "PATH", requires = "file")]
    pub place: Option<String>,
    /// Smallest drop of the pass rate to search for
    #[arg(long, value_name = "SHARE", default_value = "0.2", value_parser = drop)]
    pub drop: f64,
    /// Maximum number of trials; a resumed search can have more
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub max_trials: u64,
    #[command(flatten)]
    pub run: RunArgs,
}

fn drop(text: &str) -> Result<f64, String> {
    let drop = text.parse().ok();
    let drop = drop.filter(|drop| (0.05..=0.9).contains(drop));
    drop.ok_or_else(|| "expected a number from 0.05 to 0.9, such as 0.2".to_owned())
}

/// `proctor trend`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 no drop · 1 the score has dropped · 2 usage or configuration error · 4 undecided"
)]
pub struct TrendArgs {
    /// Directories or ids of runs [default: all runs of the project]
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Only runs with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Suite that locates the runs
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
