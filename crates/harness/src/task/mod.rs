//! A task: what is asked, in which environment, and how it is judged. Tasks come from three
//! sources (a Harbor folder, a git repo at a tag, a test case) and are one type from here on;
//! a `Task` cannot be wrong any more.

pub mod case;
mod dockerfile;
pub mod existing;
pub mod find;
pub mod harbor;
mod harbor_reader;
mod harbor_toml;
mod recipe;
pub mod repo_task;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::Readiness;
use serde::{Deserialize, Serialize};

pub use self::recipe::Recipe;
pub use crate::config::{Reference, Solution};
use crate::{
    agent::PromptSource,
    config::{AgentSpec, History, Hooks, OutputLimits, ProgressLimits, Repo, Source},
    evaluate::Evaluator,
    record::{AgentLimitsRecord, TaskKind},
};
use proctor_document::{ConfigError, Fault, Span};

/// The prompt and the judging of a task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name, in results and filters.
    pub name: String,
    /// Its description, in a line or two.
    pub description: String,
    /// Where it comes from.
    pub kind: TaskKind,
    /// What it belongs to, such as `greenfield/small`.
    pub category: Option<String>,
    /// Other names that filters may use: the repo, its last part, the folder's name.
    pub aliases: Vec<String>,
    /// Settings of its definition that have no effect, for the record.
    pub notes: Vec<String>,
    /// The prompt.
    pub asks: Asks,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// Limits of the agent.
    pub limits: TaskLimits,
    /// The source of the workspace.
    pub files: Files,
    /// Run in the workspace before the agent, and in a clean copy before the tests.
    pub install: Option<Arc<Install>>,
    /// How the work is judged; at least one.
    pub evaluators: Arc<[Evaluator]>,
    /// The hooks before the agent starts and after judging.
    pub hooks: Hooks,
    /// Where single runs of it go, when it says so.
    pub run_folder: RunFolder,
    /// The folder that its paths start from.
    pub folder: Utf8PathBuf,
    /// The digest of its content: the SHA-256 of its file, or of all files of its directory.
    pub config_hash: String,
    /// The file that defines it; complaints are made with it.
    pub source: Arc<Source>,
}

/// The prompt.
#[derive(Clone, Debug)]
pub enum Asks {
    /// This.
    Prompt(PromptSource),
    /// The agent section of a test case. Its faults matter only for agents that use it.
    Section(Box<AgentSpec>),
}

/// Limits of the agent.
#[derive(Clone, Copy, Debug)]
pub struct TaskLimits {
    /// Its time.
    pub timeout: Option<Duration>,
    /// Whether the prompt says when its time is over.
    pub tells_deadline: bool,
    /// Its longest silence.
    pub idle_timeout: Option<Duration>,
    /// When it is ended for not getting on.
    pub progress: ProgressLimits,
    /// How much of its output is kept.
    pub output: OutputLimits,
}

impl From<&TaskLimits> for AgentLimitsRecord {
    fn from(limits: &TaskLimits) -> AgentLimitsRecord {
        let millis = |limit: Option<Duration>| {
            limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
        };
        AgentLimitsRecord {
            timeout_ms: millis(limits.timeout),
            idle_timeout_ms: millis(limits.idle_timeout),
            no_progress_timeout_ms: millis(limits.progress.quiet),
            loop_limit: limits.progress.repeats,
        }
    }
}

/// The source of the workspace.
#[derive(Clone, Debug)]
pub enum Files {
    /// A repo at a revision.
    Repo(Checkout),
    /// The content of the image's working directory.
    Image(Box<Environment>),
    /// A directory with work that is done already: it is copied, and never touched.
    Existing {
        /// The directory.
        directory: Utf8PathBuf,
        /// The base of its work: a branch, tag or commit; HEAD by default, and nothing if it is not
        /// a git repository.
        base: Option<String>,
    },
}

impl Files {
    /// The folder of this machine that they come from.
    pub fn folder(&self) -> Option<&Utf8Path> {
        match self {
            Files::Repo(Checkout {
                repo: Repo::Path(path),
                ..
            }) => Some(path),
            Files::Existing { directory, .. } => Some(directory),
            Files::Repo(_) | Files::Image(_) => None,
        }
    }
}

