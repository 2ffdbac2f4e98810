//! A Docker engine: its connection, its capabilities, and the removal of leftovers of dead runs.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bollard::models::{
    NetworkConnectRequest, SystemInfo, SystemInfoCgroupDriverEnum, SystemInfoCgroupVersionEnum,
};
use bollard::query_parameters::{
    ListNetworksOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use proctor_process::Supervisor;
use proctor_record::record::EngineRecord;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;

use super::binary::Binary;
use super::served::{ServedAddress, ServingProgram};
use super::spec::NetworkEndpoint;
use super::tunnel::Destination;
use super::{Address, EngineError, podman, state, tunnel};

/// The label with the run of a container, network or volume.
pub const RUN_LABEL: &str = "proctor.run";

const PODMAN: &str = "podman";

/// The timeout after which an engine is considered dead.
const PING: Duration = Duration::from_secs(10);
/// The timeout for the start of a response, in seconds.
pub(super) const ANSWER: u64 = 120;
/// The timeout for requests with large uploads: images, build contexts, workspaces.
const TRANSFER: Duration = Duration::from_hours(1);
/// How long containers may take to leave a network that is removed.
const NETWORK_LEFT: Duration = Duration::from_secs(5);
/// The timeout of the first request.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// The connection options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The address.
    pub address: Address,
    /// The static binary that is the first process of containers: Proctor itself.
    pub binary: PathBuf,
    /// A directory for small temporary files of containers.
    pub scratch: PathBuf,
    /// The owner of the `ssh` process of remote engines, and of a started podman.
    pub supervisor: Supervisor,
    /// The environment of these processes.
    pub env: Vec<(String, String)>,
}

/// A Docker engine. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<EngineState>,
}

#[derive(Debug)]
struct EngineState {
    docker: Docker,
    /// The address for messages.
    address: Address,
    /// The address of the socket, possibly the end of a tunnel.
    socket: Address,
    binary: Binary,
    scratch: PathBuf,
    tasks: TaskTracker,
    /// Volumes that are known to be complete.
    filled: Mutex<BTreeSet<String>>,
    has_quotas: bool,
    capacity: Capacity,
    /// Whether a removal failed.
    has_lost: AtomicBool,
    maker: Maker,
    /// Whether it is rootless podman.
    is_rootless: bool,
    /// Whether containers have their own cgroups.
    has_groups: bool,
    _served: Option<ServedAddress>,
}

/// The resources of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPUs; at least one.
    pub processors: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// The product and version of an engine, for records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maker {
    /// `docker` or `podman`.
    pub name: String,
    /// Its version, as reported by the engine.
    pub version: String,
}

impl From<&Maker> for EngineRecord {
    fn from(maker: &Maker) -> EngineRecord {
        EngineRecord {
            name: maker.name.clone(),
            version: maker.version.clone(),
        }
    }
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Ids of containers.
    pub containers: Vec<String>,
    /// Names of networks.
    pub networks: Vec<String>,
    /// Names of volumes.
    pub volumes: Vec<String>,
}

impl Maker {
    /// Whether it is podman, which behaves differently in some cases.
    pub(super) fn is_podman(&self) -> bool {
        self.name == PODMAN
    }
}

impl Engine {
    /// Connects, negotiates a version, and queries the engine's capabilities.
    pub async fn connect(options: &EngineOptions) -> Result<Self, EngineError> {
        let tasks = TaskTracker::new();
        let (socket, served) = reach(options).await?;
        let docker = match &socket {
            Address::Tcp(host) => {
                Docker::connect_with_http(&format!("http://{host}"), ANSWER, API_DEFAULT_VERSION)
            }
            Address::Local(path) | Address::Ssh { socket: path, .. } | Address::Podman(path) => {
                let path = path.display().to_string();
                Docker::connect_with_local(&path, ANSWER, API_DEFAULT_VERSION)
            }
        };
        let unreachable = |error| match EngineError::of("connect", error) {
            EngineError::Gone { reason, .. } => EngineError::Unreachable {
                address: options.address.to_string(),
                reason,
            },
            other => other,
        };
        let docker = docker.map_err(unreachable)?;
        let negotiated = tokio::time::timeout(FIRST_ANSWER, docker.negotiate_version());
        let negotiated = negotiated.await.map_err(|_| EngineError::Unreachable {
            address: options.address.to_string(),
            reason: format!("no answer within {} s", FIRST_ANSWER.as_secs()),
        });
        let docker = negotiated?.map_err(unreachable)?;
        let info = docker.info().await.map_err(unreachable)?;
        if info.os_type.as_deref() == Some("windows") {
            return Err(EngineError::WindowsContainers {
                address: options.address.to_string(),
            });
        }
        let architecture = info.architecture.as_deref();
        let binary = Binary::find(&options.binary, &options.env, architecture)?;
        let maker = maker(docker.version().await.map_err(unreachable)?);
        let is_rootless = maker.is_podman() && state::is_rootless(&docker, &socket).await?;
        Ok(Self {
            shared: Arc::new(EngineState {
                filled: Mutex::default(),
                has_quotas: has_quotas(&info),
                has_groups: has_groups(&info, is_rootless),
                capacity: capacity(&info),
                docker,
                address: options.address.clone(),
                socket,
                binary,
                scratch: options.scratch.clone(),
                tasks,
                has_lost: AtomicBool::new(false),
                maker,
                is_rootless,
                _served: served,
            }),
        })
    }

