//! Command-line arguments.

mod clusters;
mod config;
mod experiments;
mod gate;
mod keep_workspace;
mod logs;
mod mining;
mod models;
#[cfg(test)]
mod reference;
mod reports;
mod searches;
mod setup;
mod show;
mod tasks;
mod usage;
mod view;

use camino::Utf8PathBuf;
use clap::{
    Parser, Subcommand, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use proctor_sandbox::{Network, SandboxKind};

pub use clusters::{InterruptArg, TrialArgs};
pub use config::{ConfigArgs, ConfigCommand, InstallAgentsArgs, Level, SuggestTestcaseArgs};
pub use experiments::{AbArgs, DecisionArgs, ExperimentArgs};
pub use gate::{GateArgs, GateFormat, GateOptions, GatedRunArgs, UndecidedArg};
pub use keep_workspace::KeepArg;
pub use logs::{ExportArgs, ExportFormat, LogArgs, LogCommand, NormalizeArgs, NormalizeFormat};
pub use mining::{FormatArg, MineArgs, PromptArg, RefreshArgs, SelectionArgs};
pub use models::{GatewayArgs, MissArg, ModelArgs, PricesArgs, RuleArgs};
pub use reports::{
    BaselineArgs, BaselineCommand, BasisArgs, CompareArgs, CompareFormat, ReportArgs, ReportFormat,
};
pub use searches::{AblateArgs, BisectArgs, PartArg, TrendArgs};
pub use setup::{DoctorArgs, InitArgs, SelfArgs, SelfCheckArgs, SelfCommand};
pub use show::{ShowArgs, ShowPart};
pub use tasks::{
    CheckArgs, ImportArgs, LockArgs, NewArgs, NewKind, TaskArgs, TaskCommand, TaskSelectionArgs,
};
pub use usage::{message, parse_from};
pub use view::{ViewArgs, WatchArgs};

/// Run coding agents on tasks, observe them and judge their work.
#[derive(Debug, Parser)]
#[command(
    name = "proctor",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 all passed · 1 a trial failed · 2 usage or configuration error · 3 infrastructure failure · 4 undecided · 130 interrupted"
)]
pub struct Args {
    /// Suite or test case; can also be given after the command
    #[arg(long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run agents on test cases or a suite, and judge the results
    Run(Box<GatedRunArgs>),
    /// Compare two variants of an agent: is B better than A?
    Ab(Box<AbArgs>),
    /// Run the experiment of a suite: are the candidates better than the baseline?
    Experiment(Box<ExperimentArgs>),
    /// Find out which parts of a file, skills or servers help: remove each of them
    Ablate(Box<AblateArgs>),
    /// Find the version since which fewer trials pass
    Bisect(Box<BisectArgs>),
    /// Watch the scores of nightly runs, with an alarm if they drop
    Trend(TrendArgs),
    /// Judge existing work in a directory, without changing it
    Eval(EvalArgs),
    /// Check test cases and suites without running anything
    Validate(ValidateArgs),
    /// Write a first suite and its task, for the detected agent and tests
    Init(InitArgs),
    /// List the agents and tasks of a suite, the types of agents and evaluators, or runs
    List(ListArgs),
    /// Show installed agents and tools, their versions and login status
    Doctor(DoctorArgs),
    /// Print the JSON Schema of a configuration file or output file
    Schema(SchemaArgs),
    /// Write the definition of the built-in judge for Copilot and Claude Code
    InstallAgents(InstallAgentsArgs),
    /// Start an agent that suggests a test case for finished work
    SuggestTestcase(SuggestTestcaseArgs),
    /// Show and change the project settings (`.youbencharc`)
    Config(ConfigArgs),
    /// Show the progress and results of a run
    Status(StatusArgs),
    /// Show a trial: verdicts, failing tests with their output, prompt and diff
    Show(ShowArgs),
    /// Summarize runs: scores with confidence intervals, per agent and per task
    Report(ReportArgs),
    /// Compare two runs, agents or baselines, and fail on significant regressions
    Compare(CompareArgs),
    /// Apply rules to a run, such as `passed >= 80%`: pass, fail or undecided
    Gate(GateArgs),
    /// Save the results of a run to compare later runs with
    Baseline(BaselineArgs),
    /// Watch a run from another terminal, during or after it
    Watch(WatchArgs),
    /// Show runs in the browser: progress, sessions, changes, search
    View(ViewArgs),
    /// Play back a trial's session
    Replay(ReplayArgs),
    /// Judge the trials of runs again from their records, without running agents
    Rescore(RescoreArgs),
    /// Remove workspaces, runs and leftovers of killed runs
    Clean(CleanArgs),
    /// Run one trial of a suite (used by cluster jobs)
    Trial(TrialArgs),
    /// Work with tasks
    Task(TaskArgs),
    /// Work with agents' logs
    Log(LogArgs),
    /// Work with container images for trials
    Image(ImageArgs),
    /// Run the model gateway on its own: keys, budgets, metering, recordings and scripts
    Gateway(Box<GatewayArgs>),
    /// Show the prices of models, with date and source
    Prices(PricesArgs),
    /// Serve one task to a Claude Code started with `--sdk-url` (used by adapter scripts)
    SdkServer(SdkServerArgs),
    /// Work with this installation of Proctor
    #[command(name = "self")]
    Installation(SelfArgs),
    /// Print a shell completion script
    #[command(alias = "completion")]
    Completions(CompletionsArgs),
}

