//! A trial in a container: its image, what of this machine it sees, and how its files come out.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::Relay;

use super::{Contestant, Trial, TrialError, chain, prepare::NotRun};
use crate::{
    area::Area,
    availability,
    fs::dir,
    model_access,
    outcome::Outcome,
    packages::{self, InstalledPackage, PythonVersion},
    platform,
    record::{
        ContainerRecord, SandboxRecord,
        cli::{Cli, Installed},
    },
    sandbox::{
        Access, DockerRoom, DockerSandbox, Network, ResourceLimits, Rights, Room, RoomSpec,
        Sandbox, View,
        docker::{EngineError, Image, Network as EngineNetwork},
    },
    task::{self, Environment},
    workspace::source::Source,
};

/// Where the workspace of a repo's task is seen.
const WORKSPACE: &str = "/workspace";
/// The socket of agents that connect to their driver.
pub(super) const CONTROL_SOCKET: &str = "control.sock";
/// The port in containers from which that is reached.
pub(super) const CONTROL_INSIDE: SocketAddr = SocketAddr::new(
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    model_access::PORT_INSIDE + 1,
);
/// Where the agent's HOME is seen.
pub(super) const HOME: &str = "/proctor/home";
/// Where the trial's own files are seen.
const SCRATCH: &str = "/proctor/scratch";
/// The agent's user if Proctor runs as root and the image has no user.
const AGENT: u32 = 1000;
/// How long a program may take to tell its version or its options: the first time its files are
/// read, on a machine that has much to do.
const ASKED: Duration = Duration::from_mins(2);

/// A container that was made for a trial, and what the record says about it.
pub(super) struct Made {
    room: DockerRoom,
    reach: Network,
    user: Option<String>,
    limits: ResourceLimits,
}