    /// Whether it can access the files of this machine.
    pub fn is_local(&self) -> bool {
        self.shared.address.is_local()
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// The product and version.
    pub fn maker(&self) -> &Maker {
        &self.shared.maker
    }

    /// The resources of the engine.
    pub fn capacity(&self) -> Capacity {
        self.shared.capacity
    }

    /// Whether it still answers.
    pub async fn answers(&self) -> bool {
        let asked = tokio::time::timeout(PING, self.docker().ping()).await;
        matches!(asked, Ok(Ok(_)))
    }

    /// Waits for clean-up in progress. Otherwise resources that were dropped last may remain until
    /// a sweep.
    pub async fn close(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.tasks.reopen();
    }

    /// Removes the resources of runs that are dead according to `is_alive`. Containers are killed
    /// with all processes.
    pub async fn sweep(&self, is_alive: impl Fn(&str) -> bool) -> Result<Swept, EngineError> {
        let failed = |error| EngineError::of("sweep", error);
        let is_dead = |labels: Option<HashMap<String, String>>| {
            let run = labels.and_then(|mut labels| labels.remove(RUN_LABEL));
            run.is_some_and(|run| !is_alive(&run))
        };
        let mut swept = Swept::default();
        for container in self.containers_of_runs().await? {
            if is_dead(container.labels) {
                self.remove_container(&container.id).await?;
                swept.containers.push(container.id);
            }
        }
        let ours = HashMap::from([("label".to_owned(), vec![RUN_LABEL.to_owned()])]);
        let options = ListNetworksOptions {
            filters: Some(ours.clone()),
        };
        let networks = self.docker().list_networks(Some(options)).await;
        for network in networks.map_err(failed)? {
            if let (true, Some(name)) = (is_dead(network.labels), network.name) {
                self.remove_network(&name).await?;
                swept.networks.push(name);
            }
        }
        let options = ListVolumesOptions {
            filters: Some(ours),
        };
        let volumes = self.docker().list_volumes(Some(options)).await;
        for volume in volumes.map_err(failed)?.volumes.unwrap_or_default() {
            if is_dead(Some(volume.labels)) {
                self.remove_volume(&volume.name).await?;
                swept.volumes.push(volume.name);
            }
        }
        Ok(swept)
    }

    /// Removes a volume, if it exists.
    pub(super) async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let docker = self.docker();
        let removed = docker.remove_volume(name, None::<RemoveVolumeOptions>);
        self.noticed(missing_is_fine(removed.await))
    }

    /// Removes a network, if it exists. Its containers may be about to leave it.
    pub(super) async fn remove_network(&self, name: &str) -> Result<(), EngineError> {
        let until = Instant::now() + NETWORK_LEFT;
        loop {
            let removed = missing_is_fine(self.docker().remove_network(name).await);
            match removed {
                Err(EngineError::Refused { .. }) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                removed => return self.noticed(removed),
            }
        }
    }

    /// Connects a container to further networks.
    pub(super) async fn connect_to(
        &self,
        id: &str,
        endpoints: &[NetworkEndpoint],
    ) -> Result<(), EngineError> {
        for endpoint in endpoints {
            let request = NetworkConnectRequest {
                container: id.to_owned(),
                endpoint_config: Some(endpoint.settings()),
            };
            let connected = self.docker().connect_network(&endpoint.network, request);
            let connected = connected.await;
            connected.map_err(|error| EngineError::of("connect to a network", error))?;
        }
        Ok(())
    }

    /// Remembers a failed removal.
    fn noticed(&self, removed: Result<(), EngineError>) -> Result<(), EngineError> {
        if removed.is_err() {
            self.shared.has_lost.store(true, Ordering::Relaxed);
        }
        removed
    }

    /// Kills and removes a container with its anonymous volumes, if it exists.
    pub(super) async fn remove_container(&self, id: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptions {
            force: true,
            v: true,
            link: false,
        };
        let removed = match self.docker().remove_container(id, Some(options)).await {
            // Another process is already doing it.
            Err(bollard::errors::Error::DockerResponseServerError {
                status_code: 409, ..
            }) => Ok(()),
            removed => missing_is_fine(removed),
        };
        self.noticed(removed)
    }

