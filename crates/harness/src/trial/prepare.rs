//! Prepares a trial: the CLI, its credentials, the workspace, the prompt, the command.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_agents::agent::{
    Authentication, Launch, LaunchContext, PromptSource, read_workspace_prompt,
};
use proctor_record::{
    fs::{beneath::UntrustedDir, hex},
    outcome::Outcome,
    record::{
        self, Phase,
        cli::{Cli, Registry},
    },
    secrets::Secrets,
};
use proctor_sandbox::{
    Network,
    availability::{self, ProbeTimeout},
    container_env,
    docker::Image,
    packages::{self, Package, PythonVersion},
    trial_dir::TrialDir,
};
use sha2::{Digest, Sha256};

use super::{
    AgentTools, Contestant, ContestantPlan, Prepared, Trial, TrialError, chain,
    container::{CONTROL_INSIDE, CONTROL_SOCKET, HOME},
};
use crate::{
    model_access,
    trial::{export::PROMPT_FILE, socket::Socket},
};

/// The variable with the agent's deadline.
const DEADLINE: &str = "PROCTOR_DEADLINE";

/// The maximum size of a sub-agent definition.
const MAX_DEFINITION: u64 = 1 << 20;
/// The value of secrets for an agent without model access.
const NO_KEY: &str = "no-key";

/// The environment of an agent before it starts.
pub(super) struct Equipment {
    env: BTreeMap<String, String>,
    /// Variables that it gets unchanged.
    passed: BTreeMap<String, String>,
}

/// Why the agent did not run.
pub(super) enum NotRun {
    /// The input is invalid.
    Usage(TrialError),
    /// The infrastructure failed.
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

/// Without the list of its options, the agent might get an option that its version refuses.
impl From<ProbeTimeout> for NotRun {
    fn from(error: ProbeTimeout) -> NotRun {
        NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "PROBE_FAILED",
            message: error.to_string(),
        }
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
    /// Prepares everything until the agent can be started.
    pub(super) async fn prepare(&mut self) -> Result<Prepared, NotRun> {
        self.phase(Phase::Preparing);
        let trial_dir = Arc::new(TrialDir::create(&self.context.host.temp)?);
        self.trial_dir = Some(Arc::clone(&trial_dir));
        let image = self.image().await?;
        if image.is_some() {
            fs::create_dir_all(model_access::sockets(&trial_dir.path))?;
        }
        self.image.clone_from(&image);
        for contestant in self.contestants() {
            let tools = self.tools_of(contestant).await?;
            self.tools.insert(contestant, tools);
        }
        let equipment = self.equip(&trial_dir, image.as_ref()).await?;
        let path = self.make_workspace(&trial_dir, image.as_ref()).await?;
        self.pre_execution(&trial_dir, &path).await?;
        self.asked = self.prompt(&path)?;
        let asked = self.asked.clone();
        self.launch(&trial_dir, equipment, &asked).await
    }

    /// Prepares an agent: model access, environment, credentials.
    pub(super) async fn equip(
        &mut self,
        trial_dir: &TrialDir,
        image: Option<&Image>,
    ) -> Result<Equipment, NotRun> {
        let passed = self.passed_through();
        self.open_models(trial_dir, &passed)?;
        let mut env = self.environment(trial_dir, image)?;
        if !passed.is_empty() {
            let names: Vec<&str> = passed.keys().map(String::as_str).collect();
            let names = names.join(", ");
            self.note(format!("the agent got these variables unchanged: {names}"));
            env.extend(passed.clone());
        }
        self.authenticate(&env, trial_dir).await?;
        Ok(Equipment { env, passed })
    }

    /// Adds a note, once.
    pub(super) fn note(&mut self, note: String) {
        if !self.record.notes.contains(&note) {
            self.record.notes.push(note);
        }
    }

