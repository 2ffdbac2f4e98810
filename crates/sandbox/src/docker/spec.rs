//! The specification of a container, and its translation for an engine.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount as EngineMount, MountType,
};
use proctor_process::{INIT, Relay};

use super::{MULTIPLEX, ServiceSettings, Services};

/// The path of our own binary in containers.
pub const BINARY: &str = "/proctor/proctor";

/// A container to create.
#[derive(Debug)]
pub struct ContainerSpec {
    /// Its image: a name, digest or id that the engine has.
    pub image: String,
    /// Its labels; [`RUN_LABEL`](super::RUN_LABEL) assigns it to a run.
    pub labels: BTreeMap<String, String>,
    /// Directories and files of this machine.
    pub mounts: Vec<BindMount>,
    /// Directories that never change and are read-only. Remote engines get one copy for all
    /// containers, in a persistent volume that is named after the directory.
    pub shared: Vec<BindMount>,
    /// A directory of sockets for [relays](proctor_process::Relay), mounted as `/proctor/run`. The
    /// container's user must be allowed to write to them.
    pub sockets: Option<PathBuf>,
    /// The relays of jobs, for engines that cannot access sockets of this machine.
    pub relays: Vec<Relay>,
    /// Loopback ports whose connections are carried, instead of running jobs.
    pub carries: Vec<u16>,
    /// The user, as images specify it; root if `None`.
    pub user: Option<String>,
    /// The privileges of its processes.
    pub hardening: Hardening,
    /// Whether the file system of the image is writable.
    pub root: Root,
    /// File systems in memory.
    pub tmpfs: Vec<Tmpfs>,
    /// Its network.
    pub network: ContainerNetwork,
    /// Its role in a compose environment.
    pub service: Option<MainService>,
    /// The number of CPUs, also fractional.
    pub cpus: Option<f64>,
    /// The maximum memory in bytes, without swap.
    pub memory: Option<u64>,
    /// The maximum number of processes and threads.
    pub pids: Option<u32>,
    /// The maximum number of bytes written to its own file system and to writable mounts.
    pub disk: Option<u64>,
}

impl ContainerSpec {
    /// A hardened container of this image without network, mounts and limits.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            shared: Vec::new(),
            sockets: None,
            relays: Vec::new(),
            carries: Vec::new(),
            user: None,
            hardening: Hardening::Hardened,
            root: Root::Writable,
            tmpfs: Vec::new(),
            network: ContainerNetwork::None,
            service: None,
            cpus: None,
            memory: None,
            pids: None,
            disk: None,
        }
    }
}

/// A directory or file of this machine, mounted inside. Remote engines get a copy before each job,
/// and writable ones are copied back after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// The path on this machine.
    pub host: PathBuf,
    /// The path inside.
    pub inside: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The privileges of the processes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardening {
    /// No capabilities, and no way to get any; the engine's default system call filter.
    Hardened,
    /// The engine's default.
    Default,
}

/// Whether the file system of an image is writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Read-only.
    ReadOnly,
    /// Writable; changes are removed with the container.
    Writable,
}

/// A file system in memory, which counts as memory of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmpfs {
    /// The path.
    pub inside: String,
    /// The maximum size in bytes; half of the machine's memory if `None`.
    pub size: Option<u64>,
}

/// The network of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerNetwork {
    /// Only its own loopback, with relays.
    None,
    /// The engine's default network.
    Open,
    /// That of another container, as `container:ID`.
    Named(String),
    /// Networks of the engine.
    Joined(Vec<NetworkEndpoint>),
}

/// A network of the engine, and the names of a container there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkEndpoint {
    /// The name of the network.
    pub network: String,
    /// The names of the container.
    pub aliases: Vec<String>,
}

/// The main service of a compose environment.
#[derive(Debug)]
pub struct MainService {
    /// Its settings.
    pub settings: ServiceSettings,
    /// The other services, removed with the container.
    pub services: Services,
}

/// How the engine gets our own files.
pub(super) enum OwnFiles<'a> {
    /// Mounted from these paths.
    Mounted {
        binary: &'a Path,
        job: &'a Path,
        report: &'a Path,
    },
    /// In a volume that is filled before the start.
    Volume,
}

/// The request that creates a container.
pub(super) fn request(
    spec: &ContainerSpec,
    own: &OwnFiles<'_>,
    quota: Option<u64>,
) -> ContainerCreateBody {
    let settings = spec.service.as_ref().map(|service| &service.settings);
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        hostname: settings.and_then(|settings| settings.hostname.clone()),
        entrypoint: Some(vec![BINARY.to_owned()]),
        cmd: Some(command(spec)),
        user: Some(spec.user.clone().unwrap_or_else(|| "0:0".to_owned())),
        working_dir: Some("/".to_owned()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        // A health check of the image would run processes next to the job.
        healthcheck: Some(bollard::models::HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..Default::default()
        }),
        host_config: Some(host_config(spec, own, quota)),
        ..Default::default()
    }
}