/// The repository and revision to check out; HEAD if neither branch nor commit is given.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The repo.
    pub repo: Repo,
    /// The branch or tag, as written.
    pub branch: Option<String>,
    /// The commit, as written.
    pub commit: Option<String>,
    /// The commits before it that the agent sees.
    pub history: History,
}

impl Checkout {
    /// The revision for git.
    pub fn revision(&self) -> Option<&str> {
        self.commit.as_deref().or(self.branch.as_deref())
    }
}

/// The container that a task is done in.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its image.
    pub image: Image,
    /// How long building the image may take.
    pub build_timeout: Duration,
    /// Processors.
    pub cpus: Option<f64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Disk in MiB.
    pub storage_mb: Option<u64>,
    /// Processes.
    pub pids: Option<u64>,
    /// Where commands run; the image's own working directory when unset.
    pub workdir: Option<Utf8PathBuf>,
    /// Variables for agent and verifier, as written.
    pub env: BTreeMap<String, String>,
    /// The user that the agent runs as; the image's own when unset.
    pub user: Option<String>,
    /// The agent's network; `public` if unset, as in Harbor.
    pub network: Option<Network>,
    /// When it is ready for the agent.
    pub healthcheck: Option<Healthcheck>,
    /// How its workspace is made without a container, or why it cannot be.
    pub local: Result<Arc<Recipe>, ConfigError>,
}

impl Environment {
    /// Its variables where no container has those of the Dockerfile.
    pub fn local_env(&self) -> BTreeMap<String, String> {
        let recipe = self.local.as_ref().ok();
        let mut env = recipe.map_or_else(BTreeMap::new, |recipe| recipe.env.clone());
        env.extend(self.env.clone());
        env
    }
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// By tag or digest.
    Named(String),
    /// Built from a folder with a Dockerfile.
    Build {
        /// The build context.
        context: Utf8PathBuf,
        /// The Dockerfile in it.
        dockerfile: Utf8PathBuf,
    },
}

/// The network access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything.
    Public,
    /// Nothing.
    NoNetwork,
    /// These hosts (names, `*.wild`, addresses, CIDR), as written.
    Allowlist(Vec<String>),
}

/// When an environment is ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Healthcheck {
    /// Succeeds when it is.
    pub command: String,
    /// The pause between two tries.
    pub interval: Duration,
    /// How long one try may take.
    pub timeout: Duration,
    /// Failures in this time after the start do not count.
    pub start_period: Duration,
    /// The pause between two tries in that time.
    pub start_interval: Duration,
    /// How many failures in a row mean that it will never be.
    pub retries: u32,
}

impl From<&Healthcheck> for Readiness {
    fn from(check: &Healthcheck) -> Readiness {
        Readiness {
            argv: ["sh", "-c", &check.command].map(str::to_owned).into(),
            interval: check.interval,
            timeout: check.timeout,
            start_period: check.start_period,
            start_interval: check.start_interval,
            retries: check.retries,
        }
    }
}

/// Where the verifier of a Harbor task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifierMode {
    /// In the environment that the agent worked in.
    Shared,
    /// In a fresh one.
    Separate,
}

impl VerifierMode {
    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            VerifierMode::Shared => "shared",
            VerifierMode::Separate => "separate",
        }
    }
}

/// How a Harbor task is judged: a script that leaves a reward in a file.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Where it runs.
    pub mode: VerifierMode,
    /// The folder that it is in, with all that it needs. The script is `test.sh`.
    pub tests: Utf8PathBuf,
    /// Its own variables.
    pub env: BTreeMap<String, String>,
    /// The variables of the agent's environment, for a verifier without a container.
    pub local_env: BTreeMap<String, String>,
    /// The user that it runs as.
    pub user: Option<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Its network; the agent's if unset.
    pub network: Option<Network>,
    /// The environment of a separate verifier; the agent's when it has none of its own.
    pub environment: Option<Box<Environment>>,
    /// Commands that are run in the agent's environment before it.
    pub collect: Vec<Collect>,
}