    /// Whether a removal failed, for example because the engine was unavailable. A sweep finds the
    /// leftovers.
    pub fn has_lost(&self) -> bool {
        self.shared.has_lost.load(Ordering::Relaxed)
    }

    /// The names of filled volumes; locked while one is filled.
    pub(super) fn filled(&self) -> &Mutex<BTreeSet<String>> {
        &self.shared.filled
    }

    pub(super) fn docker(&self) -> &Docker {
        &self.shared.docker
    }

    /// A client with the timeout for large uploads.
    pub(super) fn patient(&self) -> Docker {
        self.docker().clone().with_timeout(TRANSFER)
    }

    /// The address for our own connections.
    pub(super) fn socket(&self) -> &Address {
        &self.shared.socket
    }

    pub(super) fn binary(&self) -> &Path {
        &self.shared.binary.path
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.shared.scratch
    }

    /// The user ids in containers. With rootless podman they are mapped, and only root inside could
    /// write to our directories, unless `keep-id` is used.
    pub(super) fn user_namespace(&self) -> Option<String> {
        let keeps = self.is_local() && self.shared.is_rootless;
        keeps.then(|| "keep-id".to_owned())
    }

    /// Whether containers have their own cgroups. Otherwise limits would have no effect, and the
    /// kernel's counters would be those of the whole machine.
    pub(super) fn has_groups(&self) -> bool {
        self.shared.has_groups
    }

    /// Whether the engine itself can limit the disk usage of a container.
    pub(super) fn has_quotas(&self) -> bool {
        self.shared.has_quotas
    }

    /// Completes work even if the caller no longer waits.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        joined(self.begin(work).await)
    }

    /// Starts work that completes even if the caller no longer waits.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> JoinHandle<Result<T, EngineError>> {
        self.shared.tasks.spawn(work)
    }

    /// Runs work in the background; [`close`](Self::close) waits for it.
    pub(super) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.shared.tasks.spawn(work);
        }
    }
}

/// The address of the engine's socket, and the program that serves it if it is ours.
async fn reach(options: &EngineOptions) -> Result<(Address, Option<ServedAddress>), EngineError> {
    let server = ServingProgram {
        supervisor: &options.supervisor,
        env: &options.env,
        address: options.address.to_string(),
    };
    let kept = match &options.address {
        Address::Ssh {
            target,
            port,
            socket,
        } => {
            let to = Destination {
                target,
                port: *port,
                socket,
            };
            tunnel::open(&to, &server).await?
        }
        Address::Podman(program) => podman::serve(program, &server).await?,
        direct => return Ok((direct.clone(), None)),
    };
    Ok((kept.address(), Some(kept)))
}

/// The product and version. Podman is the first of its components.
fn maker(version: bollard::models::SystemVersion) -> Maker {
    let parts = version.components.unwrap_or_default();
    let is_podman = parts.iter().any(|part| part.name.starts_with("Podman"));
    Maker {
        name: if is_podman { PODMAN } else { "docker" }.to_owned(),
        version: version.version.unwrap_or_default(),
    }
}

/// The result of background work.
pub(super) fn joined<T>(done: Result<Result<T, EngineError>, JoinError>) -> Result<T, EngineError> {
    done.unwrap_or_else(|error| Err(EngineError::gone("work", error.to_string())))
}

fn missing_is_fine(done: Result<(), bollard::errors::Error>) -> Result<(), EngineError> {
    match done.map_err(|error| EngineError::of("remove", error)) {
        Err(error) if error.is_missing() => Ok(()),
        done => done,
    }
}

fn capacity(info: &SystemInfo) -> Capacity {
    let known = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    Capacity {
        processors: known(info.ncpu).unwrap_or(1).max(1),
        memory: known(info.mem_total).unwrap_or(u64::MAX),
    }
}

/// Rootless Docker reports that it supports no cgroups. Podman does not report it: rootless podman
/// supports only cgroups v2.
fn has_groups(info: &SystemInfo, is_rootless: bool) -> bool {
    let is_new = info.cgroup_version == Some(SystemInfoCgroupVersionEnum::_2);
    info.cgroup_driver != Some(SystemInfoCgroupDriverEnum::NONE) && (!is_rootless || is_new)
}

/// Whether the engine may support quotas. Overlay file systems have them only on XFS with a mount
/// option that the engine does not report: a refused container is retried without.
fn has_quotas(info: &SystemInfo) -> bool {
    let status = info.driver_status.iter().flatten();
    let mut backing =
        status.filter(|pair| pair.first().is_some_and(|key| key == "Backing Filesystem"));
    match info.driver.as_deref() {
        Some("btrfs" | "zfs") => true,
        Some("overlay2") => backing.any(|pair| pair.get(1).is_some_and(|value| value == "xfs")),
        _ => false,
    }
}
