//! Preparing a trial: the CLI, its credentials, the workspace, the prompt, the command to run.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use fs_err as fs;
use sha2::{Digest, Sha256};

use super::{Ready, Trial, TrialError, chain, container::HOME};
use crate::{
    agent::{Authentication, Installed, LaunchContext, LaunchError},
    area::Area,
    availability,
    config::{Network, PromptSource, read_workspace_prompt},
    event::Phase,
    models,
    outcome::Outcome,
    sandbox::{container_env, docker::Image},
    socket::Socket,
    store,
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
        let image = self.image().await?;
        let installed = self.installed(image.as_ref()).await?;
        self.open_models(&area)?;
        let env = self.environment(&area, image.as_ref())?;
        self.authenticate(installed.as_ref(), &env, &area).await?;
        let path = self.make_workspace(&area, image.as_ref()).await?;
        self.pre_execution(&area, &path).await?;
        let prompt = self.prompt(&path)?;
        let reference = self.reference(&area).await?;
        let definitions = self.definitions(&path);
        let mut socket = None;
        if self.plan.agent.wants_socket() {
            if self.docker().is_some() {
                return Err(self.refused(
                    "`transport: websocket` does not reach out of a container",
                    "use `transport: control`",
                ));
            }
            socket = Some(Socket::listen().await?);
        }
        let workdir = self.workdir();
        let mut launch = self
            .plan
            .agent
            .launch(&LaunchContext {
                workspace: &workdir,
                home: &self.room.inside(&area.home),
                scratch: &self.room.inside(&area.scratch),
                prompt: &prompt,
                cli: installed.as_ref(),
                env: &env,
                is_root: self.is_root(),
                socket: socket.as_ref().map(|socket| socket.address),
                reference: reference.as_ref(),
                definitions: &definitions,
                endpoint: self.models.as_ref().map(|models| &models.endpoint),
            })
            .map_err(|problem| TrialError::Launch {
                config_file: self.plan.task.config_file().to_owned(),
                problem,
            })?;
        if let (Some(all), Some(own)) = (self.context.models, &self.models) {
            all.hide_keys(own, &mut launch.env);
        }
        for (path, bytes) in &launch.files {
            let path = self.room.outside(path);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(&path, bytes)?;
        }
        self.hand_over(&area, &path).await?;
        Ok(Ready {
            launch,
            socket,
            workdir,
        })
    }

    /// A key of the trial's own for the models, for agents that have any.
    fn open_models(&mut self, area: &Area) -> Result<(), NotRun> {
        let (Some(models), Some(_)) = (self.context.models, self.plan.agent.prompt()) else {
            return Ok(());
        };
        let reach = self.reach();
        if reach == Network::None {
            return Ok(());
        }
        let is_remote = self
            .docker()
            .is_some_and(|docker| !docker.engine.is_local());
        if is_remote {
            return Err(self.refused(
                "the gateway does not reach the containers of a remote engine",
                "use `network: open` with `proxy: {gateway: none}`",
            ));
        }
        let allow_hosts = match reach {
            Network::Allowlist(hosts) => hosts,
            _ => Vec::new(),
        };
        let sockets = self.docker().map(|_| models::sockets(&area.path));
        if let Some(folder) = &sockets {
            fs::create_dir_all(folder)?;
        }
        let label = store::trial_path(&self.plan.name, &self.plan.task.name, self.plan.number);
        let opened = models.open(
            label.as_str(),
            &self.artifacts,
            sockets.as_deref(),
            allow_hosts,
        );
        self.models = Some(opened.map_err(|error| NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "GATEWAY_FAILED",
            message: chain(&error),
        })?);
        Ok(())
    }

    /// What is asked for cannot be had here.
    fn refused(&self, message: &str, hint: &str) -> NotRun {
        NotRun::Usage(TrialError::Launch {
            config_file: self.plan.task.config_file().to_owned(),
            problem: LaunchError {
                message: message.to_owned(),
                hint: Some(hint.to_owned()),
                code: "INVALID_CONFIG",
            },
        })
    }

    /// Whether the agent is root where it runs.
    fn is_root(&self) -> bool {
        match &self.record.sandbox {
            store::SandboxRecord::Local => self.context.host.is_root,
            store::SandboxRecord::Docker(record) => record
                .user
                .as_deref()
                .is_none_or(|user| matches!(user.split(':').next(), Some("0" | "root"))),
        }
    }

    /// The agent's CLI, or the outcome that says how to get it.
    async fn installed(&mut self, image: Option<&Image>) -> Result<Option<Installed>, NotRun> {
        let Some(cli) = self.plan.adapter.cli() else {
            return Ok(None);
        };
        let installed = match image {
            None => availability::installed(cli, self.context.host).await,
            Some(image) => self.installed_in(image, cli).await?,
        };
        let Some(installed) = installed else {
            let program = cli.program;
            return Err(NotRun::Infrastructure {
                outcome: Outcome::NotInstalled,
                code: cli.not_found_code,
                message: match image {
                    None => format!(
                        "`{program}` is not installed, or not on PATH; {}",
                        cli.install_hint
                    ),
                    Some(_) => format!(
                        "`{program}` is not in the image; `proctor image build` makes images that have it"
                    ),
                },
            });
        };
        self.record.agent.version.clone_from(&installed.version);
        self.record.agent.program = Some(installed.path.to_string());
        Ok(Some(installed))
    }

    /// The environment that the agent gets, its credentials included.
    fn environment(
        &mut self,
        area: &Area,
        image: Option<&Image>,
    ) -> Result<BTreeMap<String, String>, NotRun> {
        let host = self.context.host;
        if self.plan.agent.inherits_user() && image.is_none() {
            return Ok(host.env.clone());
        }
        let mut env = match image {
            None => host.clean_env(&area.home),
            Some(image) => container_env(image, Utf8Path::new(HOME)),
        };
        if let Some(environment) = self.plan.task.environment() {
            // HOME and the like stay the trial's own.
            let own = |name: &str| matches!(name, "HOME" | "TMPDIR");
            let set = match image {
                None => environment.local_env(),
                Some(_) => environment.env.clone(),
            };
            env.extend(set.into_iter().filter(|(name, _)| !own(name)));
        }
        if let Some(deadline) = self.deadline() {
            env.insert("PROCTOR_DEADLINE".to_owned(), deadline);
        }
        if let (Network::Allowlist(_), Some(models)) = (self.reach(), &self.models) {
            env.extend(models.proxy_env());
        }
        let Some(cli) = self.plan.adapter.cli() else {
            return Ok(env);
        };
        if image.is_none() {
            env.extend(availability::shared_caches(cli, host));
        }
        let is_sealed = image.is_some() && self.reach() != Network::Open;
        if self.models.is_some() || is_sealed {
            // Its key is the trial's own, or there is nobody to show one to: real ones stay out.
            return Ok(env);
        }
        if image.is_some() {
            let note = "without the gateway the agent got the real key, in a container of its own";
            self.record.notes.push(note.to_owned());
        }
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
        if self.models.is_some() {
            self.record.agent.credentials = Some("gateway".to_owned());
            return Ok(());
        }
        let (Some(cli), Some(installed)) = (self.plan.adapter.cli(), installed) else {
            return Ok(());
        };
        let mut env = env.clone();
        env.extend(self.plan.agent.env().clone());
        let mut found = self.plan.adapter.authentication(&env, None);
        if found == Authentication::Unknown && self.docker().is_none() {
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

    /// When the agent's time will be over: it is told, because it may plan by it.
    fn deadline(&self) -> Option<String> {
        let timeout = self.plan.task.limits.timeout?;
        let timeout = jiff::SignedDuration::try_from(timeout).ok()?;
        let deadline = jiff::Timestamp::now().checked_add(timeout).ok()?;
        Some(deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    fn prompt(&mut self, workspace: &Utf8Path) -> Result<String, NotRun> {
        let prompt = match self.plan.agent.prompt() {
            None => return Ok(String::new()),
            Some(PromptSource::Text(text)) => text.clone(),
            Some(PromptSource::WorkspaceFile(file)) => read_workspace_prompt(workspace, file)
                .map_err(|problem| TrialError::Prompt {
                    config_file: self.plan.task.config_file().to_owned(),
                    problem,
                })?,
        };
        self.record.task.prompt_hash = Some(store::hex(&Sha256::digest(&prompt)));
        Ok(prompt)
    }

    /// Markdown definitions beside the test case and in the workspace; the former win.
    fn definitions(&self, workspace: &Utf8Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let Some(folder) = self.plan.agent.definitions_folder() else {
            return found;
        };
        for place in [workspace, self.plan.task.folder.as_path()] {
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
