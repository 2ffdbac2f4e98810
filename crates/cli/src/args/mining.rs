//! Arguments of `proctor task mine` and `proctor task refresh`.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};

use super::SandboxArg;

/// `proctor task mine`.
#[derive(Debug, Parser)]
#[command(
    after_help = "A commit becomes a task if its tests fail on its parent and pass on the commit, every time. The suite DIR/proctor.yaml has all tasks. Every candidate is listed in DIR/ledger.json: accepted, or rejected with a code and evidence."
)]
pub struct MineArgs {
    /// Git repository; its files are not changed
    #[arg(value_name = "REPO", default_value = ".")]
    pub repo: Utf8PathBuf,
    /// Directory for the suite, the ledger and the tasks
    #[arg(long, value_name = "DIR")]
    pub out: Utf8PathBuf,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Test command; the default is detected from the repository's files
    #[arg(long, value_name = "CMD")]
    pub test_cmd: Option<String>,
    /// Where the tests run [default: local]
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "image")]
    pub sandbox: Option<SandboxArg>,
    /// Run the tests in containers of this image
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Form of the tasks: repositories at a tag, or directories in Harbor's format, which need --image
    #[arg(long, value_enum, value_name = "FORM", default_value_t = FormatArg::Repo)]
    pub format: FormatArg,
    /// Source of the prompts
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = PromptArg::Both)]
    pub prompt: PromptArg,
    /// Number of runs of the tests in each state, to detect flaky tests
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub times: u32,
    /// Number of test runs in parallel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Reject candidates whose tests take longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=900))]
    pub test_timeout: u64,
    /// Print the candidates, the number of test runs and the estimated time
    #[arg(long)]
    pub dry_run: bool,
    /// Continue in a directory that has a ledger
    #[arg(long)]
    pub resume: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commits to examine.
#[derive(Debug, Parser)]
#[command(next_help_heading = "Commits")]
pub struct SelectionArgs {
    /// Only commits after this revision or date
    #[arg(long, value_name = "REV|DATE")]
    pub since: Option<String>,
    /// Run the tests of at most this many candidates, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Only commits that change a file that matches this pattern, such as 'src/**'; repeatable
    #[arg(long, value_name = "GLOB")]
    pub paths: Vec<String>,
    /// Only a sample of this many candidates: different directories, sizes and kinds of changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub representative: Option<u32>,
    /// Only this commit
    #[arg(long, value_name = "COMMIT", conflicts_with_all = ["since", "limit", "paths", "representative", "from_working_tree"])]
    pub from_commit: Option<String>,
    /// Only the uncommitted changes
    #[arg(long, conflicts_with_all = ["since", "limit", "paths", "representative"])]
    pub from_working_tree: bool,
}

/// Forms of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Repositories at a tag
    Repo,
    /// Directories in Harbor's format
    Harbor,
}

/// Sources of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PromptArg {
    /// The commit message
    Message,
    /// Names and messages of the failing tests
    Tests,
    /// Both
    Both,
}

/// `proctor task refresh`.
#[derive(Debug, Parser)]
pub struct RefreshArgs {
    /// Output directory of `proctor task mine`
    #[arg(value_name = "DIR")]
    pub out: Utf8PathBuf,
    /// Number of test runs in parallel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Reject candidates whose tests take longer than this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=900))]
    pub test_timeout: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
