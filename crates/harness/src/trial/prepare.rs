//! Preparing a trial: the CLI, its credentials, the workspace, the prompt, the command to run.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::{Digest, Sha256};

use super::{Ready, Trial, UsageError, chain};
use crate::{
    agent::{Authentication, Installed, LaunchContext},
    area::Area,
    availability,
    config::{PromptSource, Reference, read_workspace_prompt},
    event::Phase,
    outcome::Outcome,
    session::LogError,
    socket::Socket,
    source::{Source, SourceError},
    store,
    workspace::{Workspace, WorkspaceError},
};

/// Why the agent did not get to run.
pub(super) enum NotRun {
    /// The input is bad.
    Usage(UsageError),
    /// The world is.
    Infrastructure(Outcome, LogError),
}

impl From<UsageError> for NotRun {
    fn from(error: UsageError) -> NotRun {
        NotRun::Usage(error)
    }
}

impl From<std::io::Error> for NotRun {
    fn from(error: std::io::Error) -> NotRun {
        NotRun::Infrastructure(
            Outcome::Sandbox,
            LogError::new("SANDBOX_FAILED", error.to_string()),
        )
    }
}

impl Trial<'_> {
    /// Everything up to the point where the agent can be started.
    pub(super) async fn prepare(&mut self) -> Result<Ready, NotRun> {
        self.phase(Phase::Preparing);
        let area = Area::create(&self.context.host.temp)?;
        let installed = self.installed().await?;
        let env = self.environment(&area)?;
        self.authenticate(installed.as_ref(), &env, &area).await?;
        let path = self.make_workspace(&area).await?;
        let prompt = self.prompt(&path)?;
        let reference = self.reference().await?;
        let definitions = self.definitions(&path);
        let socket = match self.plan.agent.wants_socket() {
            true => Some(Socket::listen().await?),
            false => None,
        };
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
            })
            .map_err(|source| UsageError::Launch {
                config_file: self.plan.case.config_file().to_owned(),
                source,
            })?;
        for (path, bytes) in &launch.files {
            fs::write(path, bytes)?;
        }
        self.area = Some(area);
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
        match availability::installed(cli, self.context.host).await {
            Some(installed) => {
                self.record.agent.version.clone_from(&installed.version);
                self.record.agent.program = Some(installed.path.to_string());
                Ok(Some(installed))
            }
            None => {
                let message = format!(
                    "`{}` is not installed, or not on PATH; {}",
                    cli.program, cli.install_hint
                );
                Err(NotRun::Infrastructure(
                    Outcome::NotInstalled,
                    LogError::new(cli.not_found_code, message),
                ))
            }
        }
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
        for name in cli.credential_env {
            if let Some(value) = host.env.get(*name) {
                env.insert((*name).to_owned(), value.clone());
            }
        }
        if let Some(home) = &host.home {
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
                let message = format!(
                    "authentication failed: `{}` has no API key and no login; {}",
                    cli.program, cli.login_hint
                );
                return Err(NotRun::Infrastructure(
                    Outcome::Auth,
                    LogError::new(cli.auth_code, message),
                ));
            }
        }
        Ok(())
    }

    async fn make_workspace(&mut self, area: &Area) -> Result<Utf8PathBuf, NotRun> {
        let case = &self.plan.case;
        let usage = |source: SourceError| match source.is_usage() {
            true => NotRun::Usage(UsageError::Source {
                config_file: case.config_file().to_owned(),
                source,
            }),
            false => workspace_failed(source.into()),
        };
        let source = Source::open(case, self.context.host, &self.private)
            .await
            .map_err(usage)?;
        let path = area.path.join("src-modified");
        let made = Workspace::create(source, self.context.host, &path, &self.private)
            .await
            .map_err(workspace_failed)?;
        self.record.task.commit.clone_from(&made.source_commit);
        self.record.task.tree = Some(made.base_tree.clone());
        self.workspace = Some(made);
        Ok(path)
    }

    fn prompt(&mut self, workspace: &Utf8Path) -> Result<String, NotRun> {
        let prompt = match self.plan.agent.prompt() {
            None => return Ok(String::new()),
            Some(PromptSource::Text(text)) => text.clone(),
            Some(PromptSource::WorkspaceFile(file)) => read_workspace_prompt(workspace, file)
                .map_err(|source| UsageError::Prompt {
                    config_file: self.plan.case.config_file().to_owned(),
                    source,
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
                workspace
                    .reference_patch(branch, &patch)
                    .await
                    .map_err(|error| match error {
                        WorkspaceError::Source(source) if source.is_usage() => {
                            NotRun::Usage(UsageError::Source {
                                config_file: self.plan.case.config_file().to_owned(),
                                source,
                            })
                        }
                        other => workspace_failed(other),
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

fn workspace_failed(error: WorkspaceError) -> NotRun {
    let outcome = match &error {
        WorkspaceError::Source(SourceError::Fetch { .. }) => Outcome::Network,
        _ => Outcome::Sandbox,
    };
    NotRun::Infrastructure(outcome, LogError::new("WORKSPACE_FAILED", chain(&error)))
}
