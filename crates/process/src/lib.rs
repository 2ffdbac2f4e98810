//! One process, bounded in time and output, with nothing left behind.
//!
//! [`Process`] runs an agent under a supervisor that owns every descendant; a [`Job`] is run by the first process
//! of a container; [`quick`] runs small helper programs such as git; [`Capture`] and [`Lines`] are what callers do
//! with the bytes.

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
compile_error!(
    "Proctor has not been ported to this platform: crates/process needs a sibling of src/unix"
);

mod capture;
mod command;
mod error;
mod exit;
mod helper;
mod interactive;
mod job;
mod keep;
mod lines;
mod names;
mod process;
pub mod quick;
mod remove;
#[cfg_attr(unix, path = "unix/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod sys;

use std::process::ExitCode;

pub use capture::{Capture, CaptureError, CaptureLimits, CapturePaths};
pub use command::{Background, Command, Limits, Output, Stdin, Supervisor};
pub use error::Error;
pub use exit::{EndReason, Exit, Leak, Report, Status, Usage};
pub use interactive::run_interactive;
pub use job::{
    ANNOUNCEMENT, INIT, InitEnd, JOB_FILE, Job, JobFailure, JobInput, JobReport, REPORT_FILE,
    Readiness, Relay, Service, TerminalSize, oom_kills_in,
};
pub use keep::keep;
pub use lines::{Line, Lines};
pub use names::{plain_path, startable_names};
pub use process::{Event, Process, Stream};
pub use remove::{PAUSE, REMOVE};

/// Acts as supervisor of one process, as the first process of a container or as a program that removes files there, if
/// this program was started for that, and returns the exit code then.
///
/// Call it first thing in `main`, before any thread or runtime starts.
pub fn supervise_if_asked() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if first == command::SUPERVISE {
        Some(sys::supervise())
    } else if first == INIT {
        Some(sys::init())
    } else if first == REMOVE {
        Some(remove::remove_all(std::env::args_os().skip(2)))
    } else if first == PAUSE {
        Some(remove::pause(std::env::args_os().nth(2)))
    } else {
        None
    }
}

/// Keeps other processes of the same user from reading the environment and the memory of this one, as far as the
/// system can do that. Values of variables that `keeps` does not name are empty afterwards, so that they must have been
/// read before.
///
/// Call it before any other thread starts.
pub fn hide_from_others(keeps: impl Fn(&[u8]) -> bool) -> std::io::Result<()> {
    let hidden = sys::hide_environment(keeps);
    // Only now: a process that others cannot look into cannot write to its own memory by its file.
    sys::close_memory();
    hidden
}
