//! Everything that asks the operating system. A port is a folder beside this one with the same items.

mod child;
mod control;
mod find;
mod helper;
#[cfg(target_os = "linux")]
mod init;
mod message;
mod pipe;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
mod platform;
mod pty;
mod signals;
mod start;
mod status;
mod supervisor;
mod tree;
mod wire;

/// Containers run Linux on every platform.
#[cfg(target_os = "macos")]
pub(crate) use crate::job::refuse_init as init;
pub(crate) use control::Control;
pub(crate) use helper::{Helper, Streams};
#[cfg(target_os = "linux")]
pub(crate) use init::init;
pub(crate) use pipe::{Feeder, Reader};
pub(crate) use platform::{close_memory, hide_environment, this_executable};
pub(crate) use start::start;
use status::status;
pub(crate) use supervisor::supervise;