impl Command {
    /// Passes a `--config` given before the command to the command. Returns it if the command does
    /// not take it.
    pub fn take_config(&mut self, file: Utf8PathBuf) -> Result<(), Utf8PathBuf> {
        match self {
            Command::Run(args) => args.run.config.insert(0, file),
            Command::Validate(args) => args.cases.config.insert(0, file),
            Command::List(args) if args.config.is_none() => args.config = Some(file),
            Command::Report(args) if args.config.is_none() => args.config = Some(file),
            Command::Gate(args) if args.config.is_none() => args.config = Some(file),
            Command::Rescore(args) if args.config.is_none() => args.config = Some(file),
            _ => return Err(file),
        }
        Ok(())
    }
}

/// `proctor rescore`.
#[derive(Debug, Parser)]
pub struct RescoreArgs {
    /// Directories or ids of runs [default: all runs of the project]
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Suite that locates the runs, and the tasks of runs made by Thunderdome
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub verdicts: VerdictArgs,
    /// Use the current definitions of tasks and evaluators
    #[arg(long)]
    pub current: bool,
    /// Number of trials judged in parallel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Print the result as one JSON array on standard output
    #[arg(long)]
    pub json: bool,
}

/// Selects the verdicts to judge again.
#[derive(Debug, Parser)]
pub struct VerdictArgs {
    /// Only judge again where an evaluator had an error
    #[arg(long)]
    pub errors_only: bool,
    /// Query judges again instead of using their cached answers
    #[arg(long, conflicts_with = "errors_only")]
    pub full: bool,
}

/// The arguments of commands that run trials.
#[derive(Debug, Parser)]
pub struct RunArgs {
    /// Test cases (YAML or JSON), directories of test cases or tasks, `git+URL@REF#DIRECTORY`, or one
    /// suite [default: `proctor.yaml` or `thunderdome.yaml`]
    #[arg(value_name = "PATH")]
    pub paths: Vec<Utf8PathBuf>,
    /// Test case or suite; same as PATH
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<Utf8PathBuf>,
    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Which workspaces of finished trials are kept whole; the diff is always kept
    #[arg(long, value_enum, value_name = "WHICH")]
    pub keep_workspace: Option<KeepArg>,
    /// Keep no workspace: the same as --keep-workspace none
    #[arg(long, conflicts_with = "keep_workspace")]
    pub delete_workspace: bool,
    /// Accepted for compatibility with Thunderdome; has no effect
    #[arg(long, hide = true)]
    pub cleanup_aggressive: bool,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressStyle::Auto)]
    pub progress: ProgressStyle,
    #[command(flatten)]
    pub view: TuiArgs,
    #[command(flatten)]
    pub models: ModelArgs,
    #[command(flatten)]
    pub options: PlanArgs,
}

/// `proctor eval`.
#[derive(Debug, Parser)]
pub struct EvalArgs {
    /// Evaluation file with `name`, `description`, `directory` and `evaluators`
    #[arg(short, long, value_name = "FILE")]
    pub config: Utf8PathBuf,
    /// Directory to judge; overrides the file
    #[arg(long, value_name = "DIR")]
    pub dir: Option<Utf8PathBuf>,
    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressStyle::Auto)]
    pub progress: ProgressStyle,
}

