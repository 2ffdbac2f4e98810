//! The command of an agent, with its prompt and files in place and without secrets.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_agents::agent::{Agent, Launch, LaunchContext, PromptSource, read_workspace_prompt};
use proctor_record::{
    fs::{beneath::UntrustedDir, hex},
    record::{self, PROMPT_FILE},
    secrets::Secrets,
};
use proctor_sandbox::Network;
use sha2::{Digest, Sha256};

use super::{
    AgentStart, Agents, Site, Trial, TrialError,
    container::{CONTROL_INSIDE, CONTROL_SOCKET},
    equip::Equipment,
    prepare::NotRun,
};
use crate::{
    evaluate,
    model_access::{self, TrialModels},
    trial::socket::Socket,
};

/// The maximum size of a sub-agent definition.
const MAX_DEFINITION: u64 = 1 << 20;
/// The value of secrets for an agent without model access.
const NO_KEY: &str = "no-key";

impl Trial<'_> {
    /// The prompt, which is written to the artifacts as well.
    pub(super) fn prompt(
        &mut self,
        workspace: &Utf8Path,
        deadline: Option<&str>,
    ) -> Result<String, NotRun> {
        let mut prompt = match self.plan.agent.prompt() {
            None => return Ok(String::new()),
            Some(PromptSource::Text(text)) => text.clone(),
            Some(PromptSource::WorkspaceFile(file)) => read_workspace_prompt(workspace, file)
                .map_err(|problem| TrialError::Prompt {
                    config_file: self.plan.task.config_file().to_owned(),
                    problem,
                })?,
        };
        prompt = self.plan.treatment.prompt.apply(&prompt);
        // The hash excludes the deadline, which differs in each trial.
        self.record.task.prompt_hash = Some(hex(&Sha256::digest(&prompt)));
        if let (true, Some(deadline)) = (self.plan.task.limits.tells_deadline, deadline) {
            let end = prompt.trim_end().len();
            prompt.truncate(end);
            prompt.extend([
                "\n\nYour time ends at ",
                deadline,
                " (UTC): finish before that.\n",
            ]);
        }
        fs::write(self.artifacts.join(PROMPT_FILE), &prompt)?;
        Ok(prompt)
    }

    /// The command, with all of its files in place.
    pub(super) async fn launch(
        &mut self,
        agents: &Agents,
        site: &Site,
        equipment: Equipment,
        prompt: &str,
    ) -> Result<AgentStart, NotRun> {
        let Equipment {
            env,
            passed,
            models,
        } = equipment;
        let Site {
            trial_dir,
            exec_env,
            workspace,
        } = site;
        let agent = self.plan_of(agents.contestant).agent;
        let reference = self.reference(site).await?;
        let definitions = self.definitions(agent, workspace.path());
        let socket = match (agent.wants_socket(), self.docker()) {
            (false, _) => None,
            (true, None) => Some(Socket::listen().await?),
            (true, Some(_)) => {
                let path = model_access::sockets(&trial_dir.path).join(CONTROL_SOCKET);
                Some(Socket::listen_local(&path, CONTROL_INSIDE)?)
            }
        };
        let workdir = self.workdir(site);
        let secrets = self.secrets(&passed, models.is_some());
        let key = key_for_secrets(models.as_ref());
        let script = self.bring_script(agents.contestant, site, &secrets, key)?;
        let mcp_servers = self.mcp_servers(agents.contestant)?;
        let mut launch = agent
            .launch(&LaunchContext {
                workspace: &workdir,
                home: &exec_env.inside(&trial_dir.home),
                scratch: &exec_env.inside(&trial_dir.scratch),
                prompt,
                cli: agents.current_cli(),
                env: &env,
                is_root: self.is_root(),
                socket: socket.as_ref().map(|socket| socket.address),
                reference: reference.as_ref(),
                definitions: &definitions,
                endpoint: models.as_ref().map(|models| &models.endpoint),
                script: script.as_deref(),
                mcp_servers: &mcp_servers,
            })
            .map_err(|problem| TrialError::Launch {
                config_file: self.plan.task.config_file().to_owned(),
                problem,
            })?;
        self.use_tasks_home(&mut launch, agents, site);
        self.check_secrets(&launch, &secrets, models.is_some())?;
        launch = launch.without_secrets(&secrets, key);
        launch.env.extend(passed);
        let launch = launch.written_for(&exec_env.roots());
        self.lay_task_skills(agents.contestant, site).await?;
        self.lay_out_files(&launch, site).await?;
        Ok(AgentStart {
            launch,
            socket,
            workdir,
            models,
            log: self.new_log()?,
        })
    }

    /// Leaves HOME to the container's user if the task has its own container: its tests and services
    /// look there. An agent that looks for its own files in HOME keeps the trial's.
    fn use_tasks_home(&self, launch: &mut Launch, agents: &Agents, site: &Site) {
        let (Some(image), Some(_)) = (&agents.image, self.plan.task.environment()) else {
            return;
        };
        let home = site.exec_env.inside(&site.trial_dir.home);
        let has_cli = self.plan_of(agents.contestant).adapter.cli().is_some();
        if !has_cli || has_variable_for(&home, &launch.env) {
            evaluate::use_own_home(&mut launch.env, image);
        }
    }

    /// Writes the files that `launch` names and gives them to the agent's user.
    async fn lay_out_files(&self, launch: &Launch, site: &Site) -> Result<(), NotRun> {
        let Site {
            trial_dir,
            exec_env,
            workspace,
        } = site;
        let workspace = workspace.path();
        // Changing the owner of a large workspace is slow, so only new files are changed.
        let mut fresh = vec![trial_dir.home.clone(), trial_dir.scratch.clone()];
        self.lay_home(launch, site)?;
        for (file, bytes) in &launch.files {
            let file = exec_env.outside(file);
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            fs::write(&file, bytes)?;
            let below = file.strip_prefix(workspace).ok();
            fresh.extend(below.and_then(|below| Some(workspace.join(below.components().next()?))));
        }
        let fresh: Vec<&Utf8Path> = fresh.iter().map(Utf8PathBuf::as_path).collect();
        self.hand_over(exec_env, &fresh).await
    }

    /// The secrets that the agent must not see. On this machine it may see those of its own
    /// configuration, which it could read anyway.
    fn secrets(&self, passed: &BTreeMap<String, String>, has_models: bool) -> Secrets {
        let all = self.context.host.secrets.clone().without(passed);
        match self.docker() {
            Some(_) => all,
            None if has_models => all.named(model_access::is_provider_key),
            None => Secrets::default(),
        }
    }

    /// Notes the secrets that the agent does not get. Without a gateway it cannot work without
    /// them.
    fn check_secrets(
        &mut self,
        launch: &Launch,
        secrets: &Secrets,
        has_models: bool,
    ) -> Result<(), NotRun> {
        let found = launch.secrets(secrets);
        if found.is_empty() {
            return Ok(());
        }
        if !has_models && self.reach() == Network::Open {
            return Err(NotRun::Usage(TrialError::Secrets {
                config_file: self.plan.task.config_file().to_owned(),
                names: found.join(", "),
            }));
        }
        let others = found
            .iter()
            .filter(|name| !model_access::is_provider_key(name));
        let others: Vec<&str> = others.copied().collect();
        if !others.is_empty() {
            self.note(format!(
                "the agent did not get the values of {}; list them in `secrets.unsafe_pass_through` to pass them on",
                others.join(", ")
            ));
        }
        Ok(())
    }

    /// Whether the agent runs as root.
    fn is_root(&self) -> bool {
        match &self.record.sandbox {
            record::SandboxRecord::Local => self.context.host.is_root,
            record::SandboxRecord::Docker(record) => record
                .user
                .as_deref()
                .is_none_or(|user| matches!(user.split(':').next(), Some("0" | "root"))),
        }
    }

    /// Markdown definitions in the workspace and beside the test case; the latter win. The custom
    /// agent that takes the task may also be defined in the working directory.
    fn definitions(&self, agent: &dyn Agent, workspace: &Utf8Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let Some(folder) = agent.definitions_folder() else {
            return found;
        };
        let mut here = definitions_in(&self.context.host.cwd, folder);
        let asked = agent
            .custom_agent()
            .and_then(|name| here.remove_entry(name));
        // An earlier iteration may have put anything into the workspace.
        found.extend(definitions_in(workspace, folder));
        found.extend(asked);
        found.extend(definitions_in(&self.plan.task.folder, folder));
        found
    }
}

