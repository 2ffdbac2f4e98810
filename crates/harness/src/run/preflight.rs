//! Checks a plan without running it: finds the input that its trials would refuse.

use std::collections::BTreeSet;

use camino::Utf8Path;
use proctor_agents::agent::{PromptFileError, PromptSource};
use proctor_sandbox::{SandboxKind, host::Host};

use crate::{
    config::{Execution, FileSource, Reference, Repo},
    plan::TrialPlan,
    task::{Files, Task},
    trial::TrialError,
    workspace::{
        Checkout,
        source::{Source, SourceError},
    },
};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Input that trials would refuse, each once.
    pub errors: Vec<TrialError>,
    /// Programs that are missing on this machine, each once.
    pub notes: Vec<String>,
}

impl Preflight {
    /// Checks the trials of a plan. Remote repositories are not fetched.
    pub async fn of(plans: &[TrialPlan], execution: &Execution, host: &Host) -> Preflight {
        let mut found = Preflight::default();
        let mut opened = BTreeSet::new();
        for plan in plans {
            let task = &plan.task;
            if execution.sandbox == SandboxKind::Docker {
                found.check_image(plan, execution);
            } else {
                found.check_program(plan, host);
            }
            if plan.agent.wants_reference() && task.reference.is_none() {
                found.add(TrialError::Launch {
                    config_file: task.config_file().to_owned(),
                    problem: proctor_agents::no_reference(),
                });
            }
            found.check_launch(plan, execution);
            let Files::Repo(checkout) = &task.files else {
                continue;
            };
            for (revision, path) in git_files(plan) {
                let checkout = Checkout {
                    branch: Some(revision.clone()),
                    commit: None,
                    ..checkout.clone()
                };
                let key = key_of(task, &checkout, Some(path));
                if opened.insert(key)
                    && let Err(error) = check_source(plan, &checkout, path, host).await
                {
                    found.add(error);
                }
            }
            let checkout = &plan.treatment.start(checkout);
            let file = prompt_in_workspace(plan);
            if opened.insert(key_of(task, checkout, file))
                && let Err(error) = check_files(task, checkout, file, host).await
            {
                found.add(error);
            }
        }
        found
    }

    fn check_image(&mut self, plan: &TrialPlan, execution: &Execution) {
        let named = plan.agent.image().or(execution.image.as_deref());
        if plan.task.environment().is_none() && named.is_none() {
            self.add(TrialError::NoImage {
                config_file: plan.task.config_file().to_owned(),
            });
        }
    }

    /// Finds a prompt that the agent would run as a command, and settings that bypass the gateway.
    fn check_launch(&mut self, plan: &TrialPlan, execution: &Execution) {
        let has_gateway = plan.gateway.is_some() || execution.gateway.is_some();
        let prompt = match plan.agent.prompt() {
            Some(PromptSource::Text(text)) => plan.treatment.prompt.apply(text),
            // The workspace has it.
            Some(PromptSource::WorkspaceFile(_)) | None => String::new(),
        };
        if let Err(problem) = plan.agent.check(&prompt, has_gateway) {
            self.add(TrialError::Launch {
                config_file: plan.task.config_file().to_owned(),
                problem,
            });
        }
    }

    /// Notes that an agent's CLI is missing. This is not an error: the file can be valid for another machine.
    fn check_program(&mut self, plan: &TrialPlan, host: &Host) {
        let Some(cli) = plan.adapter.cli().filter(|_| plan.package.is_none()) else {
            return;
        };
        if host.find_program(cli.program).is_none() {
            let note = cli.not_installed();
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn add(&mut self, error: TrialError) {
        let text = error.to_string();
        if !self.errors.iter().any(|known| known.to_string() == text) {
            self.errors.push(error);
        }
    }
}

/// Identifies what is checked: each file of each revision once for each task.
fn key_of(task: &Task, checkout: &Checkout, file: Option<&Utf8Path>) -> [Option<String>; 4] {
    [
        Some(checkout.repo.to_string()),
        checkout.revision().map(str::to_owned),
        file.map(ToString::to_string),
        Some(task.config_file().to_string()),
    ]
}

/// The revisions and paths of the agent's files that are read from the task's repository.
fn git_files(plan: &TrialPlan) -> impl Iterator<Item = (&String, &Utf8Path)> {
    let sources = plan.treatment.files.values();
    sources.filter_map(|source| match source {
        FileSource::Git { revision, path } => Some((revision, path.as_path())),
        _ => None,
    })
}

/// Checks that a revision of the repository has a file of the agent.
async fn check_source(
    plan: &TrialPlan,
    checkout: &Checkout,
    path: &Utf8Path,
    host: &Host,
) -> Result<(), TrialError> {
    match check_files(&plan.task, checkout, Some(path), host).await {
        Err(TrialError::Prompt { .. }) => {
            let revision = checkout.revision().unwrap_or_default();
            Err(TrialError::Treatment {
                agent: plan.name.clone(),
                task: plan.task.name.clone(),
                problem: format!("`{path}` does not exist at `{revision}`"),
            })
        }
        checked => checked,
    }
}

/// The prompt file that the agent's workspace must have. Hooks and installations may create it.
fn prompt_in_workspace(plan: &TrialPlan) -> Option<&Utf8Path> {
    let task = &plan.task;
    let is_made = !task.hooks.pre_execution.is_empty() || task.install.is_some();
    match plan.agent.prompt() {
        Some(PromptSource::WorkspaceFile(file)) if !is_made => Some(file),
        _ => None,
    }
}

/// Checks the revisions of a local repository, and that it has the prompt file.
async fn check_files(
    task: &Task,
    checkout: &Checkout,
    prompt: Option<&Utf8Path>,
    host: &Host,
) -> Result<(), TrialError> {
    let is_remote = |url: &str| !url.starts_with("file://");
    if matches!(&checkout.repo, Repo::Url(url) if is_remote(url)) {
        return Ok(());
    }
    let (revision, history) = (checkout.revision(), checkout.history);
    let opened = async {
        let source = Source::open(&checkout.repo, revision, history, host, &host.temp).await?;
        if let Some(Reference::Branch(branch)) = &task.reference {
            source.tree_of(branch).await?;
        }
        Ok(source)
    };
    let source: Result<Source, SourceError> = opened.await;
    let source = match source {
        Ok(source) => source,
        Err(problem) if problem.is_usage() => {
            return Err(TrialError::Source {
                config_file: task.config_file().to_owned(),
                problem,
            });
        }
        // A failure of git says nothing about the file.
        Err(_) => return Ok(()),
    };
    match prompt {
        Some(file) if !source.has_file(file).await => Err(TrialError::Prompt {
            config_file: task.config_file().to_owned(),
            problem: PromptFileError::missing(file),
        }),
        _ => Ok(()),
    }
}
