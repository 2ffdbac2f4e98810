//! Errors of commands, their hints, and exit codes.

mod ab;

use std::fmt::Write;

use camino::Utf8PathBuf;
use proctor_document::{ConfigError, nearest};
use proctor_gateway::GatewayError;
use proctor_harness::{
    cluster::spec::SpecError,
    model_access::litellm::LiteLlmError,
    plan::{DatasetError, NoMatch, SameName},
    rescore::RescoreError,
    run::{FailedStart, RunError, check::CheckError, clean::CleanError, experiment::NoResult},
    trial::export::ExportError,
};
use proctor_mine::MineError;
use proctor_record::record::TrialStatus;
use proctor_report as report;
use proctor_sandbox::{docker::EngineError, git::GitError, packages::PackageError};
use serde::Serialize;

pub use self::ab::AbError;

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All passed.
    Success,
    /// A trial or a check failed.
    Failed,
    /// Usage or configuration error.
    Usage,
    /// Infrastructure failure: there is no result to judge.
    Infrastructure,
    /// The results do not decide the question.
    Undecided,
    /// Another process holds the trial's lease. Only `proctor trial` ends so.
    Claimed,
    /// A signal ended the run.
    Interrupted,
}

impl Exit {
    /// Proctor's code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Infrastructure => 3,
            Exit::Undecided | Exit::Claimed => 4,
            Exit::Interrupted => 130,
        }
    }
}

impl Exit {
    /// The exit of an answer with its own code: 0, 1, 3 or 4.
    pub fn of_answer(code: u8) -> Exit {
        match code {
            0 => Exit::Success,
            1 => Exit::Failed,
            3 => Exit::Infrastructure,
            _ => Exit::Undecided,
        }
    }
}

