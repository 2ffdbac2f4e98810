//! Errors of commands, their hints, and exit codes.

use camino::Utf8PathBuf;
use proctor_document::ConfigError;
use proctor_gateway::GatewayError;
use proctor_harness::{
    cluster::spec::SpecError,
    model_access::litellm::LiteLlmError,
    plan::{NoMatch, SameName},
    record::TrialStatus,
    report,
    rescore::RescoreError,
    run::{FailedStart, RunError, check::CheckError, clean::CleanError},
    sandbox::docker::EngineError,
    trial::export::ExportError,
};

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
    /// Another process holds the trial's lease.
    Claimed,
    /// A signal ended the run.
    Interrupted,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => 0.into(),
            Exit::Failed => 1.into(),
            Exit::Usage => 2.into(),
            Exit::Infrastructure => 3.into(),
            Exit::Claimed => 4.into(),
            Exit::Interrupted => 130.into(),
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
    /// A directory does not contain test cases.
    #[error("no test cases found in {folder}")]
    NoTestCases {
        /// The folder.
        folder: Utf8PathBuf,
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
    /// Two test cases would have the same trials.
    #[error(transparent)]
    SameName(#[from] SameName),
    /// A filter matches nothing.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// An option is not supported with LiteLLM.
    #[error("{why}")]
    LiteLlm {
        /// Why.
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
        /// Which.
        option: &'static str,
    },
    /// An option has no effect on the nodes of a cluster.
    #[error("{option} is not supported for runs on a cluster")]
    NotOnCluster {
        /// Which.
        option: &'static str,
    },
    /// A run could not be judged again.
    #[error(transparent)]
    Rescore(#[from] RescoreError),
    /// A task could not be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
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
        /// Why.
        source: report::NoResults,
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
    #[error("`{setting}` needs containers")]
    NeedsContainers {
        /// Which.
        setting: &'static str,
    },
    /// The results directory is inside the directory being evaluated.
    #[error("refusing to write results inside {directory}, the directory being evaluated")]
    ResultsInsideEvaluated {
        /// The directory being evaluated.
        directory: Utf8PathBuf,
    },
    /// A model script is not valid.
    #[error("invalid model script: {0}")]
    ModelScript(String),
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
    #[error("the gateway could not be started")]
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
    /// The output of an agent cannot be normalized.
    #[error("the output of `{agent}` cannot be normalized")]
    NoSession {
        /// The agent.
        agent: String,
        /// Agents whose output can be normalized.
        known: Vec<&'static str>,
    },
    /// A trial cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl CliError {
    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            CliError::Run(error)
            | CliError::Spec(SpecError::Run(error))
            | CliError::Check(CheckError::Run(error))
            | CliError::Rescore(RescoreError::Run(error)) => run_hint(error),
            CliError::NoTestCases { .. } => {
                Some("test cases end in .yaml, .yml or .json, and task directories contain a task.toml; create one with `proctor init` or `proctor task new`".to_owned())
            }
            CliError::NoBaseImage { shipped, .. } => Some(format!(
                "use an available image: proctor image build {shipped} --arg BASE=IMAGE"
            )),
            CliError::DirectoryExists { .. } => Some("choose another name".to_owned()),
            CliError::FailedStart(failed) => failed.hint.clone(),
            CliError::Exists { .. } => Some("use --force to overwrite it".to_owned()),
            CliError::NoSession { known, .. } => Some(format!("use one of: {}", known.join(", "))),
            CliError::NothingToRun => {
                Some("pass a test case or suite, or create one with `proctor init`".to_owned())
            }
            CliError::UnusedConfig => Some("only run, validate, list, report and rescore accept `--config`, and only once".to_owned()),
            CliError::RunInsteadOfTask { .. } => Some("use `proctor rescore` to judge the run again, `proctor report` to show it".to_owned()),
            CliError::SuiteAmongOthers { .. } => Some("run each suite with a separate command".to_owned()),
            CliError::NoMatch(error) => available(&error.known),
            CliError::Rescore(RescoreError::Running { .. })
            | CliError::Clean(CleanError::Running { .. }) => {
                Some("wait for it to finish, or stop it".to_owned())
            }
            CliError::NotOnCluster { .. } => {
                Some("set it in the suite, under `gateway`".to_owned())
            }
            CliError::NoTerminal => Some("omit --tui to print lines".to_owned()),
            CliError::NoRuns => Some("start one with `proctor run`".to_owned()),
            CliError::NoRun { .. } => Some("`proctor list runs` lists the available runs".to_owned()),
            CliError::NoEvents { .. } | CliError::Export(ExportError::NoRecord { .. }) => {
                Some("pass the directory of a trial, which contains `artifacts`".to_owned())
            }
            CliError::NoTrials(_) => Some("pass the directory of a run; `proctor list runs` lists the available runs".to_owned()),
            CliError::FromFormat { .. } => Some("use table, markdown or json, or report the whole run".to_owned()),
            CliError::Baseline(report::BaselineError::Exists { .. }) => Some("use --force to replace it".to_owned()),
            CliError::Baseline(report::BaselineError::Name { .. }) => {
                Some("use letters, digits, `.`, `_` and `-`".to_owned())
            }
            CliError::Pairing(report::PairingError::NoAgent { known, .. }) => available(known),
            CliError::Pairing(report::PairingError::NoSharedAgent { .. }) => {
                Some("select the agents with RUN:AGENT".to_owned())
            }
            CliError::ResultsInsideEvaluated { .. } => {
                Some("set `output_dir` to another directory".to_owned())
            }
            CliError::NeedsContainers { .. } => Some("use --sandbox docker".to_owned()),
            CliError::Export(ExportError::NoSession { .. }) => {
                Some("use --format otlp-json, which does not require a session".to_owned())
            }
            CliError::UnusedPrices => Some("add `gateway: {}` to the file".to_owned()),
            CliError::NoPrice { .. } => Some("add a price with `--prices FILE`, `gateway.prices` or `prices` in .youbencharc; see docs/gateway.md".to_owned()),
            CliError::NoUpstream => Some("set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass --env-file, --model-script or --replay-models".to_owned()),
            CliError::KeyName { .. } => Some("use unique names of letters, digits, `.`, `_` and `-`".to_owned()),
            CliError::Gateway(GatewayError::Listen { .. }) => Some("choose another address with --listen".to_owned()),
            CliError::LiteLlm { .. } => Some("remove it, or use Proctor's own gateway (`kind: proctor`)".to_owned()),
            CliError::Clean(_)
            | CliError::Spec(_)
            | CliError::SameName(_)
            | CliError::NeedsCluster { .. }
            | CliError::Export(_)
            | CliError::Rescore(_)
            | CliError::Check(_)
            | CliError::Config(_)
            | CliError::Io(_)
            | CliError::NotRescored { .. }
            | CliError::NotAnArgument { .. }
            | CliError::Prices(_)
            | CliError::Gateway(_)
            | CliError::NoResults { .. }
            | CliError::Baseline(_)
            | CliError::ModelScript(_) => None,
        }
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
            | CliError::Spec(SpecError::Run(RunError::Sandbox(_) | RunError::Gateway(_)))
            | CliError::Rescore(RescoreError::Run(_))
            | CliError::NoBaseImage { .. }
            | CliError::Gateway(GatewayError::Listen { .. } | GatewayError::Thread { .. }) => {
                Exit::Infrastructure
            }
            CliError::Run(RunError::Store(error)) if error.is_full() => Exit::Infrastructure,
            _ => Exit::Usage,
        }
    }
}
/// The values to choose from, if there are any.
fn available(known: &[String]) -> Option<String> {
    (!known.is_empty()).then(|| format!("available: {}", known.join(", ")))
}

/// A suggestion for a run that could not be started.
fn run_hint(error: &RunError) -> Option<String> {
    let hint = match error {
        RunError::Trial(error) => return error.hint(),
        RunError::Sandbox(error) => return error.hint(),
        RunError::Store(error) if error.is_full() => "free disk space, and continue with --resume",
        RunError::Changed { .. } => "resume with the same suite and options, or start a new run",
        RunError::Running { .. } => "wait for it to finish, or stop it",
        RunError::Slurm(_) => "`proctor doctor` shows whether Slurm is installed",
        RunError::LiteLlm(LiteLlmError::NotFound { .. }) => {
            "install it with: pip install 'litellm[proxy]', or set its path with `program`"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
