//! Where commands run: on this machine, or in containers of Docker and podman; and the agent CLIs that are installed
//! there. May depend on `proctor-process`, `proctor-local-socket` and `proctor-record`.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented where the name does not say it all"
)]

pub mod area;
pub mod availability;
pub mod docker;
pub mod git;
pub mod host;
pub mod packages;
mod peer;
mod pool;
mod room;
mod running;
mod sandbox;
mod settings;
pub mod shell;

pub use pool::{EngineSlot, LostEngine, Pool};
pub use room::{Access, DockerRoom, Rights, Room, RoomSpec, StartError, View, container_env};
pub use running::Running;
pub use sandbox::{DockerSandbox, Sandbox};
pub use settings::{Network, ResourceLimits, SandboxKind, SandboxSettings};
