//! The place of one trial, or of one judgement: this machine, or a container. Paths are said as
//! they are on this machine; a room knows how they are seen inside.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Command, Job, JobInput, Limits, Output, Process, REMOVE, Readiness, Relay, Service, Stdin,
    TerminalSize,
};
use proctor_record::{fs::dir, platform};

use super::{
    DockerSandbox, Running,
    docker::{
        BINARY, Container, ContainerSpec, EngineError, Hardening, Image, Mount,
        Network as EngineNetwork, Root, Tmpfs,
    },
};
use crate::{ResourceLimits, host::Host};

/// Where commands run.
pub enum Room {
    /// On this machine.
    Local,
    /// In a container.
    Docker(Box<DockerRoom>),
}

/// A container with a view of this machine's folders.
pub struct DockerRoom {
    /// The container.
    pub container: Container,
    /// Its image.
    pub image: Image,
    /// The user of commands, if it differs from the container's user.
    user: Option<String>,
    /// The service next to them.
    service: Option<Service>,
    /// When they may start.
    readiness: Option<Readiness>,
    view: Vec<View>,
    relays: Vec<Relay>,
}

/// A folder of this machine and where it is seen inside.
#[derive(Clone, Debug)]
pub struct View {
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
    /// Only reading, and it never changes: engines elsewhere get one copy for all containers.
    Shared,
    /// Reading and writing.
    Write,
}

/// The options of an execution environment.
pub struct RoomSpec {
    /// Its image.
    pub image: Image,
    /// Folders that it sees.
    pub view: Vec<View>,
    /// How much it may do.
    pub rights: Rights,
    /// Whether it reaches the network.
    pub network: EngineNetwork,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// When its commands may start; as the image says when `None`.
    pub readiness: Option<Readiness>,
    /// A folder of sockets and the ports that lead to them.
    pub sockets: Option<(Utf8PathBuf, Vec<Relay>)>,
}

/// How much the commands of a room may do.
#[derive(Clone, Debug)]
pub enum Rights {
    /// Nothing beyond the folders that they see: this user, no capabilities, a read-only root.
    Hardened {
        /// `uid:gid`.
        user: String,
    },
    /// The default privileges of containers, as this user of the image.
    Usual {
        /// As images write it; root when `None`.
        user: Option<String>,
    },
}

impl RoomSpec {
    /// A room that sees nothing and reaches nothing, for a question.
    pub fn plain(image: Image) -> RoomSpec {
        RoomSpec {
            image,
            view: Vec::new(),
            rights: Rights::Hardened {
                user: "65534:65534".to_owned(),
            },
            network: EngineNetwork::None,
            limits: ResourceLimits::default(),
            readiness: None,
            sockets: None,
        }
    }
}

