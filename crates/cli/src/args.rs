//! What the command line takes.

mod clusters;
mod logs;
mod models;
mod reports;

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};
use proctor_harness::config::Network;

pub use clusters::{InterruptArg, TrialArgs};
pub use logs::{ExportArgs, ExportFormat, LogArgs, LogCommand, NormalizeArgs, NormalizeFormat};
pub use models::{GatewayArgs, MissArg, ModelArgs, PricesArgs, RuleArgs};
pub use reports::{
    BaselineArgs, BaselineCommand, BasisArgs, CompareArgs, CompareFormat, ReportArgs, ReportFormat,
};

/// Run coding agents on tasks, watch them, and judge what they did.
#[derive(Debug, Parser)]
#[command(
    name = "proctor",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 all passed · 1 something failed · 2 usage or config error · 3 infrastructure, nothing to judge · 130 interrupted"
)]
pub struct Args {
    /// The suite or test case; may also stand after the command
    #[arg(long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run test cases or a suite: agents work on repos, evaluators judge the results
    Run(Box<RunArgs>),
    /// Judge work that is done already, in a directory that is not touched
    Eval(EvalArgs),
    /// Check test cases and suites without running anything
    Validate(ValidateArgs),
    /// Write a test case to start from
    Init(InitArgs),
    /// List what a suite has, the kinds of agents and evaluators, or the runs on record
    List(ListArgs),
    /// Tell what is installed, which version, and whether it is logged in
    Doctor(DoctorArgs),
    /// Print a JSON Schema, for editors and for checking what Proctor writes
    Schema(SchemaArgs),
    /// Tell how far a run of a suite is, and what came of it
    Status(StatusArgs),
    /// Report what runs came to: agents with intervals, tasks, and what cannot be told apart
    Report(ReportArgs),
    /// Compare two runs, agents or baselines, and fail when the second is certainly worse
    Compare(CompareArgs),
    /// Keep the figures of a run to compare later ones with
    Baseline(BaselineArgs),
    /// Watch a run from another terminal, while it runs or afterwards
    Watch(WatchArgs),
    /// Play a trial's session back
    Replay(ReplayArgs),
    /// Judge the trials of runs again, from their records; no agent is run
    Rescore(RescoreArgs),
    /// Remove workspaces, runs, and what dead runs left behind
    Clean(CleanArgs),
    /// Run one trial of a suite, as the jobs of a cluster do
    Trial(TrialArgs),
    /// Work with tasks
    Task(TaskArgs),
    /// Work with agents' logs
    Log(LogArgs),
    /// Work with images for trials in containers
    Image(ImageArgs),
    /// Run the gateway alone: keys, budgets, metering, recordings and scripts for any agent
    Gateway(Box<GatewayArgs>),
    /// Show what models cost, since when, and according to whom
    Prices(PricesArgs),
    /// Serve one task to a Claude Code that connects with `--sdk-url`, for adapter scripts
    SdkServer(SdkServerArgs),
    /// Print a completion script for a shell
    #[command(alias = "completion")]
    Completions(CompletionsArgs),
}

impl Command {
    /// Hand a `--config` that stood before the command to the command; gives it back when the command
    /// has no use for it.
    pub fn take_config(&mut self, file: Utf8PathBuf) -> Result<(), Utf8PathBuf> {
        match self {
            Command::Run(args) => args.config.insert(0, file),
            Command::Validate(args) => args.cases.config.insert(0, file),
            Command::List(args) if args.config.is_none() => args.config = Some(file),
            Command::Report(args) if args.config.is_none() => args.config = Some(file),
            Command::Rescore(args) if args.config.is_none() => args.config = Some(file),
            _ => return Err(file),
        }
        Ok(())
    }
}

