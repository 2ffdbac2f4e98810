//! Everything that asks Windows: the same items as `unix`. Why it is done this way: `docs/dev/design/windows.md`.

mod assist;
mod command_line;
mod control;
mod environment;
mod find;
mod handle;
mod helper;
mod job;
mod launch;
mod pipe;
mod pseudo_console;
mod shim;
mod spawn;
mod start;
mod watch;

pub(crate) use assist::supervise;
pub(crate) use control::Control;
pub(crate) use helper::{Helper, Streams};
pub(crate) use pipe::{Feeder, Reader};
pub(crate) use start::start;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::Status;

/// The running program. Windows does not let its file be replaced while it runs, only renamed.
pub(crate) fn this_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Processes of the same user can look into each other here; no call of a program prevents that.
pub(crate) fn close_memory() {}

/// As above.
pub(crate) fn hide_environment(_keeps: impl Fn(&[u8]) -> bool) -> std::io::Result<()> {
    Ok(())
}

/// Containers run Linux on every platform.
pub(crate) fn init() -> ExitCode {
    crate::job::refuse_init()
}

/// An exit code as Windows has it; codes of crashes are negative then, as everywhere else.
fn status(code: u32) -> Status {
    Status::Code(code.cast_signed())
}