/// Whether a variable other than HOME leads to a directory below `home`.
fn has_variable_for(home: &Utf8Path, env: &BTreeMap<String, String>) -> bool {
    let mut others = env.iter().filter(|(name, _)| *name != "HOME");
    others.any(|(_, value)| Utf8Path::new(value).starts_with(home))
}

/// The replacement of secrets: the trial's own key, if any.
fn key_for_secrets(models: Option<&TrialModels>) -> &str {
    models.map_or(NO_KEY, |models| models.endpoint.key.as_str())
}

/// Markdown files in a folder of a directory that is not trusted, by name.
fn definitions_in(place: &Utf8Path, folder: &str) -> BTreeMap<String, String> {
    let place = UntrustedDir::new(place);
    let mut found = BTreeMap::new();
    for file in place.names(folder).unwrap_or_default() {
        let path = Utf8PathBuf::try_from(std::path::PathBuf::from(file));
        let Some(path) = path.ok().filter(|path| path.extension() == Some("md")) else {
            continue;
        };
        let read = place.read(Utf8Path::new(folder).join(&path), MAX_DEFINITION);
        let text = read.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let (Some(name), Some(text)) = (path.file_stem(), text) {
            // Copilot's files are called `NAME.agent.md` as well.
            let name = name.strip_suffix(".agent").unwrap_or(name);
            found.insert(name.to_owned(), text);
        }
    }
    found
}