    /// The command, with all of its files in place.
    pub(super) async fn launch(
        &mut self,
        trial_dir: &TrialDir,
        equipment: Equipment,
        prompt: &str,
    ) -> Result<Prepared, NotRun> {
        let Equipment { env, passed } = equipment;
        let agent = self.current().agent;
        let workspace = self
            .workspace
            .as_ref()
            .expect("agents start in a workspace");
        let path = workspace.path().to_owned();
        let reference = self.reference(trial_dir).await?;
        let definitions = self.definitions(&path);
        let socket = match (agent.wants_socket(), self.docker()) {
            (false, _) => None,
            (true, None) => Some(Socket::listen().await?),
            (true, Some(_)) => {
                let path = model_access::sockets(&trial_dir.path).join(CONTROL_SOCKET);
                Some(Socket::listen_local(&path, CONTROL_INSIDE)?)
            }
        };
        let workdir = self.workdir();
        let secrets = self.secrets(&passed);
        let key = self.key_for_secrets();
        let script = self.bring_script(trial_dir, &secrets, &key)?;
        let mut launch = agent
            .launch(&LaunchContext {
                workspace: &workdir,
                home: &self.exec_env.inside(&trial_dir.home),
                scratch: &self.exec_env.inside(&trial_dir.scratch),
                prompt,
                cli: self.current_cli(),
                env: &env,
                is_root: self.is_root(),
                socket: socket.as_ref().map(|socket| socket.address),
                reference: reference.as_ref(),
                definitions: &definitions,
                endpoint: self.models.as_ref().map(|models| &models.endpoint),
                script: script.as_deref(),
            })
            .map_err(|problem| TrialError::Launch {
                config_file: self.plan.task.config_file().to_owned(),
                problem,
            })?;
        self.check_secrets(&launch, &secrets)?;
        launch = launch.without_secrets(&secrets, &key);
        launch.env.extend(passed);
        let launch = launch.written_for(&self.exec_env.roots());
        self.lay_out_files(&launch, trial_dir, &path).await?;
        Ok(Prepared {
            launch,
            socket,
            workdir,
        })
    }

    /// Writes the files that `launch` names and gives them to the agent's user.
    async fn lay_out_files(
        &self,
        launch: &Launch,
        trial_dir: &TrialDir,
        workspace: &Utf8Path,
    ) -> Result<(), NotRun> {
        // Changing the owner of a large workspace is slow, so only new files are changed.
        let mut fresh = vec![trial_dir.home.clone(), trial_dir.scratch.clone()];
        for (file, bytes) in &launch.files {
            let file = self.exec_env.outside(file);
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            fs::write(&file, bytes)?;
            let below = file.strip_prefix(workspace).ok();
            fresh.extend(below.and_then(|below| Some(workspace.join(below.components().next()?))));
        }
        let fresh: Vec<&Utf8Path> = fresh.iter().map(Utf8PathBuf::as_path).collect();
        self.hand_over(&fresh).await
    }

    /// The secrets that the agent must not see. On this machine it may see those of its own
    /// configuration, which it could read anyway.
    fn secrets(&self, passed: &BTreeMap<String, String>) -> Secrets {
        let all = self.context.host.secrets.clone().without(passed);
        match (self.docker(), &self.models) {
            (Some(_), _) => all,
            (None, Some(_)) => all.named(model_access::is_provider_key),
            (None, None) => Secrets::default(),
        }
    }

    /// The replacement of secrets: the trial's own key, if any.
    fn key_for_secrets(&self) -> String {
        let models = self.models.as_ref();
        models.map_or_else(|| NO_KEY.to_owned(), |models| models.endpoint.key.clone())
    }

