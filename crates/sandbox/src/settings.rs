//! The settings of the sandboxes of a run.

use std::collections::BTreeMap;

use proctor_record::record::LimitsRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of the sandboxes of a run.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    pub kind: SandboxKind,
    /// The image of trials whose agent and task name none.
    pub image: Option<String>,
    /// The addresses of the Docker engines; the engine of this machine if empty.
    pub engines: Vec<String>,
    /// Replacements of image names, such as those of a mirror.
    pub images: BTreeMap<String, String>,
    pub limits: ResourceLimits,
    /// `None` leaves the network to the task.
    pub network: Option<Network>,
    /// Whether the suite turns the gateway off for containers.
    pub refuses_gateway: bool,
}

/// The kind of sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    /// Its own directory and process tree on this machine.
    #[default]
    Local,
    /// Its own container.
    Docker,
}

/// Resource limits of a trial; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceLimits {
    /// CPUs, also fractional.
    pub cpus: Option<f64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Bytes on disk.
    pub disk: Option<u64>,
}

impl From<ResourceLimits> for LimitsRecord {
    fn from(limits: ResourceLimits) -> LimitsRecord {
        LimitsRecord {
            cpus: limits.cpus,
            memory_bytes: limits.memory,
            pids: limits.pids,
            disk_bytes: limits.disk,
        }
    }
}

/// The network access of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Only the gateway.
    Gateway,
    /// The gateway and, through it, these hosts.
    Allowlist(Vec<String>),
    /// Full access.
    Open,
    /// No access.
    None,
}

impl Network {
    /// The network with this name in settings. An allow-list has none.
    pub fn named(name: &str) -> Option<Network> {
        match name {
            "gateway" => Some(Network::Gateway),
            "open" => Some(Network::Open),
            "none" => Some(Network::None),
            _ => None,
        }
    }

    /// The name in records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Network::Gateway => "gateway",
            Network::Allowlist(_) => "allowlist",
            Network::Open => "open",
            Network::None => "none",
        }
    }
}
