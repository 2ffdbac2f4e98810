//! A trial in a container: its image, its mounts, and the export of its files.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::Relay;
use proctor_record::{
    fs::dir,
    outcome::Outcome,
    platform,
    record::{
        ContainerRecord, SandboxRecord,
        cli::{Cli, Installed},
    },
};
use proctor_sandbox::{
    Access, ContainerEnv, DockerSandbox, ExecEnv, ExecEnvSpec, Mount, Network, Privileges,
    ResourceLimits, Sandbox, availability,
    docker::{ContainerNetwork, EngineError, Image},
    packages::{self, InstalledPackage, PythonVersion},
    trial_dir::TrialDir,
};

use super::{Agents, Contestant, Site, Trial, TrialError, chain, prepare::NotRun};
use crate::{
    evaluate, model_access,
    workspace::source::Source,
    workspace::{Environment, Image as TaskImage},
};

/// The path of a repo task's workspace in the container.
const WORKSPACE: &str = "/workspace";
/// The socket for agents that connect to their driver.
pub(super) const CONTROL_SOCKET: &str = "control.sock";
/// The address of that socket in containers.
pub(super) const CONTROL_INSIDE: SocketAddr = SocketAddr::new(
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    model_access::PORT_INSIDE + 1,
);
/// The path of the agent's HOME in the container.
pub(super) const HOME: &str = "/proctor/home";
/// The path of the trial's scratch directory in the container.
const SCRATCH: &str = "/proctor/scratch";
/// The agent's user id if Proctor runs as root and the image has no user.
const AGENT: u32 = 1000;
/// The timeout for a program that prints its version or options: its files may have to be read from
/// a slow disk.
pub(super) const ASKED: Duration = Duration::from_mins(2);

/// A container of a trial, and its data for the record.
pub(super) struct TrialContainer {
    exec_env: ContainerEnv,
    reach: Network,
    user: Option<String>,
    limits: ResourceLimits,
}

