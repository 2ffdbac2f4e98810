//! The execution environment of a trial or of a judging command: this machine, or a container.
//! Paths are given as on this machine; the environment translates them for its commands.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Background, Command, Job, JobInput, Limits, Output, PAUSE, Process, REMOVE, Readiness, Relay,
    Service, Stdin, TerminalSize,
};
use proctor_record::{fs::dir, platform};

use super::{
    DockerSandbox, Running,
    docker::{
        BINARY, BindMount, Container, ContainerNetwork, ContainerSpec, EngineError, Hardening,
        Image, MainService, Root, Tmpfs,
    },
};
use crate::{ResourceLimits, docker::ServiceSettings, host::Host};

/// The environment of commands.
pub enum ExecEnv {
    /// On this machine.
    Local,
    /// In a container.
    Docker(Box<ContainerEnv>),
}

/// A container with mounted directories of this machine.
pub struct ContainerEnv {
    /// The container.
    pub container: Container,
    /// Its image.
    pub image: Image,
    /// The user of commands, if it differs from the container's user.
    user: Option<String>,
    /// The service that runs next to them.
    service: Option<Service>,
    /// The readiness check before they start.
    readiness: Option<Readiness>,
    mounts: Vec<Mount>,
    relays: Vec<Relay>,
}

/// A directory of this machine and its path inside.
#[derive(Clone, Debug)]
pub struct Mount {
    /// On this machine.
    pub host: Utf8PathBuf,
    /// Inside.
    pub inside: Utf8PathBuf,
    /// The permitted access.
    pub access: Access,
}

/// The permitted access to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reading.
    Read,
    /// Only reading, and it never changes: remote engines get one copy for all containers.
    Shared,
    /// Reading and writing.
    Write,
}

/// The options of an execution environment.
pub struct ExecEnvSpec {
    /// Its image.
    pub image: Image,
    /// The mounted directories.
    pub mounts: Vec<Mount>,
    /// The privileges of its commands.
    pub privileges: Privileges,
    /// The network.
    pub network: ContainerNetwork,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// Its role in a compose environment, with its own networks.
    pub main: Option<(String, MainService)>,
    /// The readiness check of its commands; the image's by default.
    pub readiness: Option<Readiness>,
    /// A directory of sockets and the ports that are forwarded to them.
    pub sockets: Option<(Utf8PathBuf, Vec<Relay>)>,
}

/// The privileges of commands.
#[derive(Clone, Debug)]
pub enum Privileges {
    /// Only the mounted directories: this user, no capabilities, a read-only root.
    Hardened {
        /// `uid:gid`.
        user: String,
    },
    /// The default privileges of containers, with this user of the image.
    Usual {
        /// The user in the image's format; root if `None`.
        user: Option<String>,
    },
}

impl ExecEnvSpec {
    /// An environment without mounts and network, for a probe.
    pub fn plain(image: Image) -> ExecEnvSpec {
        ExecEnvSpec {
            image,
            mounts: Vec::new(),
            privileges: Privileges::Hardened {
                user: "65534:65534".to_owned(),
            },
            network: ContainerNetwork::None,
            limits: ResourceLimits::default(),
            main: None,
            readiness: None,
            sockets: None,
        }
    }
}