/// The role of Proctor's binary.
fn command(spec: &ContainerSpec) -> Vec<String> {
    if spec.carries.is_empty() {
        return vec![INIT.to_owned()];
    }
    let ports = spec.carries.iter().map(ToString::to_string);
    std::iter::once(MULTIPLEX.to_owned()).chain(ports).collect()
}

fn host_config(spec: &ContainerSpec, own: &OwnFiles<'_>, quota: Option<u64>) -> HostConfig {
    let hardened = spec.hardening == Hardening::Hardened;
    let memory = spec.memory.map(u64::cast_signed);
    let size = |bytes: u64| HashMap::from([("size".to_owned(), bytes.to_string())]);
    let settings = spec.service.as_ref().map(|service| &service.settings);
    HostConfig {
        mounts: Some(mounts(spec, own)),
        cap_add: settings.map(|settings| settings.capabilities.clone()),
        extra_hosts: settings.map(|settings| settings.extra_hosts.clone()),
        shm_size: settings.and_then(|settings| settings.shm_size.map(u64::cast_signed)),
        network_mode: Some(match &spec.network {
            ContainerNetwork::None => "none".to_owned(),
            ContainerNetwork::Open => "default".to_owned(),
            ContainerNetwork::Named(name) => name.clone(),
            ContainerNetwork::Joined(endpoints) => match endpoints.first() {
                Some(endpoint) => endpoint.network.clone(),
                None => "none".to_owned(),
            },
        }),
        // Proctor stores the output; a second copy would grow on the engine's disk.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        cap_drop: hardened.then(|| vec!["ALL".to_owned()]),
        security_opt: hardened.then(|| vec!["no-new-privileges:true".to_owned()]),
        readonly_rootfs: Some(spec.root == Root::ReadOnly),
        tmpfs: Some(spec.tmpfs.iter().map(tmpfs).collect()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the number of CPUs is small"
        )]
        nano_cpus: spec.cpus.map(|cpus| (cpus * 1e9) as i64),
        memory,
        memory_swap: memory,
        pids_limit: spec.pids.map(i64::from),
        storage_opt: quota.map(size),
        init: Some(false),
        ..Default::default()
    }
}

fn tmpfs(tmpfs: &Tmpfs) -> (String, String) {
    let size = tmpfs
        .size
        .map_or_else(String::new, |size| format!(",size={size}"));
    let options = format!("rw,nosuid,nodev,exec,mode=1777{size}");
    (tmpfs.inside.clone(), options)
}

fn mounts(spec: &ContainerSpec, own: &OwnFiles<'_>) -> Vec<EngineMount> {
    let mut mounts = own_mounts(spec, own);
    if let Some(service) = &spec.service {
        mounts.extend(service.services.mounts(&service.settings));
    }
    mounts
}

fn own_mounts(spec: &ContainerSpec, own: &OwnFiles<'_>) -> Vec<EngineMount> {
    match own {
        OwnFiles::Mounted {
            binary,
            job,
            report,
        } => {
            let own = |host: &Path, inside: &str, read_only| BindMount {
                host: host.to_owned(),
                inside: inside.to_owned(),
                read_only,
            };
            let mut all = vec![
                own(binary, BINARY, true),
                own(job, "/proctor/job", true),
                own(report, "/proctor/report.json", false),
            ];
            let sockets = spec.sockets.iter();
            all.extend(sockets.map(|folder| own(folder, "/proctor/run", true)));
            let all = all.iter().chain(&spec.mounts).chain(&spec.shared);
            all.map(bind).collect()
        }
        OwnFiles::Volume => {
            let folders = spec.mounts.iter().filter(|mount| mount.host.is_dir());
            let mut mounts = vec![volume("/proctor")];
            mounts.extend(folders.map(|mount| volume(&mount.inside)));
            mounts.extend(spec.shared.iter().map(|mount| EngineMount {
                source: Some(volume_name(mount)),
                read_only: Some(true),
                ..volume(&mount.inside)
            }));
            mounts
        }
    }
}

fn bind(mount: &BindMount) -> EngineMount {
    EngineMount {
        typ: Some(MountType::BIND),
        source: Some(mount.host.display().to_string()),
        target: Some(mount.inside.clone()),
        read_only: Some(mount.read_only),
        ..Default::default()
    }
}

/// The volume of a shared directory on remote engines.
pub(super) fn volume_name(shared: &BindMount) -> String {
    let name = shared.host.file_name().unwrap_or_default();
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '.' => c,
        _ => '-',
    };
    let name: String = name.to_string_lossy().chars().map(plain).collect();
    format!("proctor-{name}")
}

/// An anonymous volume, which is removed with its container.
fn volume(inside: &str) -> EngineMount {
    EngineMount {
        typ: Some(MountType::VOLUME),
        target: Some(inside.to_owned()),
        ..Default::default()
    }
}
