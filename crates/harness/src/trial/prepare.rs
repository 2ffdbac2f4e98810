//! Preparing a trial: the CLI, its credentials, the workspace, the prompt, the command to run.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::{Digest, Sha256};

use super::{Ready, Trial, TrialError, chain};
use crate::{
    agent::{Authentication, Installed, LaunchContext},
    area::Area,
    availability,
    config::{PromptSource, Reference, read_workspace_prompt},
    event::Phase,
    outcome::Outcome,
    socket::Socket,
    source::{Source, SourceError},
    store,
    workspace::{Workspace, WorkspaceError},
};

/// Why the agent did not get to run.
pub(super) enum NotRun {
    /// The input is bad.
    Usage(TrialError),
    /// The world is.
    Infrastructure {
        outcome: Outcome,
        code: &'static str,
        message: String,
    },
}

impl From<TrialError> for NotRun {
    fn from(error: TrialError) -> NotRun {
        NotRun::Usage(error)
    }
}

impl From<std::io::Error> for NotRun {
    fn from(error: std::io::Error) -> NotRun {
        NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "SANDBOX_FAILED",
            message: error.to_string(),
        }
    }
}

impl Trial<'_> {
    /// Everything up to the point where the agent can be started.
    pub(super) async fn prepare(&mut self) -> Result<Ready, NotRun> {
        self.phase(Phase::Preparing);
        let area = Arc::new(Area::create(&self.context.host.temp)?);
        self.area = Some(Arc::clone(&area));
        let installed = self.installed().await?;
        let env = self.environment(&area)?;
        self.authenticate(installed.as_ref(), &env, &area).await?;
        let path = self.make_workspace(&area).await?;
        let prompt = self.prompt(&path)?;
        let reference = self.reference().await?;
        let definitions = self.definitions(&path);
        let mut socket = None;
        if self.plan.agent.wants_socket() {
            socket = Some(Socket::listen().await?);
        }
        let launch = self
            .plan
            .agent
            .launch(&LaunchContext {
                workspace: &path,
                home: &area.home,
                scratch: &area.scratch,
                prompt: &prompt,
                cli: installed.as_ref(),
                env: &env,
                is_root: self.context.host.is_root,
                socket: socket.as_ref().map(|socket| socket.address),
                reference: reference.as_deref(),
                definitions: &definitions,
                endpoint: None,
            })
            .map_err(|problem| TrialError::Launch {
                config_file: self.plan.case.config_file().to_owned(),
                problem,
            })?;
        for (path, bytes) in &launch.files {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            fs::write(path, bytes)?;
        }
        Ok(Ready {
            launch,
            socket,
            workspace: path,
        })
    }

    /// The agent's CLI, or the outcome that says how to get it.
    async fn installed(&mut self) -> Result<Option<Installed>, NotRun> {
        let Some(cli) = self.plan.adapter.cli() else {
            return Ok(None);
        };
        let Some(installed) = availability::installed(cli, self.context.host).await else {
            return Err(NotRun::Infrastructure {
                outcome: Outcome::NotInstalled,
                code: cli.not_found_code,
                message: format!(
                    "`{}` is not installed, or not on PATH; {}",
                    cli.program, cli.install_hint
                ),
            });
        };
        self.record.agent.version.clone_from(&installed.version);
        self.record.agent.program = Some(installed.path.to_string());
        Ok(Some(installed))
    }

    /// The environment that the agent gets, its credentials included.
    fn environment(&mut self, area: &Area) -> Result<BTreeMap<String, String>, NotRun> {
        let host = self.context.host;
        if self.plan.agent.inherits_user() {
            return Ok(host.env.clone());
        }
        let mut env = host.clean_env(&area.home);
        let Some(cli) = self.plan.adapter.cli() else {
            return Ok(env);
        };
        env.extend(availability::shared_caches(cli, host));
        for name in cli.credential_env {
            if let Some(value) = host.env.get(*name) {
                env.insert((*name).to_owned(), value.clone());
            }
        }
        let mut known = env.clone();
        known.extend(self.plan.agent.env().clone());
        let has_key = matches!(
            self.plan.adapter.authentication(&known, None),
            Authentication::Found(_)
        );
        if let Some(home) = host.home.as_ref().filter(|_| !has_key) {
            for file in cli.credential_files {
                area.bring_in(&home.join(file), file)?;
            }
        }
        Ok(env)
    }

    async fn authenticate(
        &mut self,
        installed: Option<&Installed>,
        env: &BTreeMap<String, String>,
        area: &Area,
    ) -> Result<(), NotRun> {
        let (Some(cli), Some(installed)) = (self.plan.adapter.cli(), installed) else {
            return Ok(());
        };
        let mut env = env.clone();
        env.extend(self.plan.agent.env().clone());
        let mut found = self.plan.adapter.authentication(&env, None);
        if found == Authentication::Unknown {
            let check = availability::auth_check(cli, installed, &env, &area.home).await;
            found = self.plan.adapter.authentication(&env, check.as_ref());
        }
        match found {
            Authentication::Found(source) => self.record.agent.credentials = Some(source),
            Authentication::NotNeeded | Authentication::Unknown => {}
            Authentication::Missing => {
                return Err(NotRun::Infrastructure {
                    outcome: Outcome::Auth,
                    code: cli.auth_code,
                    message: format!(
                        "authentication failed: `{}` has no API key and no login; {}",
                        cli.program, cli.login_hint
                    ),
                });
            }
        }
        Ok(())
    }

    async fn make_workspace(&mut self, area: &Area) -> Result<Utf8PathBuf, NotRun> {
        let case = &self.plan.case;
        let (source, is_dirty) = tokio::join!(
            Source::open(case, self.context.host, &self.private),
            Source::has_uncommitted_changes(case, self.context.host),
        );
        let source = source.map_err(|error| self.source_failed(error))?;
        if is_dirty {
            let note = "the repo has uncommitted changes; the agent started from its last commit";
            self.record.notes.push(note.to_owned());
        }
        let path = area.path.join("src-modified");
        let made = Workspace::create(source, self.context.host, &path, &self.private)
            .await
            .map_err(|error| workspace_failed(&error))?;
        self.record.task.commit.clone_from(&made.source_commit);
        self.record.task.tree = Some(made.base_tree.clone());
        self.workspace = Some(made);
        Ok(path)
    }

    /// A repo that is not what the test case says is bad input; one out of reach is not.
    fn source_failed(&self, source: SourceError) -> NotRun {
        if !source.is_usage() {
            return workspace_failed(&source.into());
        }
        NotRun::Usage(TrialError::Source {
            config_file: self.plan.case.config_file().to_owned(),
            problem: source,
        })
    }

    fn prompt(&mut self, workspace: &Utf8Path) -> Result<String, NotRun> {
        let prompt = match self.plan.agent.prompt() {
            None => return Ok(String::new()),
            Some(PromptSource::Text(text)) => text.clone(),
            Some(PromptSource::WorkspaceFile(file)) => read_workspace_prompt(workspace, file)
                .map_err(|problem| TrialError::Prompt {
                    config_file: self.plan.case.config_file().to_owned(),
                    problem,
                })?,
        };
        self.record.task.prompt_hash = Some(store::hex(&Sha256::digest(&prompt)));
        Ok(prompt)
    }

    /// The reference solution as a patch file.
    async fn reference(&self) -> Result<Option<Utf8PathBuf>, NotRun> {
        match (&self.plan.case.reference, &self.workspace) {
            (Some(Reference::Patch(path)), _) => Ok(Some(path.clone())),
            (Some(Reference::Branch(branch)), Some(workspace)) => {
                let patch = self.private.join("reference.patch");
                let written = workspace.reference_patch(branch, &patch).await;
                written.map_err(|error| match error {
                    WorkspaceError::Source(source) => self.source_failed(source),
                    other => workspace_failed(&other),
                })?;
                Ok(Some(patch))
            }
            _ => Ok(None),
        }
    }

    /// Markdown definitions beside the test case and in the workspace; the former win.
    fn definitions(&self, workspace: &Utf8Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let Some(folder) = self.plan.agent.definitions_folder() else {
            return found;
        };
        for place in [workspace, self.plan.case.folder.as_path()] {
            let entries = place
                .join(folder)
                .read_dir_utf8()
                .into_iter()
                .flatten()
                .flatten();
            for entry in entries.filter(|entry| entry.path().extension() == Some("md")) {
                if let (Some(name), Ok(text)) =
                    (entry.path().file_stem(), fs::read_to_string(entry.path()))
                {
                    found.insert(name.to_owned(), text);
                }
            }
        }
        found
    }
}

fn workspace_failed(error: &WorkspaceError) -> NotRun {
    NotRun::Infrastructure {
        outcome: match error {
            WorkspaceError::Source(SourceError::Fetch { .. }) => Outcome::Network,
            _ => Outcome::Sandbox,
        },
        code: "WORKSPACE_FAILED",
        message: chain(error),
    }
}