impl DockerSandbox {
    /// Creates an environment.
    pub async fn exec_env(&self, spec: ExecEnvSpec) -> Result<ContainerEnv, EngineError> {
        let mut container = ContainerSpec::new(spec.image.id.clone());
        container.labels = self.labels();
        for mount in &spec.mounts {
            let bind = BindMount {
                host: mount.host.clone().into(),
                inside: mount.inside.to_string(),
                read_only: mount.access != Access::Write,
            };
            match mount.access {
                Access::Shared => container.shared.push(bind),
                Access::Read | Access::Write => container.mounts.push(bind),
            }
        }
        container.network = spec.network;
        container.cpus = spec.limits.cpus;
        container.memory = spec.limits.memory;
        container.pids = spec.limits.pids;
        container.disk = spec.limits.disk;
        let user = match spec.privileges {
            Privileges::Hardened { user } => {
                container.user = Some(user);
                container.root = Root::ReadOnly;
                container.tmpfs = ["/tmp", "/var/tmp", "/run"]
                    .map(|inside| Tmpfs {
                        inside: inside.to_owned(),
                        size: None,
                    })
                    .into();
                None
            }
            Privileges::Usual { user } => {
                container.hardening = Hardening::Default;
                // A named user has its own home.
                user.or_else(|| Some("0:0".to_owned()))
            }
        };
        let relays = match spec.sockets {
            None => Vec::new(),
            Some((folder, relays)) => {
                container.sockets = Some(folder.into());
                container.relays.clone_from(&relays);
                relays
            }
        };
        let mut service = entry_point(&spec.image);
        if let Some((name, main)) = spec.main {
            if main.services.has_networks() {
                let endpoints = main.services.endpoints(&name, &main.settings);
                container.network = ContainerNetwork::Joined(endpoints);
            }
            container
                .tmpfs
                .extend(main.settings.tmpfs.iter().map(|path| Tmpfs {
                    inside: path.split(':').next().unwrap_or_default().to_owned(),
                    size: None,
                }));
            service = main_process(&spec.image, &main.settings).or(service);
            container.service = Some(main);
        }
        let is_usual = container.hardening == Hardening::Default;
        let healthcheck = spec.image.healthcheck.clone();
        Ok(ContainerEnv {
            container: self.engine.create(container).await?,
            service: service.filter(|_| is_usual),
            readiness: spec.readiness.or(healthcheck).filter(|_| is_usual),
            image: spec.image,
            user,
            mounts: spec.mounts,
            relays,
        })
    }
}

/// The image's entry point, kept running like in Harbor: with a command that never ends.
fn entry_point(image: &Image) -> Option<Service> {
    let idle = ["sh", "-c", "sleep infinity"].map(str::to_owned);
    (!image.entrypoint.is_empty()).then(|| Service {
        argv: image.entrypoint.clone(),
        command: idle.into(),
        user: image.user.clone(),
    })
}

/// The process of a main service whose compose file has a command or an entry point.
fn main_process(image: &Image, settings: &ServiceSettings) -> Option<Service> {
    let command = settings.command.as_ref();
    let entrypoint = settings.entrypoint.as_ref();
    let is_idle = command.is_none_or(|command| is_idle(command));
    let argv = entrypoint.unwrap_or(&image.entrypoint).clone();
    match (argv.is_empty(), is_idle) {
        // Nothing but the command that keeps a container alive.
        (true, true) => None,
        // An entry point runs the idle command when it is ready.
        (false, true) if entrypoint.is_none() => None,
        (_, is_idle) => {
            let command = command.filter(|_| !is_idle).cloned().unwrap_or_default();
            Some(Service {
                argv: [argv, command].concat(),
                command: Vec::new(),
                user: settings.user.clone().or_else(|| image.user.clone()),
            })
        }
    }
}

/// Whether a command only keeps a container alive.
fn is_idle(command: &[String]) -> bool {
    let line = command.join(" ");
    let line = line
        .trim_start_matches("sh -c ")
        .trim_start_matches("bash -c ");
    matches!(line, "" | "sleep infinity" | "tail -f /dev/null")
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// On this machine.
    #[error(transparent)]
    Local(#[from] proctor_process::Error),
    /// In a container.
    #[error(transparent)]
    Container(#[from] EngineError),
    /// It is a shell script, and there is no shell.
    #[error(
        "a shell script requires `sh`, which is neither on PATH nor next to git: install Git for Windows, which contains one"
    )]
    NoShell,
}

