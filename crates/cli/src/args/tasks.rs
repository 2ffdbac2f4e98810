//! Arguments of `task check` and `task new`.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};
use proctor_sandbox::Network;

use super::{MineArgs, RefreshArgs, SandboxArg, network};

/// `proctor task`.
#[derive(Debug, Parser)]
pub struct TaskArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: TaskCommand,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Check that a task fails without changes and passes with its reference solution
    Check(CheckArgs),
    /// Write tasks of Terminal-Bench 1 and instances of SWE-bench as directories in Harbor's format
    Import(ImportArgs),
    /// Write a task template
    New(NewArgs),
    /// Make tasks from the history of a git repository
    Mine(MineArgs),
    /// Add tasks from the commits since the last `task mine`
    Refresh(RefreshArgs),
    /// Write or update the lock file of a suite: commits of datasets, digests of tasks
    Lock(LockArgs),
}

/// `proctor task check`.
#[derive(Debug, Parser)]
pub struct CheckArgs {
    /// Test cases, task directories, directories of either, or suites
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<Utf8PathBuf>,
    /// Number of attempts for each task, to detect flaky tasks
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub times: u32,
    /// Where trials run; overrides the suite [default: containers for task directories, else this
    /// machine]
    #[arg(long, value_enum, value_name = "KIND")]
    pub sandbox: Option<SandboxArg>,
    /// Image of trials in containers whose task names none; overrides the suite
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Network of trials in containers; overrides suite and tasks
    #[arg(long, value_name = "NETWORK", value_parser = network())]
    pub network: Option<Network>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor task import`.
#[derive(Debug, Parser)]
pub struct ImportArgs {
    /// Task directory of Terminal-Bench 1, directory of them, or JSON or JSONL file of instances of
    /// SWE-bench
    #[arg(value_name = "SOURCE")]
    pub source: Utf8PathBuf,
    /// Directory of the written tasks; must be new or empty
    #[arg(long, value_name = "DIR")]
    pub out: Utf8PathBuf,
    /// Selection of tasks by patterns and by number.
    #[command(flatten)]
    pub selection: TaskSelectionArgs,
}

/// `proctor task lock`.
#[derive(Debug, Parser)]
pub struct LockArgs {
    /// Suite [default: the one in the working directory]
    #[arg(value_name = "SUITE")]
    pub suite: Option<Utf8PathBuf>,
}

/// Selection of tasks by patterns and by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parser)]
pub struct TaskSelectionArgs {
    /// Only tasks whose name matches this pattern; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// No tasks whose name matches this pattern; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// At most this number of tasks: the first ones, or a sample with --sample-seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Seed of a random sample of --limit tasks
    #[arg(long, value_name = "N", requires = "limit")]
    pub sample_seed: Option<u64>,
}

/// `proctor task new`.
#[derive(Debug, Parser)]
pub struct NewArgs {
    /// Name of the task, and directory to create
    #[arg(value_name = "NAME")]
    pub name: Utf8PathBuf,
    /// Format of the task
    #[arg(long, value_enum, default_value_t = NewKind::Folder)]
    pub kind: NewKind,
}

/// Formats of new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// Directory in Harbor's format
    Folder,
    /// Git repository with tags, and a suite that uses it
    Repo,
    /// Test case
    Testcase,
}