/// Whether a run is shown in the live view.
#[derive(Debug, Parser)]
pub struct TuiArgs {
    /// Show the live view (default on a terminal with more than one trial)
    #[arg(long, conflicts_with = "no_tui")]
    pub tui: bool,
    /// Print lines instead of the live view
    #[arg(long)]
    pub no_tui: bool,
}

/// Selects trials, and sets how often and where they run.
#[derive(Debug, Default, PartialEq, Eq, Parser)]
#[command(next_help_heading = "Selection and execution")]
pub struct PlanArgs {
    /// Only this agent of a suite; for test cases and task directories, the type of agent;
    /// repeatable
    #[arg(long, value_name = "NAME", alias = "orchestrator")]
    pub agent: Vec<String>,
    /// Only this task, by name, repo or last part of the repo; repeatable
    #[arg(long, value_name = "NAME")]
    pub task: Vec<String>,
    /// Only tasks of this category; `x/*` selects its subcategories; repeatable
    #[arg(long, value_name = "CATEGORY")]
    pub category: Vec<String>,
    /// Selection of tasks by patterns and by number.
    #[command(flatten)]
    pub selection: TaskSelectionArgs,
    /// Number of trials of each agent on each task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: Option<u32>,
    /// Number of trials that run in parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: Option<u16>,
    /// Where trials run; overrides the suite
    #[arg(long, value_enum, value_name = "KIND")]
    pub sandbox: Option<SandboxArg>,
    /// Image of trials in containers whose agent and task name none; overrides the suite
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Network of trials in containers; overrides suite and tasks
    #[arg(long, value_name = "NETWORK", value_parser = network())]
    pub network: Option<Network>,
    /// Seed for the order of the trials
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub seed: Option<u64>,
    /// Label of the run, to select it later: `proctor trend --label`; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, conflicts_with = "resume")]
    pub labels: Vec<(String, String)>,
    /// Number of retries of a trial after an infrastructure failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry_infra: u32,
    /// Resume an earlier run; the latest one unless RUN is given
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    pub resume: Option<Utf8PathBuf>,
    /// With --resume, run the remaining trials with changed definitions, listed apart in reports
    #[arg(long, requires = "resume")]
    pub accept_changes: bool,
    /// On Ctrl-C, keep or cancel the jobs on the cluster [default: prompt on a terminal, else
    /// detach]
    #[arg(long, value_enum, value_name = "HOW")]
    pub on_interrupt: Option<InterruptArg>,
    /// Print the trials in order, and run nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Where trials run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// In directories and process trees of this machine
    Local,
    /// In containers
    Docker,
}

impl From<SandboxArg> for SandboxKind {
    fn from(kind: SandboxArg) -> SandboxKind {
        match kind {
            SandboxArg::Local => SandboxKind::Local,
            SandboxArg::Docker => SandboxKind::Docker,
        }
    }
}

/// A label of a run.
fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let parts = parts.filter(|(key, value)| !key.is_empty() && !value.is_empty());
    let label = parts.map(|(key, value)| (key.to_owned(), value.to_owned()));
    label.ok_or_else(|| "expected KEY=VALUE, such as nightly=main".to_owned())
}

/// The names of networks.
fn network() -> impl TypedValueParser<Value = Network> {
    let names = PossibleValuesParser::new([
        PossibleValue::new("gateway").help("Only the gateway"),
        PossibleValue::new("open").help("Unrestricted"),
        PossibleValue::new("none").help("No network"),
    ]);
    names.try_map(|name| Network::named(&name).ok_or("unknown network"))
}

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// Lines on a terminal; elsewhere and in CI, one line every 30 seconds
    Auto,
    /// One line for each event
    Plain,
    /// No progress
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
    /// Show the resolved values of each test case
    #[arg(short, long)]
    pub verbose: bool,
}

/// Selects test cases.
#[derive(Debug, Parser)]
pub struct Cases {
    /// Test cases (YAML or JSON), task directories, directories of either, or suites [default:
    /// `proctor.yaml` or `thunderdome.yaml`]
    #[arg(value_name = "PATH")]
    pub paths: Vec<Utf8PathBuf>,
    /// Test case; same as PATH
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<Utf8PathBuf>,
}