impl ExecEnv {
    /// The path inside for a path on this machine.
    pub fn inside(&self, host: &Utf8Path) -> Utf8PathBuf {
        match self {
            ExecEnv::Local => host.to_owned(),
            ExecEnv::Docker(exec_env) => exec_env.inside(host),
        }
    }

    /// The mount points of this machine's directories; empty if nothing is translated.
    pub fn roots(&self) -> Vec<&str> {
        match self {
            ExecEnv::Local => Vec::new(),
            ExecEnv::Docker(exec_env) => exec_env
                .mounts
                .iter()
                .map(|mount| mount.inside.as_str())
                .collect(),
        }
    }

    /// The path on this machine for a path inside.
    pub fn outside(&self, inside: &Utf8Path) -> Utf8PathBuf {
        match self {
            ExecEnv::Local => inside.to_owned(),
            ExecEnv::Docker(exec_env) => translate(
                exec_env
                    .mounts
                    .iter()
                    .map(|mount| (&mount.inside, &mount.host)),
                inside,
            ),
        }
    }

    /// The environment of all commands: PATH, a separate HOME, and no secrets.
    pub fn env(&self, host: &Host, home: &Utf8Path) -> BTreeMap<String, String> {
        match self {
            ExecEnv::Local => host.clean_env(home),
            ExecEnv::Docker(exec_env) => container_env(&exec_env.image, &exec_env.inside(home)),
        }
    }

    /// Removes the files of a command in directories that are only copied.
    pub async fn empty(&self, folders: &[&Utf8Path]) -> Result<(), EngineError> {
        if let ExecEnv::Docker(exec_env) = self
            && !exec_env.container.shares_folders()
        {
            for folder in folders {
                exec_env.empty(exec_env.inside(folder).as_str()).await?;
            }
        }
        Ok(())
    }

    /// The newest change in a directory inside. A mounted directory is read on this machine;
    /// otherwise the container's files are requested.
    pub async fn newest_change(
        &self,
        folder: &Utf8Path,
    ) -> Result<Option<SystemTime>, EngineError> {
        let here = self.outside(folder);
        match self {
            ExecEnv::Docker(exec_env) if !exec_env.container.shares_folders() || here == folder => {
                exec_env.container.newest_change(folder.as_str()).await
            }
            _ => {
                let look = move || dir::newest_change(here.as_std_path());
                let looked = tokio::task::spawn_blocking(look).await;
                Ok(looked.ok().flatten())
            }
        }
    }

    /// Whether file times use this machine's clock.
    pub fn shares_clock(&self) -> bool {
        match self {
            ExecEnv::Local => true,
            ExecEnv::Docker(exec_env) => exec_env.container.shares_folders(),
        }
    }

    /// Ends the processes that earlier commands left for later ones.
    pub async fn end_background(&self) -> Result<(), EngineError> {
        match self {
            ExecEnv::Local => Ok(()),
            ExecEnv::Docker(exec_env) => exec_env.container.end_background().await,
        }
    }

    /// Starts to remove its resources; [`leave`](Self::leave) waits for that.
    pub fn dismiss(&self) {
        if let ExecEnv::Docker(exec_env) = self {
            exec_env.container.dismiss();
        }
    }

    /// Removes its resources.
    pub async fn leave(self) -> Result<(), EngineError> {
        match self {
            ExecEnv::Local => Ok(()),
            ExecEnv::Docker(exec_env) => exec_env.container.remove().await,
        }
    }

    /// Starts a command; its working directory and arguments are paths inside.
    pub async fn start(&self, command: Command, host: &Host) -> Result<Running, StartError> {
        match self {
            ExecEnv::Local => {
                let command = with_shell(command, host)?;
                let process = Process::spawn(command, &host.supervisor).await?;
                Ok(Running::Local(Box::new(process)))
            }
            ExecEnv::Docker(exec_env) => Ok(exec_env.start(command, exec_env.user.clone()).await?),
        }
    }
}