/// `proctor rescore`.
#[derive(Debug, Parser)]
pub struct RescoreArgs {
    /// Folders or ids of runs; all runs of the project when left out
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// The suite: where runs are looked for, and the tasks of runs that Thunderdome wrote
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub verdicts: VerdictArgs,
    /// Judge by tasks and evaluators as their files say now
    #[arg(long)]
    pub current: bool,
    /// How many trials are judged at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Print one JSON array on standard output when all is done
    #[arg(long)]
    pub json: bool,
}

/// Which verdicts are made again.
#[derive(Debug, Parser)]
pub struct VerdictArgs {
    /// Only verdicts of evaluators that broke; the others stay
    #[arg(long)]
    pub errors_only: bool,
    /// Ask judges again instead of taking the answers that were kept
    #[arg(long, conflicts_with = "errors_only")]
    pub full: bool,
}

/// `proctor run`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor run [OPTIONS] <PATH>...\n       proctor run [OPTIONS] -c <FILE>\n       proctor run [OPTIONS] [SUITE]"
)]
pub struct RunArgs {
    /// Test cases (YAML or JSON), folders of test cases or tasks, or one suite; `proctor.yaml` or `thunderdome.yaml` when left out
    #[arg(value_name = "PATH")]
    pub paths: Vec<Utf8PathBuf>,
    /// A test case or suite; the same as PATH
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<Utf8PathBuf>,
    /// Print one JSON object on standard output when all is done
    #[arg(long)]
    pub json: bool,
    /// Remove the workspaces of finished trials; the artifacts stay
    #[arg(long)]
    pub delete_workspace: bool,
    /// Accepted for Thunderdome's sake, without effect
    #[arg(long, hide = true)]
    pub cleanup_aggressive: bool,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
    #[command(flatten)]
    pub view: ViewArgs,
    #[command(flatten)]
    pub models: ModelArgs,
    #[command(flatten)]
    pub options: PlanArgs,
}

/// `proctor eval`.
#[derive(Debug, Parser)]
pub struct EvalArgs {
    /// What is judged and how: `name`, `description`, `directory`, `evaluators`
    #[arg(short, long, value_name = "FILE")]
    pub config: Utf8PathBuf,
    /// The directory with the work, whatever the file says
    #[arg(long, value_name = "DIR")]
    pub dir: Option<Utf8PathBuf>,
    /// Print one JSON object on standard output when all is done
    #[arg(long)]
    pub json: bool,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
}

/// Whether a run is shown in the live view.
#[derive(Debug, Parser)]
pub struct ViewArgs {
    /// Show the live view (the default on a terminal with more than one trial)
    #[arg(long, conflicts_with = "no_tui")]
    pub tui: bool,
    /// Show lines instead of the live view
    #[arg(long)]
    pub no_tui: bool,
}

/// What to run, how often and where.
#[derive(Debug, Default, PartialEq, Eq, Parser)]
#[command(next_help_heading = "Selection and execution")]
pub struct PlanArgs {
    /// Only this agent of a suite; for test cases and folders of tasks, the kind of agent; repeatable
    #[arg(long, value_name = "NAME", alias = "orchestrator")]
    pub agent: Vec<String>,
    /// Only this task, by its name, its repo or the last part of that; repeatable
    #[arg(long, value_name = "NAME")]
    pub task: Vec<String>,
    /// Only tasks of this category, or of all below it with `x/*`; repeatable
    #[arg(long, value_name = "CATEGORY")]
    pub category: Vec<String>,
    /// How often each agent does each task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: Option<u32>,
    /// How many trials run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: Option<u16>,
    /// Where trials execute; overrides the suite
    #[arg(long, value_enum, value_name = "KIND")]
    pub sandbox: Option<SandboxArg>,
    /// Network of trials in containers; overrides suite and tasks
    #[arg(long, value_enum, value_name = "NETWORK")]
    pub network: Option<NetworkArg>,
    /// The seed of the order of the trials
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Retries of a trial after an infrastructure failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry_infra: u32,
    /// Continue an earlier run; the newest one unless RUN is given
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    pub resume: Option<Utf8PathBuf>,
    /// Whether a cluster's jobs are cancelled at Ctrl-C; asked on a terminal, else they keep running
    #[arg(long, value_enum, value_name = "HOW")]
    pub on_interrupt: Option<InterruptArg>,
    /// Print the trials in their order and run nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Where trials execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// In folders and process trees of this machine
    Local,
    /// In containers
    Docker,
}