impl From<TrialStatus> for Exit {
    fn from(status: TrialStatus) -> Exit {
        match status {
            TrialStatus::Passed => Exit::Success,
            TrialStatus::Failed => Exit::Failed,
            TrialStatus::Error => Exit::Infrastructure,
            TrialStatus::Interrupted => Exit::Interrupted,
        }
    }
}

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Configuration files are not valid; the message shows all of them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// The datasets of a suite cannot be used.
    #[error(transparent)]
    Dataset(DatasetError),
    /// A directory does not contain test cases.
    #[error("no test cases found in {folder}")]
    NoTestCases {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// The file of a task of Terminal-Bench 1.
    #[error("{path} is the file of a task of Terminal-Bench 1, not a test case")]
    TerminalBench {
        /// The file.
        path: Utf8PathBuf,
    },
    /// No path was given and there is no suite here.
    #[error(
        "nothing to run: no path given, and no proctor.yaml or thunderdome.yaml in this directory"
    )]
    NothingToRun,
    /// `--config` was given twice, or for a command that does not take it.
    #[error("`--config` before the command has no effect for this command")]
    UnusedConfig,
    /// A run was given instead of a suite or task.
    #[error("{folder} contains the results of a run, not tasks")]
    RunInsteadOfTask {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// Some of several runs could not be judged again. Each of them was already reported.
    #[error("runs that could not be judged again: {count}")]
    NotRescored {
        /// How many.
        count: usize,
    },
    /// A suite was given together with other paths.
    #[error("{suite} is a suite and cannot be combined with other paths")]
    SuiteAmongOthers {
        /// The suite.
        suite: Utf8PathBuf,
    },
    /// The arguments of `ab` are not valid.
    #[error(transparent)]
    Ab(#[from] AbError),
    /// `experiment` with a suite that is not an experiment.
    #[error("{suite} has no `experiment` section")]
    NoExperiment {
        /// The suite.
        suite: Utf8PathBuf,
    },
    /// Input that a command cannot use.
    #[error("{message}")]
    Input {
        /// The reason.
        message: String,
        /// A suggestion for the user.
        hint: String,
    },
    /// The versions of a CLI are not known.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The trials of an experiment cannot be analysed.
    #[error(transparent)]
    NoResult(#[from] NoResult),
    /// Two test cases would have the same trials.
    #[error(transparent)]
    SameName(#[from] SameName),
    /// A filter matches nothing.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// An option is not supported with LiteLLM.
    #[error("{why}")]
    LiteLlm {
        /// The reason.
        why: &'static str,
    },
    /// A suite could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The trial of a spec could not be run.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An option requires a cluster.
    #[error("{option} has no effect: this suite does not run on a cluster")]
    NeedsCluster {
        /// The option.
        option: &'static str,
    },
    /// An option has no effect on the nodes of a cluster.
    #[error("{option} is not supported for runs on a cluster")]
    NotOnCluster {
        /// The option.
        option: &'static str,
    },
    /// A run could not be judged again.
    #[error(transparent)]
    Rescore(#[from] RescoreError),
    /// A task could not be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Tasks could not be made from a repository.
    #[error(transparent)]
    Mine(MineError),
    /// The base image of a build is missing.
    #[error("the container engine does not have the base image {base:?} and could not pull it")]
    NoBaseImage {
        /// Its name.
        base: String,
        /// The image to build.
        shipped: &'static str,
        /// The engine's error.
        source: EngineError,
    },
    /// `--tui` was given without a terminal.
    #[error("--tui needs a terminal")]
    NoTerminal,
    /// There are no runs yet.
    #[error("no runs found in this project")]
    NoRuns,
    /// A run was not found.
    #[error("run {run} not found")]
    NoRun {
        /// The name given by the user.
        run: Utf8PathBuf,
    },
    /// A directory does not contain trials.
    #[error(transparent)]
    NoTrials(#[from] report::NoTrials),
    /// A file is not a valid `results.json`.
    #[error("{path} cannot be reported")]
    NoResults {
        /// The file.
        path: Utf8PathBuf,
        /// The cause.
        source: report::NoResults,
    },
    /// The extension of an output file does not name a format.
    #[error("cannot infer the format of {path} from its extension")]
    OutputExtension {
        /// The file.
        path: Utf8PathBuf,
        /// The known extensions.
        known: Vec<&'static str>,
    },
    /// The format is not available for a single result.
    #[error("`--from` does not support the format {format}")]
    FromFormat {
        /// The format.
        format: &'static str,
    },
    /// A baseline cannot be used.
    #[error(transparent)]
    Baseline(#[from] report::BaselineError),
    /// Two sets of trials cannot be compared.
    #[error(transparent)]
    Pairing(#[from] report::PairingError),
    /// A gate cannot decide.
    #[error(transparent)]
    Gate(#[from] report::GateError),
    /// A trial has no event log.
    #[error("no events.ndjson found in {trial}")]
    NoEvents {
        /// Its folder.
        trial: Utf8PathBuf,
    },
    /// A run could not be removed.
    #[error(transparent)]
    Clean(#[from] CleanError),
    /// A build argument is not valid.
    #[error("invalid build argument `{text}`: expected NAME=VALUE")]
    NotAnArgument {
        /// The argument.
        text: String,
    },
    /// A setting needs containers.
    #[error("`{setting}` requires containers")]
    NeedsContainers {
        /// The setting.
        setting: &'static str,
    },
    /// The results directory is inside the directory being evaluated.
    #[error("refusing to write results inside {directory}, the directory being evaluated")]
    ResultsInsideEvaluated {
        /// The directory being evaluated.
        directory: Utf8PathBuf,
    },
    /// A price file is not valid.
    #[error("invalid price file: {0}")]
    Prices(String),
    /// `--prices` was given without a gateway.
    #[error("`--prices` has no effect without a gateway")]
    UnusedPrices,
    /// A model has no known price.
    #[error("no price known for `{model}`")]
    NoPrice {
        /// The model.
        model: String,
    },
    /// A gateway has no upstream.
    #[error(
        "no upstream configured: no provider API key is set, and there is no model script or recording"
    )]
    NoUpstream,
    /// A key name is not valid or not unique.
    #[error("invalid or duplicate key name `{name}`")]
    KeyName {
        /// The name.
        name: String,
    },
    /// The gateway could not be started.
    #[error("cannot start the gateway")]
    Gateway(#[from] GatewayError),
    /// A file already exists.
    #[error("{path} already exists")]
    Exists {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The path of a new directory already exists.
    #[error("{path} already exists")]
    DirectoryExists {
        /// The path.
        path: Utf8PathBuf,
    },
    /// A trial could not be started because its input is not valid. Other trials ran.
    #[error("{agent} on {task}, trial {trial}, could not be started: {message}", agent = .0.agent, task = .0.task, trial = .0.trial, message = .0.message)]
    FailedStart(FailedStart),
    /// A setting is not in the settings.
    #[error("configuration key not found: {key}")]
    NoSetting {
        /// The key.
        key: String,
    },
    /// A settings file cannot be read.
    #[error("{path} is not a valid settings file: {reason}")]
    BadSettings {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no home directory.
    #[error("no home directory: HOME is not set")]
    NoHome,
    /// A directory does not exist.
    #[error("Directory not found: {path}")]
    NoDirectory {
        /// The directory.
        path: Utf8PathBuf,
    },
    /// A file with instructions does not exist.
    #[error("Agent file not found: {path}")]
    NoAgentFile {
        /// The file.
        path: Utf8PathBuf,
    },
    /// An agent cannot be started on the terminal.
    #[error("Unsupported agent type: {agent}")]
    NotInteractive {
        /// The agent.
        agent: String,
        /// Agents that can be.
        known: Vec<&'static str>,
    },
    /// The program of an agent is not installed.
    #[error("{agent} is not installed: `{program}` is not on PATH")]
    NotInstalled {
        /// The agent.
        agent: String,
        /// Its program.
        program: &'static str,
    },
    /// An interactive agent was started without a terminal.
    #[error("{agent} is interactive and needs a terminal")]
    NoInteraction {
        /// The agent.
        agent: String,
    },
    /// The output of an agent cannot be normalized.
    #[error("the output of `{agent}` cannot be normalized")]
    NoSession {
        /// The agent.
        agent: String,
        /// Agents whose output can be normalized.
        known: Vec<&'static str>,
    },
    /// A file is not the output of an agent.
    #[error("`{file}` does not contain a session of `{agent}`")]
    NotASession {
        /// The file.
        file: Utf8PathBuf,
        /// The agent.
        agent: String,
    },
    /// A trial cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<MineError> for CliError {
    fn from(error: MineError) -> CliError {
        match error {
            MineError::Config(errors) => CliError::Config(errors),
            other => CliError::Mine(other),
        }
    }
}

impl CliError {
    /// Input that a command cannot use, with a suggestion.
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> CliError {
        CliError::Input {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            CliError::Run(error)
            | CliError::Spec(SpecError::Run(error))
            | CliError::Check(CheckError::Run(error))
            | CliError::Rescore(RescoreError::Run(error)) => run_hint(error),
            CliError::Mine(error) => error.hint(),
            CliError::NoBaseImage { shipped, .. } => Some(format!(
                "use an available image: proctor image build {shipped} --arg BASE=IMAGE"
            )),
            CliError::Input { hint, .. } => Some(hint.clone()),
            CliError::FailedStart(failed) | CliError::Check(CheckError::FailedStart(failed)) => {
                failed.hint.clone()
            }
            CliError::NoSession { known, .. } | CliError::NotInteractive { known, .. } => {
                Some(format!("use one of: {}", known.join(", ")))
            }
            CliError::Ab(error) => Some(error.hint()),
            CliError::NoMatch(error) => meant(&error.name, &error.known),
            CliError::OutputExtension { known, .. } => Some(format!(
                "set --format, or use one of these extensions: {}",
                known.join(", ")
            )),
            CliError::Pairing(error) | CliError::Gate(report::GateError::Pairing(error)) => {
                pairing_hint(error)
            }
            CliError::Gate(report::GateError::NoBaseline { .. }) => Some(
                "save one with `proctor baseline save NAME RUN`, and pass --baseline NAME"
                    .to_owned(),
            ),
            _ => self.fixed_hint().map(str::to_owned),
        }
    }

    /// A suggestion that is the same for all errors of a kind.
    fn fixed_hint(&self) -> Option<&'static str> {
        let hint = match self {
            CliError::NoTestCases { .. } => {
                "test cases end in .yaml, .yml or .json, and task directories contain a task.toml; create one with `proctor init` or `proctor task new`"
            }
            CliError::TerminalBench { .. } => "pass the directory of the task",
            CliError::Package(_) => {
                "list the versions in a file, oldest first, and pass it with --versions"
            }
            CliError::DirectoryExists { .. } => "choose another name",
            CliError::Exists { .. } => "use --force to overwrite it",
            CliError::NotASession { .. } => {
                "pass the agent's recorded output, such as raw/stdout of a trial, and its agent with --agent"
            }
            CliError::NoSetting { .. } => "`proctor config list` shows the settings in effect",
            CliError::NotInstalled { .. } => "`proctor doctor` shows how to install it",
            CliError::NoExperiment { .. } => {
                "add `experiment: {baseline: NAME}`, or compare two variants with `proctor ab`"
            }
            CliError::Dataset(DatasetError::Fetch { .. }) => {
                "check the address, the network and the credentials of git"
            }
            CliError::NothingToRun => {
                "pass a test case or suite, or create one with `proctor init`"
            }
            CliError::UnusedConfig => {
                "only run, validate, list, report and rescore accept `--config`, and only once"
            }
            CliError::RunInsteadOfTask { .. } => {
                "use `proctor rescore` to judge the run again, `proctor report` to show it"
            }
            CliError::SuiteAmongOthers { .. } => "run each suite with a separate command",
            CliError::Rescore(RescoreError::Running { .. })
            | CliError::Clean(CleanError::Running { .. }) => "wait for it to finish, or stop it",
            CliError::NotOnCluster { .. } => "set it in the suite, under `gateway`",
            CliError::NoTerminal => "omit --tui to print lines",
            CliError::NoRuns => "start one with `proctor run`",
            CliError::NoRun { .. } => "`proctor list runs` lists the available runs",
            CliError::NoEvents { .. } => TRIAL_DIR_HINT,
            CliError::NoTrials(_) => {
                "pass the directory of a run; `proctor list runs` lists the available runs"
            }
            CliError::FromFormat { .. } => "use table, markdown or json, or report the whole run",
            CliError::ResultsInsideEvaluated { .. } => "set `output_dir` to another directory",
            CliError::NeedsContainers { .. } => "use --sandbox docker",
            CliError::UnusedPrices => "add `gateway: {}` to the file",
            CliError::NoPrice { .. } => {
                "add a price with `--prices FILE`, `gateway.prices` or `prices` in .youbencharc; see docs/gateway.md"
            }
            CliError::NoUpstream => {
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass --env-file, --model-script or --replay-models"
            }
            CliError::KeyName { .. } => "use unique names of letters, digits, `.`, `_` and `-`",
            CliError::Gateway(GatewayError::Listen { .. }) => {
                "choose another address with --listen"
            }
            CliError::LiteLlm { .. } => "remove it, or use Proctor's own gateway (`kind: proctor`)",
            CliError::Baseline(error) => return baseline_hint(error),
            CliError::Export(error) => return export_hint(error),
            _ => return None,
        };
        Some(hint)
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            CliError::Run(RunError::Trial(error))
            | CliError::Spec(SpecError::Run(RunError::Trial(error)))
                if !error.is_usage() =>
            {
                Exit::Infrastructure
            }
            CliError::Run(
                RunError::Sandbox(_)
                | RunError::Gateway(_)
                | RunError::Slurm(_)
                | RunError::LiteLlm(LiteLlmError::Ended { .. } | LiteLlmError::Silent { .. }),
            )
            | CliError::Check(CheckError::Run(RunError::Sandbox(_) | RunError::Gateway(_)))
            | CliError::Spec(SpecError::Run(RunError::Sandbox(_) | RunError::Gateway(_)))
            | CliError::Rescore(RescoreError::Run(_))
            | CliError::NoResult(_)
            | CliError::Package(_)
            | CliError::NoBaseImage { .. }
            | CliError::Gateway(GatewayError::Listen { .. } | GatewayError::Thread { .. }) => {
                Exit::Infrastructure
            }
            CliError::Run(RunError::Store(error)) if error.is_full() => Exit::Infrastructure,
            CliError::Mine(error) if !error.is_usage() => Exit::Infrastructure,
            CliError::Dataset(DatasetError::Interrupted) => Exit::Interrupted,
            CliError::Dataset(_) => Exit::Infrastructure,
            _ => Exit::Usage,
        }
    }
}

/// An error with its causes, on one line.
pub fn text(error: &CliError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// A fault of a configuration file, for `--json`.
#[derive(Debug, Serialize)]
pub struct FaultReport {
    file: Utf8PathBuf,
    /// From 1; null if the file could not be read.
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: Option<String>,
}

/// The faults of configuration files, for `--json`.
pub fn faults(error: &CliError) -> Vec<FaultReport> {
    match error {
        CliError::Config(errors) => errors.iter().flat_map(fault_reports).collect(),
        _ => Vec::new(),
    }
}

fn fault_reports(error: &ConfigError) -> impl Iterator<Item = FaultReport> {
    error.faults.iter().map(|fault| {
        let (line, column) = error.position(fault).unzip();
        FaultReport {
            file: error.path.clone(),
            line,
            column,
            message: fault.message.clone(),
            hint: fault.hint.clone(),
        }
    })
}

/// The value that was probably meant, or else the values to choose from, if there are any.
fn meant(name: &str, known: &[String]) -> Option<String> {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(nearest) = nearest(name, &names) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    (!known.is_empty()).then(|| format!("available: {}", known.join(", ")))
}

const TRIAL_DIR_HINT: &str = "pass the directory of a trial, which contains `artifacts`";

fn export_hint(error: &ExportError) -> Option<&'static str> {
    match error {
        ExportError::NoRecord { .. } => Some(TRIAL_DIR_HINT),
        ExportError::NoSession { .. } => {
            Some("use --format otlp-json, which does not require a session")
        }
        ExportError::BadRecord { .. } | ExportError::Io(_) => None,
    }
}

fn baseline_hint(error: &report::BaselineError) -> Option<&'static str> {
    match error {
        report::BaselineError::Exists { .. } => Some("use --force to replace it"),
        report::BaselineError::Empty { .. } => Some("name a run with finished trials"),
        report::BaselineError::Name { .. } => Some("use letters, digits, `.`, `_` and `-`"),
        report::BaselineError::Unreadable { .. } | report::BaselineError::Store(_) => None,
    }
}

fn pairing_hint(error: &report::PairingError) -> Option<String> {
    match error {
        report::PairingError::NoAgent { agent, known, .. } => meant(agent, known),
        report::PairingError::NoSharedAgent { .. } => {
            Some("select the agents with RUN:AGENT".to_owned())
        }
    }
}

/// A suggestion for a run that could not be started.
fn run_hint(error: &RunError) -> Option<String> {
    let hint = match error {
        RunError::Trial(error) => return error.hint(),
        RunError::Sandbox(error) => return error.hint(),
        RunError::Store(error) if error.is_full() => "free disk space, and continue with --resume",
        RunError::Changed { .. } => "resume with the same suite and options, or start a new run",
        RunError::DefinitionChanged { .. } => {
            "undo the change, start a new run, or pass --accept-changes to run the remaining trials with the new definition, listed apart"
        }
        RunError::ExperimentChanged { .. } => "undo the change, or start a new experiment",
        RunError::Running { .. } => "wait for it to finish, or stop it",
        RunError::Slurm(_) => "`proctor doctor` shows whether Slurm is installed",
        RunError::LiteLlm(LiteLlmError::NotFound { .. }) => {
            "install it with: pip install 'litellm[proxy]', or set its path with `program`"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