impl Trial<'_> {
    /// The engine, when the trial runs in a container.
    pub(super) fn docker(&self) -> Option<&DockerSandbox> {
        match self.context.sandbox {
            Sandbox::Local => None,
            Sandbox::Docker(docker) => Some(docker),
        }
    }

    /// The image that the trial runs in; `None` without containers.
    pub(super) async fn image(&mut self) -> Result<Option<Image>, NotRun> {
        let Some(docker) = self.docker() else {
            return Ok(None);
        };
        let environment = self.plan.task.environment();
        let (name, image) = match environment.map(|environment| &environment.image) {
            Some(task::Image::Named(name)) => (name.clone(), docker.image(name).await),
            Some(task::Image::Build {
                context,
                dockerfile,
            }) => {
                let mut said = String::new();
                let keep = |line: &str| said.push_str(line);
                let limit = environment.map(|environment| environment.build_timeout);
                let image = docker.build(context, dockerfile, limit, keep).await;
                // The log helps those who read it; the image does not depend on it.
                let _ = fs::write(self.artifacts.join("build.log"), said);
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
                (name.to_owned(), docker.image(name).await)
            }
        };
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
        self.record.sandbox = SandboxRecord::Docker(Box::new(record));
        let is_tasks = environment.is_some();
        let image = image.map_err(|error| match error {
            EngineError::ImageMissing { .. } => missing(&error, is_tasks),
            error => failed(error),
        });
        Ok(Some(image?))
    }

    /// The CLI of a contestant in the image, or the one that was installed beside the image.
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
            let mut spec = RoomSpec::plain(image.clone());
            spec.view
                .extend(package.map(|package| package_view(contestant, package)));
            let room = docker.room(spec).await?;
            let version = [&[program.as_str()], cli.version_args].concat();
            let Some(version) = room.ask(&version, ASKED).await? else {
                return Ok(None);
            };
            let version = availability::version_in(&version);
            if version.is_none() && package.is_some() {
                // The shell that starts it is there, and it is not.
                return Ok(None);
            }
            let help = [&[program.as_str()], cli.help_args].concat();
            let help = room.ask(&help, ASKED).await?.unwrap_or_default();
            room.container.remove().await?;
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

    /// The version of Python in the image; `None` when there is none.
    pub(super) async fn python_in(&self, image: &Image) -> Result<Option<PythonVersion>, NotRun> {
        let Some(docker) = self.docker() else {
            return Ok(None);
        };
        let ask = Box::pin(async {
            let room = docker.room(RoomSpec::plain(image.clone())).await?;
            let said = room.ask(&["python3", "--version"], ASKED).await?;
            room.container.remove().await?;
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

    /// Make the container that sees `workspace`, or for a task that brings its own files, one
    /// whose working directory becomes the workspace.
    pub(super) async fn make_room(
        &self,
        image: &Image,
        area: &Area,
        workspace: Option<&Utf8Path>,
    ) -> Result<Made, NotRun> {
        let docker = self
            .docker()
            .expect("there is an image only with an engine");
        let environment = self.plan.task.environment();
        let mut view = vec![
            View {
                host: area.home.clone(),
                inside: HOME.into(),
                access: Access::Write,
            },
            View {
                host: area.scratch.clone(),
                inside: SCRATCH.into(),
                access: Access::Write,
            },
        ];
        for contestant in self.contestants() {
            let package = self.tools.get(&contestant);
            let package = package.and_then(|tools| tools.package.as_ref());
            view.extend(package.map(|package| package_view(contestant, package)));
            view.extend(self.script_view(area, contestant)?);
        }
        view.extend(workspace.map(|path| View {
            host: path.to_owned(),
            inside: WORKSPACE.into(),
            access: Access::Write,
        }));
        let rights = match environment {
            Some(environment) => Rights::Usual {
                user: environment.user.clone().or_else(|| image.user.clone()),
            },
            None => Rights::Hardened {
                user: self.agent_user(image),
            },
        };
        let reach = self.reach();
        let limits = limits(docker.settings.limits, environment);
        let user = match &rights {
            Rights::Hardened { user } => Some(user.clone()),
            Rights::Usual { user } => user.clone(),
        };
        let room = docker.room(RoomSpec {
            image: image.clone(),
            view,
            rights,
            network: match reach {
                Network::Open => EngineNetwork::Open,
                _ => EngineNetwork::None,
            },
            limits,
            readiness: environment
                .and_then(|environment| environment.healthcheck.as_ref())
                .map(Into::into),
            sockets: self
                .ways_out()
                .map(|relays| (model_access::sockets(&area.path), relays)),
        });
        Ok(Made {
            room: room.await.map_err(failed)?,
            reach,
            user,
            limits,
        })
    }

    /// Work in this container from now on.
    pub(super) fn enter(&mut self, made: Made) {
        if let SandboxRecord::Docker(record) = &mut self.record.sandbox {
            made.reach.as_str().clone_into(&mut record.network);
            record.user = made.user;
            record.limits = made.limits.into();
            let by = made.room.container.disk_limit();
            record.disk_limit = by.map(|by| by.as_str().to_owned());
        }
        self.room = Room::Docker(Box::new(made.room));
    }

    /// The ports of the container that lead to us.
    fn ways_out(&self) -> Option<Vec<Relay>> {
        let mut relays = Vec::new();
        if self.models.is_some() {
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

    /// The trial's network: that of the suite, else of the task.
    pub(super) fn reach(&self) -> Network {
        let asked = self.docker().map(|docker| &docker.settings.network);
        let refuses_gateway = self
            .docker()
            .is_some_and(|docker| docker.settings.refuses_gateway);
        let task = self.plan.task.environment();
        match (asked, task.map(|environment| &environment.network)) {
            (Some(Some(asked)), _) => asked.clone(),
            (None, _) | (_, Some(None | Some(task::Network::Public))) => Network::Open,
            // Without a gateway there is no other way to a model.
            (_, None) if refuses_gateway && self.context.models.is_none() => Network::Open,
            (_, None) => Network::Gateway,
            (_, Some(Some(task::Network::NoNetwork))) => Network::None,
            (_, Some(Some(task::Network::Allowlist(hosts)))) => Network::Allowlist(hosts.clone()),
        }
    }

    /// The user that works in a repo's workspace: never root, so that what it may do is little.
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

    /// Gives these files and directories to the user in the container.
    pub(super) async fn hand_over(&self, all: &[&Utf8Path]) -> Result<(), NotRun> {
        let (SandboxRecord::Docker(record), Room::Docker(room)) =
            (&self.record.sandbox, &self.room)
        else {
            return Ok(());
        };
        let Some(user) = record.user.as_deref().filter(|_| self.context.host.is_root) else {
            return Ok(());
        };
        let mut uid = user.split(':').next().and_then(|uid| uid.parse().ok());
        if uid.is_none() {
            // Only the image knows who bears a name.
            let said = room.ask(&["id", "-u"], ASKED).await.map_err(failed)?;
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

    /// The files of a task's image, as they are before the agent.
    pub(super) async fn files_of_image(&mut self) -> Result<Source, NotRun> {
        let path = self.private.join("files");
        fs::create_dir_all(&path)?;
        self.bring_out(&path).await.map_err(failed)?;
        Ok(Source::Folder { path })
    }

    /// Bring the working directory of the container to `to`.
    pub(super) async fn bring_out(&self, to: &Utf8Path) -> Result<(), EngineError> {
        match &self.room {
            Room::Docker(room) => {
                let from = self.workdir();
                room.container
                    .download(from.as_str(), to.as_std_path())
                    .await
            }
            Room::Local => Ok(()),
        }
    }

    /// Begin to remove the container of a repo's task: its files are outside, and judges have
    /// containers of their own.
    pub(super) fn dismiss(&self) {
        let is_local = self.docker().is_some_and(|docker| docker.engine.is_local());
        if let (true, Room::Docker(room), None) =
            (is_local, &self.room, self.plan.task.environment())
        {
            room.container.dismiss();
        }
    }

    /// Remove the container. Should that fail, the next run sweeps it.
    pub(super) async fn leave(&mut self) {
        if let Room::Docker(room) = std::mem::replace(&mut self.room, Room::Local)
            && let Err(error) = room.container.remove().await
        {
            self.record.notes.push(chain(&error));
        }
    }

    /// Where the agent works, as it is seen inside.
    pub(super) fn workdir(&self) -> Utf8PathBuf {
        match (&self.room, self.plan.task.environment()) {
            (Room::Docker(room), Some(environment)) => environment
                .workdir
                .clone()
                .unwrap_or_else(|| room.image.workdir.clone().into()),
            (Room::Docker(_), None) => WORKSPACE.into(),
            (Room::Local, _) => self
                .workspace
                .as_ref()
                .map_or_else(Utf8PathBuf::new, |workspace| workspace.path().to_owned()),
        }
    }
}

/// A CLI that was installed for a contestant, as containers see it.
fn package_view(contestant: Contestant, package: &InstalledPackage) -> View {
    View {
        host: package.folder.clone(),
        inside: packages::inside(contestant.index()),
        access: Access::Shared,
    }
}

/// The values of the suite, else of the task.
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

/// An image that is not there. Without the agent's own no trial of that agent can run.
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

/// An engine that does not play along says nothing about the agent.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(super) fn failed(error: EngineError) -> NotRun {
    NotRun::Infrastructure {
        outcome: Outcome::Sandbox,
        code: "SANDBOX_FAILED",
        message: chain(&error),
    }
}