    /// Notes the secrets that the agent does not get. Without a gateway it cannot work without
    /// them.
    fn check_secrets(&mut self, launch: &Launch, secrets: &Secrets) -> Result<(), NotRun> {
        let found = launch.secrets(secrets);
        if found.is_empty() {
            return Ok(());
        }
        if self.models.is_none() && self.reach() == Network::Open {
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

    /// The variables of the suite that agents get unchanged.
    fn passed_through(&self) -> BTreeMap<String, String> {
        let names = self.context.pass_through.iter();
        let set =
            names.filter_map(|name| Some((name.clone(), self.context.host.env.get(name)?.clone())));
        set.collect()
    }

    /// Creates the trial's gateway key, for agents with model access.
    fn open_models(
        &mut self,
        trial_dir: &TrialDir,
        passed: &BTreeMap<String, String>,
    ) -> Result<(), NotRun> {
        let agent = self.current().agent;
        let (Some(models), Some(_)) = (self.context.models, agent.prompt()) else {
            return Ok(());
        };
        let reach = self.reach();
        if reach == Network::None {
            return Ok(());
        }
        let is_sealed = reach != Network::Open;
        let allow_hosts = match reach {
            Network::Allowlist(hosts) => hosts,
            _ => Vec::new(),
        };
        let sockets = self
            .docker()
            .map(|_| model_access::sockets(&trial_dir.path));
        let trial = record::trial_path(&self.plan.name, &self.plan.task.name, self.plan.number);
        let label = match self.record.iterations.len() {
            0 => trial.to_string(),
            before => format!("{trial}.iteration-{}", before + 1),
        };
        if !self.plan.policy.is_empty() {
            self.budget.get_or_insert_with(|| models.trial_budget());
        }
        let opened = models.open(model_access::Needs {
            label: &label,
            artifacts: &self.artifacts,
            sockets: sockets.as_deref(),
            allow_hosts,
            temperature: agent.gateway_temperature(),
            budget: self.budget.clone(),
            passed_keys: passed.values().cloned().collect(),
            is_sealed,
        });
        self.models = Some(opened.map_err(|error| NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "GATEWAY_FAILED",
            message: chain(&error),
        })?);
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

    /// The CLI of a contestant, or the outcome with a hint for its installation.
    async fn tools_of(&mut self, contestant: Contestant) -> Result<AgentTools, NotRun> {
        let plan = self.plan_of(contestant);
        let Some(cli) = plan.adapter.cli() else {
            return Ok(AgentTools::default());
        };
        let not_installed = |message| NotRun::Infrastructure {
            outcome: Outcome::NotInstalled,
            code: cli.not_found_code,
            message,
        };
        let host = self.context.host;
        let mut package = None;
        if let Some(wanted) = plan.package {
            let python = self.python_for(wanted).await?;
            let target = match self.image {
                None => packages::Target::Here,
                Some(_) => packages::Target::Containers,
            };
            let installed = wanted.install(host, python, target).await;
            package = Some(installed.map_err(|error| not_installed(chain(&error)))?);
        }
        let installed = match (&self.image, &package) {
            (None, None) => availability::installed(cli, host).await?,
            (None, Some(own)) => {
                availability::installed_at(cli, own.folder.join(&own.program), host).await?
            }
            (Some(image), _) => {
                self.installed_in(image, cli, contestant, package.as_ref())
                    .await?
            }
        };
        let Some(installed) = installed else {
            let message = where_it_is_not(cli, self.image.as_ref(), plan.package);
            return Err(not_installed(message));
        };
        if contestant == Contestant::Primary {
            self.record.agent.version.clone_from(&installed.version);
            let definition = self.record.agent.definition.as_mut();
            if let Some((definition, version)) = definition.zip(installed.version.as_ref()) {
                definition.find("version", version);
            }
            self.record.agent.program = Some(installed.path.to_string());
        }
        Ok(AgentTools {
            cli: Some(installed),
            package,
        })
    }

    /// The Python version for a package: the image's, or this machine's. `None` if the package does
    /// not need Python or there is none.
    async fn python_for(&self, package: &Package) -> Result<Option<PythonVersion>, NotRun> {
        if matches!(package.registry, Registry::Npm(_)) {
            return Ok(None);
        }
        match &self.image {
            None => Ok(PythonVersion::here(self.context.host).await),
            Some(image) => self.python_in(image).await,
        }
    }

    /// The agent's environment with its credentials.
    fn environment(
        &mut self,
        trial_dir: &TrialDir,
        image: Option<&Image>,
    ) -> Result<BTreeMap<String, String>, NotRun> {
        let host = self.context.host;
        let ContestantPlan { adapter, agent, .. } = self.current();
        if agent.inherits_user() && image.is_none() {
            let mut env = host.env.clone();
            env.extend(
                self.deadline()
                    .map(|deadline| (DEADLINE.to_owned(), deadline)),
            );
            return Ok(env);
        }
        let mut env = match image {
            None => host.clean_env(&trial_dir.home),
            Some(image) => container_env(image, Utf8Path::new(HOME)),
        };
        if let Some(environment) = self.plan.task.environment() {
            // HOME and similar variables are the trial's own.
            let own =
                |name: &str| matches!(name, "HOME" | "TMPDIR" | "TEMP" | "TMP" | "USERPROFILE");
            let set = match image {
                None => environment.local_env(),
                Some(_) => environment.env.clone(),
            };
            env.extend(set.into_iter().filter(|(name, _)| !own(name)));
        }
        if let Some(deadline) = self.deadline() {
            env.insert(DEADLINE.to_owned(), deadline);
        }
        if let (Network::Allowlist(_), Some(models)) = (self.reach(), &self.models) {
            env.extend(models.proxy_env());
        }
        let Some(cli) = adapter.cli() else {
            return Ok(env);
        };
        if image.is_none() {
            env.extend(availability::shared_caches(cli, host));
        }
        let is_sealed = image.is_some() && self.reach() != Network::Open;
        if self.models.is_some() || is_sealed {
            // The agent uses the trial's key or no gateway: API keys are not passed.
            return Ok(env);
        }
        if image.is_some() {
            // Containers get only variables that the suite lists.
            return Ok(env);
        }
        for name in cli.credential_env {
            if let Some(value) = host.env.get(*name) {
                env.insert((*name).to_owned(), value.clone());
            }
        }
        let mut known = env.clone();
        known.extend(agent.env().clone());
        let has_key = matches!(
            adapter.authentication(&known, None),
            Authentication::Found(_)
        );
        if let Some(home) = host.home.as_ref().filter(|_| !has_key) {
            for file in cli.credential_files {
                trial_dir.bring_in(&home.join(file), file)?;
            }
        }
        Ok(env)
    }

    async fn authenticate(
        &mut self,
        env: &BTreeMap<String, String>,
        trial_dir: &TrialDir,
    ) -> Result<(), NotRun> {
        if self.models.is_some() {
            self.record.agent.credentials = Some("gateway".to_owned());
            return Ok(());
        }
        let ContestantPlan { adapter, agent, .. } = self.current();
        let installed = self.current_cli();
        let (Some(cli), Some(installed)) = (adapter.cli(), installed) else {
            return Ok(());
        };
        let mut env = env.clone();
        env.extend(agent.env().clone());
        let mut found = adapter.authentication(&env, None);
        if found == Authentication::Unknown && self.docker().is_none() {
            let check = availability::auth_check(cli, installed, &env, &trial_dir.home).await;
            found = adapter.authentication(&env, check.as_ref());
        }
        match found {
            Authentication::Found(source) => self.record.agent.credentials = Some(source),
            Authentication::NotNeeded | Authentication::Unknown => {}
            Authentication::Missing => {
                let hint = match self.docker() {
                    None => cli.login_hint,
                    Some(_) => {
                        "without a gateway, name the variable with its key under `secrets.unsafe_pass_through`"
                    }
                };
                return Err(NotRun::Infrastructure {
                    outcome: Outcome::Auth,
                    code: cli.auth_code,
                    message: format!(
                        "authentication failed: `{}` has no API key and no login; {hint}",
                        cli.program
                    ),
                });
            }
        }
        Ok(())
    }

    /// The agent's deadline as text, so that the agent can plan.
    fn deadline(&mut self) -> Option<String> {
        if self.deadline.is_none() {
            let timeout = self.plan.task.limits.timeout?;
            let timeout = jiff::SignedDuration::try_from(timeout).ok()?;
            let deadline = jiff::Timestamp::now().checked_add(timeout).ok()?;
            self.deadline = Some(deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        self.deadline.clone()
    }

    fn prompt(&mut self, workspace: &Utf8Path) -> Result<String, NotRun> {
        let deadline = self.deadline();
        let mut prompt = match self.plan.agent.prompt() {
            None => return Ok(String::new()),
            Some(PromptSource::Text(text)) => text.clone(),
            Some(PromptSource::WorkspaceFile(file)) => read_workspace_prompt(workspace, file)
                .map_err(|problem| TrialError::Prompt {
                    config_file: self.plan.task.config_file().to_owned(),
                    problem,
                })?,
        };
        // The hash excludes the deadline, which differs in each trial.
        self.record.task.prompt_hash = Some(hex(&Sha256::digest(&prompt)));
        if let (true, Some(deadline)) = (self.plan.task.limits.tells_deadline, deadline) {
            let end = prompt.trim_end().len();
            prompt.truncate(end);
            prompt.extend([
                "\n\nYour time ends at ",
                &deadline,
                " (UTC): finish before that.\n",
            ]);
        }
        fs::write(self.artifacts.join(PROMPT_FILE), &prompt)?;
        Ok(prompt)
    }

    /// Markdown definitions in the workspace and beside the test case; the latter win. The custom
    /// agent that takes the task may also be defined in the working directory.
    fn definitions(&self, workspace: &Utf8Path) -> BTreeMap<String, String> {
        let agent = self.current().agent;
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

/// The hint for a missing CLI.
fn where_it_is_not(cli: &Cli, image: Option<&Image>, package: Option<&Package>) -> String {
    let program = cli.program;
    match (image, package) {
        (None, _) => cli.not_installed(),
        (Some(_), Some(package)) => {
            let needs = match package.registry {
                Registry::Npm(_) => "a shell and the C library of GNU",
                Registry::PyPi { .. } => "a shell, the C library of GNU and all of Python",
            };
            format!("`{program}` of {package} does not run in the image; it requires {needs}")
        }
        (Some(_), None) => {
            format!(
                "`{program}` is not in the image; name a `version` to have it installed, or make an image that has it (`proctor image build`)"
            )
        }
    }
}
