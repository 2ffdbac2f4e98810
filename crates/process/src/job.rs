//! The job of the first process of a container, and its report.
//!
//! Both are JSON files, because files reach every engine: by a mount, or in an archive.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Background, Leak, Status, Usage};

/// The argument that makes an executable act as the first process of a container.
pub const INIT: &str = "__init";

/// Where the first process of a container finds its [`Job`].
pub const JOB_FILE: &str = "/proctor/job/job.json";

/// Where it leaves its [`JobReport`].
pub const REPORT_FILE: &str = "/proctor/report.json";

/// The length of the bytes that announce the end of a job; see [`Job::has_secret`].
pub const ANNOUNCEMENT: usize = 33;

/// One command to run in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program, looked up in the `PATH` of [`Job::env`], and its arguments.
    pub argv: Vec<String>,
    /// The complete environment. Only a missing `HOME` is added, as engines do, if [`Job::user`] has one.
    pub env: BTreeMap<String, String>,
    /// The working directory; it must exist.
    pub cwd: String,
    /// The user, as images specify it: a name or number, and optionally a group after a colon.
    /// Requires a container that was started as root; `None` means the container's user.
    pub user: Option<String>,
    /// The standard input.
    pub input: JobInput,
    /// A terminal for stdout and stderr; pipes if `None`.
    pub terminal: Option<TerminalSize>,
    /// Ways out of the container.
    pub relays: Vec<Relay>,
    /// Another command that is kept running beside it, such as the entry point of the image. Its output goes nowhere.
    pub service: Option<Service>,
    /// The readiness check before the start.
    pub readiness: Option<Readiness>,
    /// The time limit inside the container, independent of outside requests.
    pub wall: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub term_grace: Duration,
    /// The time that processes left behind may go on after the exit of the main one.
    pub leak_grace: Duration,
    /// The fate of background processes.
    pub background: Background,
    /// Whether the first [`ANNOUNCEMENT`] bytes of the container's input are a secret, not input of the job. The first
    /// process writes it to stdout and stderr when a job has ended and the container goes on.
    pub has_secret: bool,
}

/// A command that runs beside a [`Job`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The command that the program gets as its last arguments and runs when it is ready.
    pub command: Vec<String>,
    /// The user, as in [`Job::user`].
    pub user: Option<String>,
}

/// A command that succeeds once a container is ready, tried again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// The program and its arguments; who runs it is who runs the service.
    pub argv: Vec<String>,
    /// The pause between two tries.
    pub interval: Duration,
    /// How long one try may take.
    pub timeout: Duration,
    /// Failures in this time after the start do not count.
    pub start_period: Duration,
    /// The pause between two tries in that time.
    pub start_interval: Duration,
    /// How many failures in a row mean that it will never be ready.
    pub retries: u32,
}

impl Readiness {
    /// The longest that it can take to know.
    pub fn longest(&self) -> Duration {
        let one = self.interval.max(self.start_interval) + self.timeout;
        self.start_period + one * (self.retries + 1)
    }
}

/// The standard input of a [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobInput {
    /// Nothing: `/dev/null`.
    Null,
    /// The stdin of the container.
    Container,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Its width.
    pub columns: u16,
    /// Its height.
    pub rows: u16,
}

/// A port in the container from which every connection is carried on to a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Where to listen, on loopback.
    pub listen: SocketAddr,
    /// The socket, as seen from inside the container.
    pub socket: PathBuf,
}

/// The result of a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// Why it could not be started; everything else but `kept` is empty then.
    pub failure: Option<JobFailure>,
    /// How the main process ended; `None` if that was never known.
    pub status: Option<Status>,
    /// Why it was ended from within.
    pub ended_by: Option<InitEnd>,
    /// From start to end of the main process.
    pub duration: Duration,
    /// Processes that outlived the main one by more than their grace.
    pub leaked: Vec<Leak>,
    /// Processes that were kept for the next job, which therefore needs no new start of the container.
    pub kept: Option<Vec<Leak>>,
    /// CPU time and memory of the processes.
    pub usage: Option<Usage>,
    /// The most memory the whole container held at one time, file cache included.
    pub peak_memory_bytes: Option<u64>,
    /// How often the kernel killed a process because the container was out of memory.
    pub oom_kills: Option<u64>,
}

/// Why the first process ended a [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitEnd {
    /// [`Job::wall`] was over.
    Wall,
    /// A signal came from outside the container.
    Signal,
}

/// Why a [`Job`] could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum JobFailure {
    /// The job is missing or not understood.
    #[error("cannot read the job: {reason}")]
    Job {
        /// The cause.
        reason: String,
    },
    /// No such file, or no such name in `PATH`.
    #[error("program {program:?} not found in the container")]
    ProgramNotFound {
        /// The program.
        program: String,
    },
    /// There is such a file, but it may not be executed.
    #[error("{path} is not executable in the container")]
    NotExecutable {
        /// The file that was found.
        path: String,
    },
    /// The working directory is missing.
    #[error("working directory {cwd} does not exist in the container")]
    CwdMissing {
        /// The working directory.
        cwd: String,
    },
    /// The image does not know this user or group.
    #[error("there is no user {user:?} in the container")]
    UserUnknown {
        /// The user.
        user: String,
    },
    /// The check of [`Job::readiness`] never succeeded.
    #[error("the container did not become ready: {reason}")]
    NotReady {
        /// How it failed the last time.
        reason: String,
    },
    /// The port of a relay cannot be listened on.
    #[error("cannot listen on {listen} in the container: {reason}")]
    Relay {
        /// The address.
        listen: SocketAddr,
        /// The error of the operating system.
        reason: String,
    },
    /// The operating system refused to execute the program.
    #[error("cannot start {program:?} in the container: {reason}")]
    Start {
        /// The program.
        program: String,
        /// The error message.
        reason: String,
    },
}

/// How many processes were killed because memory ran out, by a control group's `memory.events` or `memory.oom_control`.
pub fn oom_kills_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line?.trim().parse().ok()
}

/// Says that there is no container to be the first process of: they have Linux inside on every platform.
#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_init() -> std::process::ExitCode {
    #[expect(
        clippy::print_stderr,
        reason = "standard error is the only channel here"
    )]
    {
        eprintln!(
            "error: {INIT} is for the first process of a container, which is always a Linux program"
        );
    }
    std::process::ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_apart_from_the_limit_that_was_only_hit() {
        let check = |text: &str, expect| assert_eq!(oom_kills_in(text), expect, "{text}");
        check("low 0\noom 7\noom_kill 2\noom_group_kill 1\n", Some(2));
        check("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", Some(1));
        check("oom_kill_disable 0\n", None);
    }
}
