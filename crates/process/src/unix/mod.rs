//! Everything that asks the operating system. A port is a folder beside this one with the same items.

mod child;
mod control;
mod find;
mod helper;
mod init;
mod message;
mod pipe;
mod pty;
mod signals;
mod start;
mod supervisor;
mod tree;
mod wire;

pub(crate) use control::Control;
pub(crate) use helper::{Helper, Streams};
pub(crate) use init::init;
pub(crate) use pipe::{Feeder, Reader};
pub(crate) use start::start;
pub(crate) use supervisor::supervise;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::Status;

/// The running program, even when its file has been replaced.
pub(crate) fn this_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// What the operating system said about a process that has been waited for.
fn status(status: ExitStatus) -> Status {
    match (status.code(), status.signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or_default()),
    }
}
