//! Docker: images, and containers that run one job at a time.
//!
//! Our own binary is the first process of every container (see `docs/dev/design/docker.md`), so
//! that nothing is executed into a running one: a job is a start, and the end of a job is the end
//! of all its processes.

mod address;
mod announcement;
mod archive;
mod attach;
mod binary;
mod build;
mod builder;
mod container;
mod context;
mod desktop;
mod disk;
mod dockerfile;
mod engine;
mod error;
mod health;
mod image;
mod multiplexer;
mod podman;
mod process;
mod served;
mod service_spec;
mod services;
mod shared;
mod spec;
mod state;
mod trace;
mod tunnel;
mod without_modes;

pub use address::Address;
pub use build::{BuildOptions, BuildSpec};
pub use container::{Container, ContainerFileChange};
pub use disk::DiskLimit;
pub use engine::{Capacity, Engine, EngineOptions, Maker, RUN_LABEL, Swept};
pub use error::{EngineError, SHIPPED};
pub use image::{Image, with_tag};
pub use multiplexer::{MULTIPLEX, multiplex};
pub use process::{ContainerProcess, JobFacts};
pub use service_spec::{
    MountSource, Restart, ServiceCheck, ServiceMount, ServiceSettings, ServiceSpec, StartCondition,
};
pub use services::{Services, ServicesSpec};
pub use spec::{
    BINARY, BindMount, ContainerNetwork, ContainerSpec, Hardening, MainService, NetworkEndpoint,
    Root, Tmpfs,
};