impl Trial<'_> {
    /// The container engine, if the trial runs in a container.
    pub(super) fn docker(&self) -> Option<&DockerSandbox> {
        match self.context.sandbox {
            Sandbox::Local => None,
            Sandbox::Docker(docker) => Some(docker),
        }
    }

    /// The trial's image; `None` without containers.
    pub(super) async fn image(&mut self) -> Result<Option<Image>, NotRun> {
        let Some(docker) = self.docker() else {
            return Ok(None);
        };
        let environment = self.plan.task.environment();
        let mut said = String::new();
        let keep = |line: &str| said.push_str(line);
        let (name, image) = match environment.map(|environment| &environment.image) {
            Some(TaskImage::Named(name)) => (name.clone(), docker.image(name, keep).await),
            Some(TaskImage::Build {
                context,
                dockerfile,
                options,
            }) => {
                let limit = environment.map(|environment| environment.build_timeout);
                let files = (context.as_path(), dockerfile.as_path());
                let image = docker.build(files, options, limit, keep).await;
                (context.to_string(), image)
            }
            None => {
                let named = self.plan.agent.image();
                let Some(name) = named.or(docker.settings.image.as_deref()) else {
                    return Err(TrialError::NoImage {
                        config_file: self.plan.task.config_file().to_owned(),
                    }
                    .into());
                };
                (name.to_owned(), docker.image(name, keep).await)
            }
        };
        if !said.is_empty() {
            // The log is only informative.
            let _ = fs::write(self.artifacts.join("build.log"), said);
        }
        let mut record = ContainerRecord {
            engine: Some(docker.engine.maker().into()),
            address: docker.engine.address().to_string(),
            image: name,
            ..ContainerRecord::default()
        };
        if let Ok(image) = &image {
            record.image_id.clone_from(&image.id);
            record.image_digest.clone_from(&image.digest);
        }
        self.find_image(&record);
        self.record.sandbox = SandboxRecord::Docker(Box::new(record));
        let is_tasks = environment.is_some();
        let image = image.map_err(|error| match error {
            EngineError::ImageMissing { .. } | EngineError::Pull { .. } => {
                missing(&error, is_tasks)
            }
            error => failed(error),
        });
        let mut image = image?;
        if let Some(compose) = environment.and_then(|it| it.compose.as_ref()) {
            compose.overlay(&mut image);
        }
        Ok(Some(image))
    }

    /// Add a named image to the definition of the task or agent that brings it. One that is built is known by its recipe.
    fn find_image(&mut self, container: &ContainerRecord) {
        let environment = self.plan.task.environment();
        let definition = match environment.map(|it| &it.image) {
            Some(TaskImage::Build { .. }) => return,
            Some(TaskImage::Named(_)) => &mut self.record.task.definition,
            None => &mut self.record.agent.definition,
        };
        let id = Some(&container.image_id).filter(|id| !id.is_empty());
        if let (Some(definition), Some(id)) = (definition, container.image_digest.as_ref().or(id)) {
            definition.find("image", id);
        }
    }

    /// The CLI of a contestant in the image, or the one that was installed next to it.
    pub(super) async fn installed_in(
        &self,
        image: &Image,
        cli: &'static Cli,
        contestant: Contestant,
        package: Option<&InstalledPackage>,
    ) -> Result<Option<Installed>, NotRun> {
        let Some(docker) = self.docker() else {
            return Ok(None);
        };
        let program: Utf8PathBuf = match package {
            None => cli.program.into(),
            Some(package) => packages::inside(contestant.index()).join(&package.program),
        };
        let ask = Box::pin(async {
            let mut spec = ExecEnvSpec::plain(image.clone());
            spec.mounts
                .extend(package.map(|package| package_mount(contestant, package)));
            let exec_env = docker.exec_env(spec).await?;
            let version = [&[program.as_str()], cli.version_args].concat();
            let Some(version) = exec_env.ask(&version, ASKED).await? else {
                return Ok(None);
            };
            let version = availability::version_in(&version);
            if version.is_none() && package.is_some() {
                // The shell works, but the program does not exist.
                return Ok(None);
            }
            let help = [&[program.as_str()], cli.help_args].concat();
            let help = exec_env.ask(&help, ASKED).await?.unwrap_or_default();
            exec_env.container.remove().await?;
            Ok(Some(Installed {
                path: program.clone(),
                version,
                help,
            }))
        });
        let key = match self.plan_of(contestant).package {
            None => cli.program.to_owned(),
            Some(wanted) => format!("{wanted} in {}", packages::inside(contestant.index())),
        };
        let found = docker.program(image, key, ask).await;
        found.map_err(failed)
    }

    /// The version of Python in the image, if any.
    pub(super) async fn python_in(&self, image: &Image) -> Result<Option<PythonVersion>, NotRun> {
        let Some(docker) = self.docker() else {
            return Ok(None);
        };
        let ask = Box::pin(async {
            let exec_env = docker.exec_env(ExecEnvSpec::plain(image.clone())).await?;
            let said = exec_env.ask(&["python3", "--version"], ASKED).await?;
            exec_env.container.remove().await?;
            Ok(said.map(|said| Installed {
                path: "python3".into(),
                version: Some(said),
                help: String::new(),
            }))
        });
        let found = docker.program(image, "python3".to_owned(), ask).await;
        let said = found.map_err(failed)?.and_then(|found| found.version);
        Ok(said.and_then(|said| PythonVersion::parse(&said)))
    }

    /// The mounts of the container: with `workspace`, or, for a task with its own files, without,
    /// because the working directory of its image becomes the workspace.
    pub(super) fn mounts(
        &self,
        agents: &Agents,
        trial_dir: &TrialDir,
        workspace: Option<&Utf8Path>,
    ) -> io::Result<Vec<Mount>> {
        let mut mounts = vec![
            Mount {
                host: trial_dir.home.clone(),
                inside: HOME.into(),
                access: Access::Write,
            },
            Mount {
                host: trial_dir.scratch.clone(),
                inside: SCRATCH.into(),
                access: Access::Write,
            },
        ];
        for contestant in self.contestants() {
            let package = agents.tools.get(&contestant);
            let package = package.and_then(|tools| tools.package.as_ref());
            mounts.extend(package.map(|package| package_mount(contestant, package)));
            mounts.extend(self.script_mount(trial_dir, contestant)?);
        }
        mounts.extend(workspace.map(|path| Mount {
            host: path.to_owned(),
            inside: WORKSPACE.into(),
            access: Access::Write,
        }));
        Ok(mounts)
    }

    /// Creates the container.
    pub(super) async fn make_exec_env(
        &self,
        image: &Image,
        trial_dir: &TrialDir,
        mounts: Vec<Mount>,
        has_models: bool,
    ) -> Result<TrialContainer, NotRun> {
        let docker = self.docker().expect("an image requires an engine");
        let environment = self.plan.task.environment();
        let privileges = match environment {
            Some(environment) => Privileges::Usual {
                user: environment.user.clone().or_else(|| image.user.clone()),
            },
            None => Privileges::Hardened {
                user: self.agent_user(image),
            },
        };
        let reach = self.reach();
        let mut limits = limits(docker.settings.limits, environment);
        let mut main = None;
        let mut network = match reach {
            Network::Open => ContainerNetwork::Open,
            _ => ContainerNetwork::None,
        };
        if let Some(compose) = environment.and_then(|it| it.compose.as_ref()) {
            if compose.main.networks.is_empty() {
                network = ContainerNetwork::None;
            }
            let started = self.start_services(compose, image, &reach).await?;
            limits = started.limits(limits);
            main = Some((compose.main_name.clone(), started.main));
        }
        let user = match &privileges {
            Privileges::Hardened { user } => Some(user.clone()),
            Privileges::Usual { user } => user.clone(),
        };
        let exec_env = docker.exec_env(ExecEnvSpec {
            image: image.clone(),
            mounts,
            privileges,
            network,
            main,
            limits,
            readiness: environment
                .and_then(|environment| environment.healthcheck.as_ref())
                .map(Into::into),
            sockets: self
                .ways_out(has_models)
                .map(|relays| (model_access::sockets(&trial_dir.path), relays)),
        });
        Ok(TrialContainer {
            exec_env: exec_env.await.map_err(failed)?,
            reach,
            user,
            limits,
        })
    }

    /// Records the container that the trial uses from now on.
    pub(super) fn enter(&mut self, made: TrialContainer) -> ExecEnv {
        if let SandboxRecord::Docker(record) = &mut self.record.sandbox {
            made.reach.as_str().clone_into(&mut record.network);
            record.user = made.user;
            record.limits = made.limits.into();
            let by = made.exec_env.container.disk_limit();
            record.disk_limit = by.map(|by| by.as_str().to_owned());
        }
        ExecEnv::Docker(Box::new(made.exec_env))
    }

    /// The ports of the container that are forwarded to Proctor.
    fn ways_out(&self, has_models: bool) -> Option<Vec<Relay>> {
        let mut relays = Vec::new();
        if has_models {
            relays.push(model_access::relay());
        }
        if self
            .contestants()
            .any(|it| self.plan_of(it).agent.wants_socket())
        {
            relays.push(Relay {
                listen: CONTROL_INSIDE,
                socket: format!("/proctor/run/{CONTROL_SOCKET}").into(),
            });
        }
        (!relays.is_empty()).then_some(relays)
    }

    /// The trial's network: the suite's, else the task's.
    pub(super) fn reach(&self) -> Network {
        let asked = self.docker().map(|docker| &docker.settings.network);
        let refuses_gateway = self
            .docker()
            .is_some_and(|docker| docker.settings.refuses_gateway);
        let task = self.plan.task.environment();
        match (asked, task) {
            (Some(Some(asked)), _) => asked.clone(),
            (None, _) => Network::Open,
            (_, Some(environment)) => environment.network.clone().unwrap_or(Network::Open),
            // Without a gateway an open network is the only access to models.
            (_, None) if refuses_gateway && self.context.models.is_none() => Network::Open,
            (_, None) => Network::Gateway,
        }
    }

    /// The user of a repo task's workspace: never root, to limit its privileges.
    fn agent_user(&self, image: &Image) -> String {
        if let Some(uid) = platform::OWNER_IN_ARCHIVES {
            return format!("{uid}:{uid}");
        }
        if !self.context.host.is_root {
            let (uid, gid) = self.context.host.ids;
            return format!("{uid}:{gid}");
        }
        let named = image.user.as_deref().and_then(|user| user.parse().ok());
        let uid = named.filter(|uid| *uid != 0).unwrap_or(AGENT);
        format!("{uid}:{uid}")
    }

    /// Changes the owner of these files and directories to the user in the container.
    pub(super) async fn hand_over(
        &self,
        exec_env: &ExecEnv,
        all: &[&Utf8Path],
    ) -> Result<(), NotRun> {
        let (SandboxRecord::Docker(record), ExecEnv::Docker(exec_env)) =
            (&self.record.sandbox, exec_env)
        else {
            return Ok(());
        };
        let Some(user) = record.user.as_deref().filter(|_| self.context.host.is_root) else {
            return Ok(());
        };
        let mut uid = user.split(':').next().and_then(|uid| uid.parse().ok());
        if uid.is_none() {
            // User names are defined in the image.
            let said = exec_env.ask(&["id", "-u"], ASKED).await.map_err(failed)?;
            uid = said.and_then(|said| said.trim().parse().ok());
        }
        let Some(uid) = uid else {
            return Ok(());
        };
        for path in all {
            dir::give(path.as_std_path(), uid)?;
        }
        Ok(())
    }

    /// Creates the folders of logs and artifacts in a task's container.
    pub(super) async fn make_logs(&self, exec_env: &ExecEnv) -> Result<(), NotRun> {
        if let ExecEnv::Docker(exec_env) = exec_env {
            let stage = self.private.join("root");
            evaluate::make_logs(&stage)?;
            let uploaded = exec_env.container.upload(stage.as_std_path(), "/");
            uploaded.await.map_err(failed)?;
        }
        Ok(())
    }

    /// The files of a task's image, before the agent runs.
    pub(super) async fn files_of_image(&self, exec_env: &ExecEnv) -> Result<Source, NotRun> {
        let path = self.private.join("files");
        fs::create_dir_all(&path)?;
        self.bring_out(exec_env, &path).await.map_err(failed)?;
        Ok(Source::Folder { path })
    }

    /// Copies the working directory of the container to `to`.
    pub(super) async fn bring_out(
        &self,
        exec_env: &ExecEnv,
        to: &Utf8Path,
    ) -> Result<(), EngineError> {
        match exec_env {
            ExecEnv::Docker(exec_env) => {
                let from = self.workdir_in(exec_env);
                exec_env
                    .container
                    .download(from.as_str(), to.as_std_path())
                    .await
            }
            ExecEnv::Local => Ok(()),
        }
    }

    /// Starts to remove the container of a repo task: its files are outside, and judges have their
    /// own containers.
    pub(super) fn dismiss(&self, exec_env: &ExecEnv) {
        let is_local = self.docker().is_some_and(|docker| docker.engine.is_local());
        if let (true, ExecEnv::Docker(exec_env), None) =
            (is_local, exec_env, self.plan.task.environment())
        {
            exec_env.container.dismiss();
        }
    }

    /// Removes the container. If that fails, the next run removes it.
    pub(super) async fn leave(&mut self, exec_env: ExecEnv) {
        self.keep_service_logs(&exec_env).await;
        if let ExecEnv::Docker(exec_env) = exec_env
            && let Err(error) = exec_env.container.remove().await
        {
            self.record.notes.push(chain(&error));
        }
    }

    /// The agent's working directory, as a path inside its environment.
    pub(super) fn workdir(&self, site: &Site) -> Utf8PathBuf {
        match &site.exec_env {
            ExecEnv::Docker(exec_env) => self.workdir_in(exec_env),
            ExecEnv::Local => site.workspace.path().to_owned(),
        }
    }

    pub(super) fn workdir_in(&self, exec_env: &ContainerEnv) -> Utf8PathBuf {
        let Some(environment) = self.plan.task.environment() else {
            return WORKSPACE.into();
        };
        let asked = environment.workdir.clone();
        asked.unwrap_or_else(|| exec_env.image.workdir.clone().into())
    }
}