/// The command with the `sh` of this machine, which may not be on PATH on Windows.
fn with_shell(mut command: Command, host: &Host) -> Result<Command, StartError> {
    if cfg!(windows) && command.program == "sh" {
        let sh = host.sh().ok_or(StartError::NoShell)?;
        command.program = sh.into_string().into();
    }
    Ok(command)
}

/// The environment of a container's commands.
pub fn container_env(image: &Image, home: &Utf8Path) -> BTreeMap<String, String> {
    let mut env = image.env.clone();
    env.entry("PATH".to_owned()).or_insert_with(|| {
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()
    });
    env.insert("HOME".to_owned(), home.to_string());
    env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    env.insert("TERM".to_owned(), "xterm-256color".to_owned());
    env
}

impl ContainerEnv {
    fn inside(&self, host: &Utf8Path) -> Utf8PathBuf {
        translate(
            self.mounts.iter().map(|mount| (&mount.host, &mount.inside)),
            host,
        )
    }

    /// Starts a command as a user of the image, with the service next to it.
    pub async fn start(
        &self,
        command: Command,
        user: Option<String>,
    ) -> Result<Running, EngineError> {
        let job = Job {
            service: self.service.clone(),
            readiness: self.readiness.clone(),
            ..self.job(&command, user)
        };
        self.start_job(job, command).await
    }

    fn job(&self, command: &Command, user: Option<String>) -> Job {
        let roots: Vec<&str> = self
            .mounts
            .iter()
            .map(|mount| mount.inside.as_str())
            .collect();
        let text = |text: &std::ffi::OsString| {
            platform::slashed_below(&text.to_string_lossy(), &roots).into_owned()
        };
        Job {
            argv: std::iter::once(&command.program)
                .chain(&command.args)
                .map(text)
                .collect(),
            env: command
                .env
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            cwd: platform::slashed(&command.cwd.display().to_string()).into_owned(),
            user,
            input: match command.stdin {
                Stdin::Null => JobInput::Null,
                Stdin::Bytes(_) | Stdin::Open => JobInput::Container,
            },
            terminal: match command.output {
                Output::Pipes => None,
                Output::Pty { columns, rows } => Some(TerminalSize { columns, rows }),
            },
            relays: self.relays.clone(),
            service: None,
            readiness: None,
            wall: None,
            term_grace: command.limits.term_grace,
            leak_grace: command.limits.leak_grace,
            background: command.background,
            has_secret: false,
        }
    }

    async fn start_job(&self, job: Job, command: Command) -> Result<Running, EngineError> {
        let mut process = self.container.start(job, command.limits).await?;
        if let Stdin::Bytes(bytes) = &command.stdin {
            process.send(bytes);
            process.close_stdin();
        }
        Ok(Running::Container(Box::new(process)))
    }

    /// Empties a directory of the container.
    async fn empty(&self, folder: &str) -> Result<(), EngineError> {
        let empty = ["find", folder, "-mindepth", "1", "-delete"];
        let root = Some("0:0".to_owned());
        let limit = std::time::Duration::from_mins(5);
        match self
            .ask_as(root, &empty, (limit, Background::Freeze))
            .await?
        {
            Some(ShortOutput { is_good: true, .. }) => Ok(()),
            other => Err(EngineError::Refused {
                doing: format!("empty {folder}"),
                status: 0,
                message: other.map_or_else(
                    || "the image has no `find`".to_owned(),
                    |answer| answer.said,
                ),
            }),
        }
    }

    /// Removes files and directories of the container, as root and without programs of its image.
    /// Links are not followed.
    pub async fn remove(&self, paths: &[&str]) -> Result<(), EngineError> {
        self.container.renew_binary().await?;
        let argv: Vec<&str> = [BINARY, REMOVE].iter().chain(paths).copied().collect();
        let root = Some("0:0".to_owned());
        let limit = std::time::Duration::from_mins(5);
        match self
            .ask_as(root, &argv, (limit, Background::Freeze))
            .await?
        {
            Some(ShortOutput { is_good: true, .. }) => Ok(()),
            other => Err(EngineError::Refused {
                doing: format!("remove {}", paths.join(" and ")),
                status: 0,
                message: other.map_or_else(String::new, |answer| answer.said),
            }),
        }
    }

