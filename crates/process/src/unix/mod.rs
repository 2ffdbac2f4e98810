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
mod supervisor;
mod tree;
mod wire;

pub(crate) use control::Control;
pub(crate) use helper::{Helper, Streams};
#[cfg(target_os = "linux")]
pub(crate) use init::init;
pub(crate) use pipe::{Feeder, Reader};
pub(crate) use platform::{close_memory, hide_environment, this_executable};
pub(crate) use start::start;
pub(crate) use supervisor::supervise;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::Status;

/// Containers run Linux on every platform.
#[cfg(target_os = "macos")]
pub(crate) fn init() -> std::process::ExitCode {
    crate::refuse_init()
}

/// The exit status of a reaped process.
fn status(status: ExitStatus) -> Status {
    match (status.code(), status.signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or_default()),
    }
}