impl DockerSandbox {
    /// Make a room.
    pub async fn room(&self, spec: RoomSpec) -> Result<DockerRoom, EngineError> {
        let mut container = ContainerSpec::new(spec.image.id.clone());
        container.labels = self.labels();
        for view in &spec.view {
            let mount = Mount {
                host: view.host.clone().into(),
                inside: view.inside.to_string(),
                read_only: view.access != Access::Write,
            };
            match view.access {
                Access::Shared => container.shared.push(mount),
                Access::Read | Access::Write => container.mounts.push(mount),
            }
        }
        container.network = spec.network;
        container.cpus = spec.limits.cpus;
        container.memory = spec.limits.memory;
        container.pids = spec.limits.pids;
        container.disk = spec.limits.disk;
        let user = match spec.rights {
            Rights::Hardened { user } => {
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
            Rights::Usual { user } => {
                container.hardening = Hardening::Default;
                user
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
        let is_usual = container.hardening == Hardening::Default;
        let healthcheck = spec.image.healthcheck.clone();
        Ok(DockerRoom {
            container: self.engine.create(container).await?,
            service: entry_point(&spec.image).filter(|_| is_usual),
            readiness: spec.readiness.or(healthcheck).filter(|_| is_usual),
            image: spec.image,
            user,
            view: spec.view,
            relays,
        })
    }
}

/// The image's entry point, kept running as Harbor does it: with a command that never ends.
fn entry_point(image: &Image) -> Option<Service> {
    let idle = ["sh", "-c", "sleep infinity"].map(str::to_owned);
    (!image.entrypoint.is_empty()).then(|| Service {
        argv: image.entrypoint.iter().cloned().chain(idle).collect(),
        user: image.user.clone(),
    })
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Here.
    #[error(transparent)]
    Local(#[from] proctor_process::Error),
    /// In a container.
    #[error(transparent)]
    Container(#[from] EngineError),
    /// It is a shell script, and there is no shell.
    #[error(
        "a shell script needs `sh`, which is neither on PATH nor beside git: Git for Windows brings one along"
    )]
    NoShell,
}

impl Room {
    /// A path of this machine as it is seen inside.
    pub fn inside(&self, host: &Utf8Path) -> Utf8PathBuf {
        match self {
            Room::Local => host.to_owned(),
            Room::Docker(room) => room.inside(host),
        }
    }

    /// Where the folders of this machine are seen inside; none where nothing is translated.
    pub fn roots(&self) -> Vec<&str> {
        match self {
            Room::Local => Vec::new(),
            Room::Docker(room) => room.view.iter().map(|view| view.inside.as_str()).collect(),
        }
    }

    /// A path inside as it is on this machine.
    pub fn outside(&self, inside: &Utf8Path) -> Utf8PathBuf {
        match self {
            Room::Local => inside.to_owned(),
            Room::Docker(room) => translate(
                room.view.iter().map(|view| (&view.inside, &view.host)),
                inside,
            ),
        }
    }

    /// The environment that every command here gets: where programs are, a HOME of its own, and
    /// no secrets.
    pub fn env(&self, host: &Host, home: &Utf8Path) -> BTreeMap<String, String> {
        match self {
            Room::Local => host.clean_env(home),
            Room::Docker(room) => container_env(&room.image, &room.inside(home)),
        }
    }

    /// Remove what a command left in folders of this machine where only copies of them are seen.
    pub async fn empty(&self, folders: &[&Utf8Path]) -> Result<(), EngineError> {
        if let Room::Docker(room) = self
            && !room.container.shares_folders()
        {
            for folder in folders {
                room.empty(room.inside(folder).as_str()).await?;
            }
        }
        Ok(())
    }

    /// When anything in a folder, as it is seen inside, was changed last. Where the folder is on
    /// this machine that is read from it; else the container is asked for its files.
    pub async fn newest_change(
        &self,
        folder: &Utf8Path,
    ) -> Result<Option<SystemTime>, EngineError> {
        let here = self.outside(folder);
        match self {
            Room::Docker(room) if !room.container.shares_folders() || here == folder => {
                room.container.newest_change(folder.as_str()).await
            }
            _ => {
                let look = move || dir::newest_change(here.as_std_path());
                let looked = tokio::task::spawn_blocking(look).await;
                Ok(looked.ok().flatten())
            }
        }
    }

    /// Whether times of files here are by this machine's clock.
    pub fn shares_clock(&self) -> bool {
        match self {
            Room::Local => true,
            Room::Docker(room) => room.container.shares_folders(),
        }
    }

    /// Begin to remove what was made for it; [`leave`](Self::leave) waits for that.
    pub fn dismiss(&self) {
        if let Room::Docker(room) = self {
            room.container.dismiss();
        }
    }

    /// Remove what was made for it.
    pub async fn leave(self) -> Result<(), EngineError> {
        match self {
            Room::Local => Ok(()),
            Room::Docker(room) => room.container.remove().await,
        }
    }

    /// Start a command; its folder and arguments are as they are seen inside.
    pub async fn start(&self, command: Command, host: &Host) -> Result<Running, StartError> {
        match self {
            Room::Local => {
                let command = with_shell(command, host)?;
                let process = Process::spawn(command, &host.supervisor).await?;
                Ok(Running::Local(Box::new(process)))
            }
            Room::Docker(room) => Ok(room.start(command, room.user.clone()).await?),
        }
    }
}

/// The command with the `sh` of this machine, which need not be on PATH on Windows.
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

impl DockerRoom {
    fn inside(&self, host: &Utf8Path) -> Utf8PathBuf {
        translate(
            self.view.iter().map(|view| (&view.host, &view.inside)),
            host,
        )
    }

    /// Start a command as a user of the image, with what has to run beside it.
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
        let roots: Vec<&str> = self.view.iter().map(|view| view.inside.as_str()).collect();
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

    /// Remove what is in a folder of the container.
    async fn empty(&self, folder: &str) -> Result<(), EngineError> {
        let empty = ["find", folder, "-mindepth", "1", "-delete"];
        let root = Some("0:0".to_owned());
        let limit = std::time::Duration::from_mins(5);
        match self.ask_as(root, &empty, limit).await? {
            Some(Answer { is_good: true, .. }) => Ok(()),
            other => Err(EngineError::Refused {
                doing: format!("empty {folder}"),
                status: 0,
                message: other.map_or_else(
                    || "there is no `find` in the image".to_owned(),
                    |answer| answer.said,
                ),
            }),
        }
    }

    /// Remove files and folders of the container, as root and without any program of its image. No link is followed.
    pub async fn remove(&self, paths: &[&str]) -> Result<(), EngineError> {
        self.container.renew_binary().await?;
        let argv: Vec<&str> = [BINARY, REMOVE].iter().chain(paths).copied().collect();
        let root = Some("0:0".to_owned());
        let limit = std::time::Duration::from_mins(5);
        match self.ask_as(root, &argv, limit).await? {
            Some(Answer { is_good: true, .. }) => Ok(()),
            other => Err(EngineError::Refused {
                doing: format!("remove {}", paths.join(" and ")),
                status: 0,
                message: other.map_or_else(String::new, |answer| answer.said),
            }),
        }
    }

    /// Put the files of a folder of this machine in the place of what is in a folder of the image.
    pub async fn replace(&self, files: &std::path::Path, folder: &str) -> Result<(), EngineError> {
        // Files that the agent removed must not come back.
        self.empty(folder).await?;
        self.container.upload(files, folder).await
    }

    /// Run a short command to its end and say what it printed; `None` when it is not there.
    pub async fn ask(
        &self,
        argv: &[&str],
        limit: std::time::Duration,
    ) -> Result<Option<String>, EngineError> {
        let answer = self.ask_as(self.user.clone(), argv, limit).await?;
        Ok(answer.map(|answer| answer.said))
    }

    async fn ask_as(
        &self,
        user: Option<String>,
        argv: &[&str],
        limit: std::time::Duration,
    ) -> Result<Option<Answer>, EngineError> {
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
        let job = self.job(&command, user);
        let mut running = self.start_job(job, command).await?;
        let mut said = Vec::new();
        loop {
            match running.next().await {
                Ok(Event::Output { bytes, .. }) => said.extend_from_slice(bytes),
                Ok(Event::Ended(report)) => {
                    return Ok(Some(Answer {
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
struct Answer {
    said: String,
    is_good: bool,
}

/// `path` with the longest matching start replaced.
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
    fn the_longest_start_counts() {
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