/// A command that gathers something in the agent's environment for the verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Collect {
    /// The command.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// The user that it runs as.
    pub user: Option<String>,
}

/// A command that makes a workspace ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// A line for the shell.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether the agent starts also when it fails. The tests need it in any case.
    pub is_optional: bool,
}

/// Where single runs of a task go.
#[derive(Clone, Debug, Default)]
pub struct RunFolder {
    /// The parent of the run's folder.
    pub parent: Option<Utf8PathBuf>,
    /// The first part of its name.
    pub name: Option<String>,
}

impl Task {
    /// Whether a judge of the task calls models itself.
    pub(crate) fn has_model_judge(&self) -> bool {
        self.evaluators.iter().any(Evaluator::asks_models)
    }

    /// The file that defines it, as the user named it.
    pub fn config_file(&self) -> &Utf8Path {
        self.source.path()
    }

    /// The prompt, for any agent.
    pub fn prompt(&self) -> Result<PromptSource, ConfigError> {
        match &self.asks {
            Asks::Prompt(prompt) => Ok(prompt.clone()),
            Asks::Section(spec) => {
                let asked = spec.prompt(&self.folder);
                asked.map_err(|fault| self.source.error(vec![fault]))
            }
        }
    }

    /// The container that it is done in, for tasks that have one.
    pub fn environment(&self) -> Option<&Environment> {
        match &self.files {
            Files::Image(environment) => Some(environment),
            Files::Repo(_) | Files::Existing { .. } => None,
        }
    }

    /// How it is judged, for tasks of Harbor's kind.
    pub fn verifier(&self) -> Option<&Verifier> {
        self.evaluators.iter().find_map(Evaluator::verifier)
    }

    /// Where its files come from, for the record.
    pub fn origin(&self) -> String {
        match &self.files {
            Files::Repo(checkout) => checkout.repo.to_string(),
            Files::Image(_) => self.folder.to_string(),
            Files::Existing { directory, .. } => directory.to_string(),
        }
    }

    /// The branch or tag that it starts from, as written.
    pub fn branch(&self) -> Option<&str> {
        match &self.files {
            Files::Repo(checkout) => checkout.branch.as_deref(),
            Files::Existing { base, .. } => base.as_deref(),
            Files::Image(_) => None,
        }
    }

    /// Whether a filter that says `name` means this task.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Why it cannot be done without a container.
    pub fn needs_container(&self) -> Option<ConfigError> {
        if self.evaluators.iter().any(|one| one.image().is_some()) {
            let message = format!("`validation_image` of {} needs containers", self.name);
            let fault = Fault::new(Span::default(), message);
            let fault = fault.with_hint("use `sandbox: docker` or `--sandbox docker`");
            return Some(self.source.error(vec![fault]));
        }
        self.environment()
            .and_then(|environment| environment.local.as_ref().err().cloned())
    }

    /// Properties of the task's environment that do not apply without a container.
    pub fn lost_isolation(&self) -> Vec<String> {
        let Some(environment) = self.environment() else {
            return Vec::new();
        };
        let mut lost = vec![
            "the agent ran on this machine as you, not in the task's image".to_owned(),
            "the verifier could be reached by processes of the same user".to_owned(),
        ];
        let limits = [
            ("cpus", environment.cpus.is_some()),
            ("memory", environment.memory_mb.is_some()),
            ("storage", environment.storage_mb.is_some()),
        ];
        let unlimited: Vec<&str> = limits
            .iter()
            .filter_map(|(name, is_set)| is_set.then_some(*name))
            .collect();
        if !unlimited.is_empty() {
            lost.push(format!("no limit of {}", unlimited.join(", ")));
        }
        match &environment.network {
            None | Some(Network::Public) => {}
            Some(_) => lost.push("the network was not restricted".to_owned()),
        }
        let verifier = self.verifier().and_then(|verifier| verifier.user.as_ref());
        if environment.user.is_some() || verifier.is_some() {
            lost.push("the task's users were not used".to_owned());
        }
        lost
    }
}
