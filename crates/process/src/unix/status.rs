//! The exit status of a process.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::Status;

/// The exit status of a reaped process.
pub(super) fn status(status: ExitStatus) -> Status {
    match (status.code(), status.signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or_default()),
    }
}
