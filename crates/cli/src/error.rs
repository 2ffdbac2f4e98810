//! What goes wrong before, beside or instead of a run, and the exit codes.

use camino::Utf8PathBuf;
use proctor_gateway::GatewayError;
use proctor_harness::{
    check::CheckError,
    clean::CleanError,
    config::ConfigError,
    export::ExportError,
    litellm::LiteLlmError,
    plan::{NoMatch, SameName},
    record::TrialStatus,
    report,
    rescore::RescoreError,
    run::{FailedStart, RunError},
    sandbox::docker::EngineError,
    spec::SpecError,
};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All passed.
    Success,
    /// Something failed.
    Failed,
    /// Usage or config error.
    Usage,
    /// Infrastructure: nothing to judge.
    Infrastructure,
    /// Another process has the trial.
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

/// Something that stops a command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Config files are wrong; each of them is shown.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// A folder holds no test case.
    #[error("there is no test case in {folder}")]
    NoTestCases {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// No path was given and there is no suite here.
    #[error(
        "there is nothing to run: no path was given, and there is neither a proctor.yaml nor a thunderdome.yaml here"
    )]
    NothingToRun,
    /// A suite was named twice, or for a command that reads none.
    #[error("--config before the command has no effect here")]
    IdleConfig,
    /// A run was given where a suite belongs.
    #[error("{folder} holds the results of a run, not tasks")]
    ResultsOfARun {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// Some of several runs could not be judged again; each was reported.
    #[error("{count} of the runs could not be judged again")]
    NotRescored {
        /// How many.
        count: usize,
    },
    /// A suite was named together with other paths.
    #[error("{suite} is a suite, and a suite runs alone")]
    SuiteAmongOthers {
        /// The suite.
        suite: Utf8PathBuf,
    },
    /// Two test cases would have the same trials.
    #[error(transparent)]
    SameName(#[from] SameName),
    /// A filter names what is not there.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// An option does not go with LiteLLM.
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
    /// An option means nothing without a cluster.
    #[error("{option} does nothing: this suite does not run on a cluster")]
    NeedsCluster {
        /// Which.
        option: &'static str,
    },
    /// An option does not reach the nodes of a cluster.
    #[error("{option} does not reach the nodes of a cluster")]
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
    /// The image that another one is built on is missing.
    #[error("the engine does not have the base image {base:?} and could not pull it")]
    NoBaseImage {
        /// Its name.
        base: String,
        /// The image that was to be built.
        shipped: &'static str,
        /// What the engine says.
        source: EngineError,
    },
    /// The live view was asked for where it cannot be.
    #[error("--tui needs a terminal")]
    NoTerminal,
    /// A run is not there.
    #[error("there is no run {run}")]
    NoRun {
        /// As it was named.
        run: Utf8PathBuf,
    },
    /// A folder holds no trial.
    #[error(transparent)]
    NoTrials(#[from] report::NoTrials),
    /// A file is no result.
    #[error("{path} cannot be reported")]
    NoResults {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        source: report::NoResults,
    },
    /// A single result has no such report.
    #[error("a results.json cannot be reported as {format}")]
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
    /// A trial left no events.
    #[error("there is no events.ndjson in {trial}")]
    NoEvents {
        /// Its folder.
        trial: Utf8PathBuf,
    },
    /// Something could not be cleaned.
    #[error(transparent)]
    Clean(#[from] CleanError),
    /// An argument of a build is not one.
    #[error("`{text}` is not written as NAME=VALUE")]
    NotAnArgument {
        /// As given.
        text: String,
    },
    /// A setting that does nothing would be a lie.
    #[error("`{setting}` needs containers")]
    NeedsContainers {
        /// Which.
        setting: &'static str,
    },
    /// Results would lie in what is judged.
    #[error("the results would lie in {directory}, which is not to be touched")]
    NoPlaceForResults {
        /// The directory that is judged.
        directory: Utf8PathBuf,
    },
    /// The script of a model cannot be used.
    #[error("the model's script cannot be read: {0}")]
    ModelScript(String),
    /// A file with prices cannot be used.
    #[error("the prices cannot be read: {0}")]
    Prices(String),
    /// Prices without a gateway would do nothing.
    #[error("--prices does nothing without a gateway")]
    IdlePrices,
    /// A model without a price.
    #[error("there is no price for `{model}`")]
    NoPrice {
        /// The model.
        model: String,
    },
    /// A gateway that nobody would answer.
    #[error(
        "the gateway has nobody to ask: no provider's key is set, and there is neither a script nor a recording"
    )]
    NobodyToAsk,
    /// A name that no key can have, or that two would have.
    #[error("`{name}` cannot be the name of a key")]
    KeyName {
        /// As given.
        name: String,
    },
    /// The gateway cannot be started.
    #[error("the gateway could not be started")]
    Gateway(#[from] GatewayError),
    /// A file is in the way.
    #[error("{path} already exists")]
    Exists {
        /// The file.
        path: Utf8PathBuf,
    },
    /// Something is where a new folder is to be made.
    #[error("{path} already exists")]
    InTheWay {
        /// The path.
        path: Utf8PathBuf,
    },
    /// Trials were given something bad; the others ran.
    #[error("{agent} on {task}, trial {trial}, could not be started: {message}", agent = .0.agent, task = .0.task, trial = .0.trial, message = .0.message)]
    FailedStart(FailedStart),
    /// An agent's output cannot be read.
    #[error("{agent} has no output that could be normalised")]
    NoSession {
        /// The agent.
        agent: String,
        /// Those that have.
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
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CliError::Run(error)
            | CliError::Spec(SpecError::Run(error))
            | CliError::Check(CheckError::Run(error))
            | CliError::Rescore(RescoreError::Run(error)) => run_hint(error),
            CliError::NoTestCases { .. } => {
                Some("test cases end in .yaml, .yml or .json, and a task's folder has a task.toml; `proctor init` and `proctor task new` write one".to_owned())
            }
            CliError::NoBaseImage { shipped, .. } => Some(format!(
                "name an image that the engine has: proctor image build {shipped} --arg BASE=IMAGE"
            )),
            CliError::InTheWay { .. } => Some("choose another name".to_owned()),
            CliError::FailedStart(failed) => failed.hint.clone(),
            CliError::Exists { .. } => Some("use --force to write over it".to_owned()),
            CliError::NoSession { known, .. } => Some(format!("use one of: {}", known.join(", "))),
            CliError::NothingToRun => {
                Some("name a test case or a suite (`--config FILE`), or write one with `proctor init`".to_owned())
            }
            CliError::IdleConfig => Some("run, validate, list, report and rescore take it, once".to_owned()),
            CliError::ResultsOfARun { .. } => Some("`rescore` judges it again, `report` shows it".to_owned()),
            CliError::SuiteAmongOthers { .. } => Some("run each suite with a command of its own".to_owned()),
            CliError::NoMatch(error) => Some(format!("there are: {}", error.known.join(", "))),
            CliError::Rescore(RescoreError::Running { .. })
            | CliError::Clean(CleanError::Running { .. }) => {
                Some("wait for it to end, or end it".to_owned())
            }
            CliError::NotOnCluster { .. } => {
                Some("write it into the suite, under `gateway`".to_owned())
            }
            CliError::NoTerminal => Some("leave --tui out to see lines".to_owned()),
            CliError::NoRun { .. } => Some("`proctor list runs` shows those on record".to_owned()),
            CliError::NoEvents { .. } | CliError::Export(ExportError::NoRecord { .. }) => {
                Some("name the folder of a trial, the one that `artifacts` lies in".to_owned())
            }
            CliError::NoTrials(_) => Some("name the folder of a run; `proctor list runs` shows those on record".to_owned()),
            CliError::FromFormat { .. } => Some("use table, markdown or json, or report the run that it lies in".to_owned()),
            CliError::Baseline(report::BaselineError::Exists { .. }) => Some("use --force to replace it".to_owned()),
            CliError::Baseline(report::BaselineError::Name { .. }) => {
                Some("use letters, digits, `.`, `_` and `-`".to_owned())
            }
            CliError::Pairing(report::PairingError::NoAgent { known, .. }) => {
                Some(format!("there are: {}", known.join(", ")))
            }
            CliError::Pairing(report::PairingError::NoSharedAgent { .. }) => {
                Some("name the agents: RUN:AGENT".to_owned())
            }
            CliError::NoPlaceForResults { .. } => {
                Some("name a folder elsewhere with `output_dir`".to_owned())
            }
            CliError::NeedsContainers { .. } => Some("use --sandbox docker".to_owned()),
            CliError::Export(ExportError::NoSession { .. }) => {
                Some("use --format otlp-json, which needs no session".to_owned())
            }
            CliError::IdlePrices => Some("add `gateway: {}` to the file".to_owned()),
            CliError::NoPrice { .. } => Some("write one into a file and name that with `--prices FILE`, `gateway.prices` or `prices` in .youbencharc; see docs/gateway.md".to_owned()),
            CliError::NobodyToAsk => Some("set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or use --env-file, --model-script or --replay-models".to_owned()),
            CliError::KeyName { .. } => Some("use each name once, with letters, digits, `.`, `_` and `-`".to_owned()),
            CliError::Gateway(GatewayError::Listen { .. }) => Some("choose another address with --listen".to_owned()),
            CliError::LiteLlm { .. } => Some("leave it out, or use Proctor's own gateway (`kind: proctor`)".to_owned()),
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
/// What to do about a suite that could not be run.
fn run_hint(error: &RunError) -> Option<String> {
    let hint = match error {
        RunError::Trial(error) => return error.hint(),
        RunError::Sandbox(error) => return error.hint(),
        RunError::Store(error) if error.is_full() => "make room, and go on with --resume",
        RunError::Changed { .. } => "resume with the same suite and options, or start a new run",
        RunError::Running { .. } => "wait for it to end, or end it",
        RunError::Slurm(_) => "`proctor doctor` tells whether Slurm is there",
        RunError::LiteLlm(LiteLlmError::NotFound { .. }) => {
            "install it with: pip install 'litellm[proxy]', or name it with `program`"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