    /// Lets background processes go on for a while, without other processes.
    pub async fn run_background(&self, time: std::time::Duration) -> Result<(), EngineError> {
        let millis = time.as_millis().to_string();
        let argv = [BINARY, PAUSE, &millis];
        let limit = time + std::time::Duration::from_mins(1);
        let root = Some("0:0".to_owned());
        self.ask_as(root, &argv, (limit, Background::Keep)).await?;
        Ok(())
    }

    /// Makes a user of the image the user of later commands.
    pub fn set_user(&mut self, user: Option<String>) {
        self.user = user;
    }

    /// Runs a short command and returns its output; `None` if it does not exist.
    pub async fn ask(
        &self,
        argv: &[&str],
        limit: std::time::Duration,
    ) -> Result<Option<String>, EngineError> {
        let answer = self
            .ask_as(self.user.clone(), argv, (limit, Background::Freeze))
            .await?;
        Ok(answer.map(|answer| answer.said))
    }

    async fn ask_as(
        &self,
        user: Option<String>,
        argv: &[&str],
        (limit, background): (std::time::Duration, Background),
    ) -> Result<Option<ShortOutput>, EngineError> {
        use proctor_process::{Event, JobFailure, Status};
        let mut command = Command::new(argv[0], PathBuf::from("/"));
        command.args = argv[1..].iter().map(Into::into).collect();
        command.env = container_env(&self.image, Utf8Path::new("/tmp"))
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        command.limits = Limits {
            wall: Some(limit),
            output: Some(1 << 20),
            ..Limits::default()
        };
        command.background = background;
        let job = self.job(&command, user);
        let mut running = self.start_job(job, command).await?;
        let mut said = Vec::new();
        loop {
            match running.next().await {
                Ok(Event::Output { bytes, .. }) => said.extend_from_slice(bytes),
                Ok(Event::Ended(report)) => {
                    return Ok(Some(ShortOutput {
                        said: String::from_utf8_lossy(&said).into_owned(),
                        is_good: report.exit.status == Some(Status::Code(0)),
                    }));
                }
                Err(EngineError::NotStarted(
                    JobFailure::ProgramNotFound { .. } | JobFailure::NotExecutable { .. },
                )) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The result of a short command.
struct ShortOutput {
    said: String,
    is_good: bool,
}

/// `path` with the longest matching prefix replaced.
fn translate<'a>(
    pairs: impl Iterator<Item = (&'a Utf8PathBuf, &'a Utf8PathBuf)>,
    path: &Utf8Path,
) -> Utf8PathBuf {
    pairs
        .filter_map(|(from, to)| Some((from, to, path.strip_prefix(from).ok()?)))
        .max_by_key(|(from, _, _)| from.as_str().len())
        .map_or_else(
            || path.to_owned(),
            |(_, to, rest)| match rest.as_str() {
                "" => to.clone(),
                rest if to.as_str().starts_with('/') => {
                    format!("{to}/{}", platform::slashed(rest)).into()
                }
                rest => to.join(rest),
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_is_used() {
        let pairs = [("/a", "/x"), ("/a/b", "/y")].map(|(from, to)| (from.into(), to.into()));
        for (path, expect) in [
            ("/a/c", "/x/c"),
            ("/a/b", "/y"),
            ("/a/b/c", "/y/c"),
            ("/ab", "/ab"),
        ] {
            let pairs = pairs.iter().map(|(from, to)| (from, to));
            assert_eq!(translate(pairs, path.into()), expect);
        }
    }
}