/// What trials in containers may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkArg {
    /// The gateway and nothing else
    Gateway,
    /// Everything
    Open,
    /// Nothing
    None,
}

impl From<NetworkArg> for Network {
    fn from(network: NetworkArg) -> Network {
        match network {
            NetworkArg::Gateway => Network::Gateway,
            NetworkArg::Open => Network::Open,
            NetworkArg::None => Network::None,
        }
    }
}

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Lines on a terminal, nothing in CI
    Auto,
    /// A line for each thing that happens
    Plain,
    /// Nothing
    Quiet,
}

/// `proctor validate`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor validate [-v] <PATH>...\n       proctor validate [-v] -c <FILE>\n       proctor validate [-v]"
)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub cases: Cases,
    /// Show what each test case resolves to
    #[arg(short, long)]
    pub verbose: bool,
}

/// Which test cases.
#[derive(Debug, Parser)]
pub struct Cases {
    /// Test cases (YAML or JSON), task folders, folders of either, or suites; `proctor.yaml` or
    /// `thunderdome.yaml` when left out
    #[arg(value_name = "PATH")]
    pub paths: Vec<Utf8PathBuf>,
    /// A test case; the same as PATH
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<Utf8PathBuf>,
}

/// `proctor init`.
#[derive(Debug, Parser)]
pub struct InitArgs {
    /// Where to write it
    #[arg(default_value = "testcase.yaml")]
    pub path: Utf8PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
}

/// `proctor list`.
#[derive(Debug, Parser)]
pub struct ListArgs {
    /// What to list.
    #[command(subcommand)]
    pub what: Option<ListCommand>,
    /// The suite; `proctor.yaml` or `thunderdome.yaml` when left out
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to list.
#[derive(Debug, Subcommand)]
pub enum ListCommand {
    /// List the runs on record, newest first
    Runs(ListRunsArgs),
}

/// `proctor list runs`.
#[derive(Debug, Parser)]
pub struct ListRunsArgs {
    /// The folder of results; `results` and `.proctor` when left out
    #[arg(value_name = "DIR")]
    pub dir: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor doctor`.
#[derive(Debug, Parser)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor schema`.
#[derive(Debug, Parser)]
pub struct SchemaArgs {
    /// Which schema to print
    #[arg(value_enum, default_value_t = SchemaName::Suite)]
    pub name: SchemaName,
}

/// Which schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// A test case or suite, as you write it
    #[value(alias = "testcase")]
    Suite,
    /// What `proctor eval` reads
    Eval,
    /// youbencha-log.json
    Log,
    /// results.json
    Results,
    /// record.json
    Record,
    /// The spec of one trial, which `proctor trial` reads
    Trial,
}

/// `proctor status`.
#[derive(Debug, Parser)]
pub struct StatusArgs {
    /// The folder or id of a run; the newest run of the project when left out
    #[arg(value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor watch`.
#[derive(Debug, Parser)]
pub struct WatchArgs {
    /// The folder or id of a run; the newest run of the project when left out
    #[arg(value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Print lines instead of the view
    #[arg(long)]
    pub no_tui: bool,
}

/// `proctor replay`.
#[derive(Debug, Parser)]
pub struct ReplayArgs {
    /// The folder of a trial
    #[arg(value_name = "TRIAL")]
    pub trial: Utf8PathBuf,
    /// How many times as fast as it was; lines come at once when left out
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// Print lines instead of the view
    #[arg(long)]
    pub no_tui: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text
        .parse()
        .ok()
        .filter(|speed| (0.01..=10_000.0).contains(speed));
    speed.ok_or_else(|| "a number from 0.01 to 10000".to_owned())
}

/// `proctor clean`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Without RUN, --older-than or --workspaces only what dead runs left in the temporary folder goes. A run that is running is never touched."
)]
pub struct CleanArgs {
    /// Runs to remove: folders, or ids
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Remove runs that were started longer ago: 90m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<std::time::Duration>,
    /// Remove only the kept workspaces; records and artifacts stay
    #[arg(long)]
    pub workspaces: bool,
    /// Show what would go, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn age(text: &str) -> Result<std::time::Duration, String> {
    let unit = text.chars().last().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(24 * 3600),
        'w' => Some(7 * 24 * 3600),
        _ => None,
    });
    let number = text.get(..text.len().saturating_sub(1));
    let number = number.and_then(|number| number.parse::<u64>().ok());
    let seconds = unit
        .zip(number)
        .and_then(|(unit, number)| number.checked_mul(unit));
    let age = seconds.map(std::time::Duration::from_secs);
    age.ok_or_else(|| "a whole number and s, m, h, d or w, such as 7d".to_owned())
}