/// The mount of a CLI that was installed for a contestant.
fn package_mount(contestant: Contestant, package: &InstalledPackage) -> Mount {
    Mount {
        host: package.folder.clone(),
        inside: packages::inside(contestant.index()),
        access: Access::Shared,
    }
}

/// The limits of the suite, else of the task.
fn limits(asked: ResourceLimits, environment: Option<&Environment>) -> ResourceLimits {
    let task = environment.map_or_else(ResourceLimits::default, |environment| ResourceLimits {
        cpus: environment.cpus,
        memory: environment.memory_mb.map(|mb| mb << 20),
        pids: environment.pids.and_then(|pids| pids.try_into().ok()),
        disk: environment.storage_mb.map(|mb| mb << 20),
    });
    ResourceLimits {
        cpus: asked.cpus.or(task.cpus),
        memory: asked.memory.or(task.memory),
        pids: asked.pids.or(task.pids),
        disk: asked.disk.or(task.disk),
    }
}

/// The error for a missing image. Without the agent's own image no trial of that agent can run.
fn missing(error: &EngineError, is_tasks: bool) -> NotRun {
    let hint = error.hint().unwrap_or_default();
    NotRun::Infrastructure {
        outcome: if is_tasks {
            Outcome::Sandbox
        } else {
            Outcome::NotInstalled
        },
        code: "IMAGE_MISSING",
        message: format!("{error}; {hint}"),
    }
}

/// The infrastructure failure of an engine error.
#[expect(clippy::needless_pass_by_value, reason = "the signature for `map_err`")]
pub(super) fn failed(error: EngineError) -> NotRun {
    NotRun::Infrastructure {
        outcome: Outcome::Sandbox,
        code: "SANDBOX_FAILED",
        message: chain(&error),
    }
}
