//! A task that has been read and checked.

use std::{sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::PromptSource;
use proctor_document::{ConfigError, Fault, Span};
use proctor_record::record::{AgentLimitsRecord, TaskKind};
use proctor_sandbox::Network;

use super::{Steps, TaskTools};
use crate::{
    config::{AgentSpec, Hooks, OutputLimits, ProgressLimits, Reference, Repo, Source, Unset},
    evaluate::{About, Evaluator, Verifier},
    workspace::{Checkout, Environment, Install},
};

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// The name in results and filters.
    pub name: String,
    /// A short description.
    pub description: String,
    /// The kind of its source.
    pub kind: TaskKind,
    /// The category, such as `greenfield/small`.
    pub category: Option<String>,
    /// Other names for filters: the repo, its last part, the folder's name.
    pub aliases: Vec<String>,
    /// Settings of its definition without effect, for the record.
    pub notes: Vec<String>,
    /// Variables of its definition that are not set. Without them it cannot run.
    pub unset: Vec<Unset>,
    /// The prompt; of a task with steps the first one.
    pub asks: Asks,
    /// Its steps, if it has more than one prompt. Each is a task with its own prompt, limits,
    /// solution and evaluators.
    pub steps: Option<Arc<Steps>>,
    /// Tools that every agent gets.
    pub tools: TaskTools,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// Limits of the agent.
    pub limits: TaskLimits,
    /// The source of the workspace.
    pub files: Files,
    /// The install command, run in the workspace before the agent, and in a clean copy before the
    /// tests.
    pub install: Option<Arc<Install>>,
    /// The evaluators; at least one.
    pub evaluators: Arc<[Evaluator]>,
    /// The patterns of `protect` and `solution_paths` of the task, as written.
    pub patterns: Vec<String>,
    /// The hooks before the agent starts and after judging.
    pub hooks: Hooks,
    /// The directory of single runs, if set.
    pub run_folder: RunFolder,
    /// The base of its relative paths.
    pub folder: Utf8PathBuf,
    /// The digest of its content: the SHA-256 of its file, or of all files of its directory.
    pub config_hash: String,
    /// The file that defines it, for error messages.
    pub source: Arc<Source>,
}

/// The prompt.
#[derive(Clone, Debug)]
pub enum Asks {
    /// A prompt of the task.
    Prompt(PromptSource),
    /// The agent section of a test case. Its faults matter only for agents that use it.
    Section(Box<AgentSpec>),
}

/// Limits of the agent.
#[derive(Clone, Copy, Debug)]
pub struct TaskLimits {
    /// The time limit.
    pub timeout: Option<Duration>,
    /// Whether the prompt contains the deadline.
    pub tells_deadline: bool,
    /// The maximum time without output.
    pub idle_timeout: Option<Duration>,
    /// When the agent is ended for making no progress.
    pub progress: ProgressLimits,
    /// Limits on the output.
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
    /// A directory with existing work: it is copied and never changed.
    Existing {
        /// The directory.
        directory: Utf8PathBuf,
        /// The base of its work: a branch, tag or commit. Default: HEAD, or nothing if it is not a
        /// git repository.
        base: Option<String>,
    },
}

impl Files {
    /// The source directory on this machine.
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

/// The directory of single runs of a task.
#[derive(Clone, Debug, Default)]
pub struct RunFolder {
    /// The parent of the run's folder.
    pub parent: Option<Utf8PathBuf>,
    /// The prefix of its name.
    pub name: Option<String>,
}

impl Task {
    /// Whether a judge of the task calls models itself.
    pub(crate) fn has_model_judge(&self) -> bool {
        self.evaluators.iter().any(Evaluator::asks_models)
    }

    /// The path of its definition, as given by the user.
    pub fn config_file(&self) -> &Utf8Path {
        self.source.path()
    }

    /// Fails if a variable of its definition is not set.
    pub fn check_variables(&self) -> Result<(), ConfigError> {
        let faults: Vec<Fault> = self.unset.iter().map(|it| it.fault.clone()).collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(self.source.error(faults))
        }
    }

    /// The prompt for any agent.
    pub fn prompt(&self) -> Result<PromptSource, ConfigError> {
        match &self.asks {
            Asks::Prompt(prompt) => Ok(prompt.clone()),
            Asks::Section(spec) => {
                let asked = spec.prompt(&self.folder);
                asked.map_err(|fault| self.source.error(vec![fault]))
            }
        }
    }

    /// The description of the task, for a judge.
    pub(crate) fn about(&self) -> About {
        About {
            description: self.description.clone(),
            prompt: match self.files {
                // There was no agent, so there is no prompt.
                Files::Existing { .. } => None,
                _ => self.prompt().ok(),
            },
        }
    }

    /// Questions to its author about files whose owner is not defined. Scripts and recipes are read if the repo is on this
    /// machine.
    pub fn questions(&self) -> Vec<String> {
        let read = |path: &str| match &self.files {
            Files::Repo(checkout) => match &checkout.repo {
                Repo::Path(repo) => fs_err::read_to_string(repo.join(path)).ok(),
                Repo::Url(_) => None,
            },
            Files::Image(_) | Files::Existing { .. } => None,
        };
        let evaluators = self.evaluators.iter();
        evaluators.flat_map(|it| it.questions(read)).collect()
    }

    /// The container, if the task has one.
    pub fn environment(&self) -> Option<&Environment> {
        match &self.files {
            Files::Image(environment) => Some(environment),
            Files::Repo(_) | Files::Existing { .. } => None,
        }
    }

    /// The verifier, if the task is in Harbor's format.
    pub fn verifier(&self) -> Option<&Verifier> {
        self.evaluators.iter().find_map(Evaluator::verifier)
    }

    /// The source of its files, for the record.
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

    /// Whether a filter with `name` selects this task.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Why it requires a container.
    pub fn needs_container(&self) -> Option<ConfigError> {
        if self.evaluators.iter().any(|one| one.image().is_some()) {
            let message = format!("`validation_image` of {} requires containers", self.name);
            let fault = Fault::new(Span::default(), message);
            let fault = fault.with_hint("use `sandbox: docker` or `--sandbox docker`");
            return Some(self.source.error(vec![fault]));
        }
        self.environment()
            .and_then(|environment| environment.local.as_ref().err().cloned())
    }

    /// Properties of the task's environment that are lost without a container.
    pub fn lost_isolation(&self) -> Vec<String> {
        let Some(environment) = self.environment() else {
            return Vec::new();
        };
        let mut lost = vec![
            "the agent ran on this machine as you, not in the task's image".to_owned(),
            "processes of the same user could access the verifier".to_owned(),
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
            lost.push(format!("no limits on {}", unlimited.join(", ")));
        }
        match &environment.network {
            None | Some(Network::Open) => {}
            Some(_) => lost.push("the network was not restricted".to_owned()),
        }
        let verifier = self.verifier().and_then(|verifier| verifier.user.as_ref());
        if environment.user.is_some() || verifier.is_some() {
            lost.push("the task's users were not used".to_owned());
        }
        lost
    }
}
