//! A service of a compose file, as the engine is asked for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proctor_process::Readiness;

use super::Image;
use crate::ResourceLimits;

/// A service to start.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// Its name, also in its networks.
    pub name: String,
    /// Its container.
    pub settings: ServiceSettings,
    /// The services that it needs, and when they are ready for it.
    pub depends_on: BTreeMap<String, StartCondition>,
    /// Its readiness check.
    pub check: ServiceCheck,
}

/// The settings of a service, which replace those of its image.
#[derive(Clone, Debug, Default)]
pub struct ServiceSettings {
    /// The entry point; without it the image's command has no effect.
    pub entrypoint: Option<Vec<String>>,
    /// The command.
    pub command: Option<Vec<String>>,
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub workdir: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The name of its machine.
    pub hostname: Option<String>,
    /// Its networks, with further names of the service there.
    pub networks: BTreeMap<String, Vec<String>>,
    /// Volumes and files.
    pub mounts: Vec<ServiceMount>,
    /// File systems in memory.
    pub tmpfs: Vec<String>,
    /// Added capabilities.
    pub capabilities: Vec<String>,
    /// Bytes of shared memory.
    pub shm_size: Option<u64>,
    /// Additional names, as `NAME:ADDRESS`.
    pub extra_hosts: Vec<String>,
    /// Whether the engine's init is the first process.
    pub has_init: bool,
    /// Whether it is restarted.
    pub restart: Restart,
    /// Its own limits.
    pub limits: ResourceLimits,
}

/// Whether a service is restarted after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Never.
    #[default]
    No,
    /// If it failed.
    OnFailure,
    /// Always.
    Always,
}

/// A volume or file of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceMount {
    /// Its content.
    pub source: MountSource,
    /// The path inside.
    pub inside: String,
    /// Whether the service can only read it.
    pub read_only: bool,
}

/// The content of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A named volume of the environment.
    Volume(String),
    /// An empty volume of this service.
    Anonymous,
    /// Memory.
    Memory,
    /// A copy of a file or folder of this machine; one copy for all services.
    Copy(PathBuf),
}

/// When a service is ready for those that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCondition {
    /// When it is started.
    Started,
    /// When its check succeeds.
    Healthy,
    /// When it has ended with code 0.
    Completed,
}

/// The readiness check of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceCheck {
    /// That of its image, if any.
    Image,
    /// None.
    None,
    /// Its own.
    Own(Readiness),
}

impl ServiceCheck {
    /// The check with this image.
    pub fn with(&self, image: &Image) -> Option<Readiness> {
        match self {
            ServiceCheck::Image => image.healthcheck.clone(),
            ServiceCheck::None => None,
            ServiceCheck::Own(check) => Some(check.clone()),
        }
    }
}