/// `proctor task`.
#[derive(Debug, Parser)]
pub struct TaskArgs {
    /// What to do with a task.
    #[command(subcommand)]
    pub command: TaskCommand,
}

/// What to do with a task.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Prove that doing nothing fails a task and that its reference solution passes it
    Check(CheckArgs),
    /// Write a task to start from
    New(NewArgs),
}

/// `proctor task check`.
#[derive(Debug, Parser)]
pub struct CheckArgs {
    /// Tasks: test cases, task folders, folders of either, or suites
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<Utf8PathBuf>,
    /// How often each is tried, to find flaky tasks
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub times: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor task new`.
#[derive(Debug, Parser)]
pub struct NewArgs {
    /// Its name: the folder that is made
    #[arg(value_name = "NAME")]
    pub name: Utf8PathBuf,
    /// What kind of task
    #[arg(long, value_enum, default_value_t = NewKind::Folder)]
    pub kind: NewKind,
}

/// What kind of task to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// A folder in Harbor's format
    Folder,
    /// A git repo with tags, and a suite that names it
    Repo,
    /// A test case
    Testcase,
}

/// `proctor completions`.
#[derive(Debug, Parser)]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: clap_complete::Shell,
}

/// `proctor sdk-server`.
#[derive(Debug, Parser)]
pub struct SdkServerArgs {
    /// The port on loopback; 0 is any free one, which is told on standard output
    #[arg(long, default_value_t = 9876)]
    pub port: u16,
    /// The file with what is asked
    #[arg(long, value_name = "FILE")]
    pub task_file: Utf8PathBuf,
    /// Where to leave what was used, as JSON
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Utf8PathBuf,
    /// Give up on a Claude Code that says nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub silence: u64,
    /// Show on standard error what happens
    #[arg(long)]
    pub debug: bool,
}

/// `proctor image`.
#[derive(Debug, Parser)]
pub struct ImageArgs {
    /// What to do with images.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image that has an agent's CLI, and print its name
    Build(ImageBuildArgs),
}

/// `proctor image build`.
#[derive(Debug, Parser)]
pub struct ImageBuildArgs {
    /// Which agent's
    #[arg(value_enum)]
    pub name: ShippedImage,
    /// An argument of its Dockerfile, such as BASE=IMAGE; may be given more than once
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub args: Vec<String>,
    /// The image's name, as a suite names it; may be given more than once
    /// [default: proctor/NAME:latest]
    #[arg(short, long = "tag", value_name = "IMAGE[:TAG]")]
    pub tags: Vec<String>,
    /// The network of the build's commands, as the engine calls it
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
}

/// The images whose Dockerfiles are shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShippedImage {
    /// Claude Code, with Proctor as its SDK server
    ClaudeCode,
    /// Aider
    Aider,
}