/// `proctor list`.
#[derive(Debug, Parser)]
pub struct ListArgs {
    /// Things to list.
    #[command(subcommand)]
    pub what: Option<ListCommand>,
    /// Suite [default: `proctor.yaml` or `thunderdome.yaml`]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Things to list.
#[derive(Debug, Subcommand)]
pub enum ListCommand {
    /// List runs, newest first
    Runs(ListRunsArgs),
}

/// `proctor list runs`.
#[derive(Debug, Parser)]
pub struct ListRunsArgs {
    /// Results directory [default: `.proctor` of the project, and `results`]
    #[arg(value_name = "DIR")]
    pub dir: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor schema`.
#[derive(Debug, Parser)]
pub struct SchemaArgs {
    /// Schema to print
    #[arg(value_enum, default_value_t = SchemaName::Suite)]
    pub name: SchemaName,
}

/// Schemas to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// Test case or suite
    #[value(alias = "testcase")]
    Suite,
    /// Evaluation file of `proctor eval`
    Eval,
    /// youbencha-log.json
    Log,
    /// results.json
    Results,
    /// record.json
    Record,
    /// Trial spec of `proctor trial`
    Trial,
}

/// `proctor status`.
#[derive(Debug, Parser)]
pub struct StatusArgs {
    /// Directory or id of a run [default: the latest run of the project]
    #[arg(value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `proctor replay`.
#[derive(Debug, Parser)]
pub struct ReplayArgs {
    /// Directory of a trial
    #[arg(value_name = "TRIAL")]
    pub trial: Utf8PathBuf,
    /// Playback speed as a multiple of the original [default: 1 in the live view, else no delay]
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// Print lines instead of the live view
    #[arg(long)]
    pub no_tui: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text
        .parse()
        .ok()
        .filter(|speed| (0.01..=10_000.0).contains(speed));
    speed.ok_or_else(|| "expected a number from 0.01 to 10000".to_owned())
}

/// A number that may be 0.
fn whole_number(text: &str) -> Result<u64, String> {
    let number = text.parse().ok();
    number.ok_or_else(|| "expected a whole number, 0 or more".to_owned())
}

/// `proctor clean`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Without RUN, --older-than or --workspaces, only leftovers of killed runs in the temporary directory are removed. Active runs are never removed."
)]
pub struct CleanArgs {
    /// Directories or ids of runs to remove
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Remove runs started longer ago than this: 90m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<std::time::Duration>,
    /// Remove only workspaces; keep records and artifacts
    #[arg(long)]
    pub workspaces: bool,
    /// Show what would be removed, and remove nothing
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
    age.ok_or_else(|| "expected an integer followed by s, m, h, d or w, such as 7d".to_owned())
}

/// `proctor completions`.
#[derive(Debug, Parser)]
pub struct CompletionsArgs {
    /// Shell
    pub shell: clap_complete::Shell,
}

/// `proctor sdk-server`.
#[derive(Debug, Parser)]
pub struct SdkServerArgs {
    /// Port on loopback; 0 selects a free port. The port is printed on standard output
    #[arg(long, default_value_t = 9876)]
    pub port: u16,
    /// File with the prompt
    #[arg(long, value_name = "FILE")]
    pub task_file: Utf8PathBuf,
    /// JSON file to write usage metrics to
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Utf8PathBuf,
    /// Stop after this many seconds without a message from Claude Code
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole_number)]
    pub silence: u64,
    /// Print events on standard error
    #[arg(long)]
    pub debug: bool,
}

/// `proctor image`.
#[derive(Debug, Parser)]
pub struct ImageArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image with an agent's CLI, and print its name
    Build(ImageBuildArgs),
}

/// `proctor image build`.
#[derive(Debug, Parser)]
pub struct ImageBuildArgs {
    /// Agent
    #[arg(value_enum)]
    pub name: ShippedImage,
    /// Build argument, such as BASE=IMAGE; repeatable
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub args: Vec<String>,
    /// Name of the image, for use in suites; repeatable [default: proctor/NAME:latest]
    #[arg(short, long = "tag", value_name = "IMAGE[:TAG]")]
    pub tags: Vec<String>,
    /// Network of build commands, as named by the container engine
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
}

/// Images whose Dockerfiles are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShippedImage {
    /// Claude Code, with Proctor as SDK server
    ClaudeCode,
    /// Aider
    Aider,
}
