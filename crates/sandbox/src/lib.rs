//! Execution of commands on this machine, or in containers of Docker and podman; and installed
//! agent CLIs. May depend on `proctor-process`, `proctor-local-socket` and `proctor-record`.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented if the name is not enough"
)]

pub mod availability;
pub mod docker;
mod exec_env;
pub mod git;
pub mod host;
pub mod packages;
mod peer;
mod pool;
mod running;
mod sandbox;
mod settings;
pub mod shell;
pub mod trial_dir;

pub use exec_env::{
    Access, ContainerEnv, ExecEnv, ExecEnvSpec, Mount, Privileges, StartError, container_env,
};
pub use pool::{EngineSlot, LostEngine, Pool};
pub use running::Running;
pub use sandbox::{DockerSandbox, Sandbox};
pub use settings::{Network, ResourceLimits, SandboxKind, SandboxSettings};
