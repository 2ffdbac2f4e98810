//! The command to run, and its limits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A process to run.
#[derive(Clone, Debug)]
pub struct Command {
    /// A path, or a name that is looked up in the `PATH` (on Windows with the `PATHEXT`) of [`Command::env`]. Relative
    /// paths start at `cwd`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The complete environment: nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// The working directory; it must exist.
    pub cwd: PathBuf,
    /// The standard input of the process.
    pub stdin: Stdin,
    /// Where the process writes.
    pub output: Output,
    /// The limits that stop the process.
    pub limits: Limits,
    /// The fate of processes that outlive the main one. Outside containers they always end.
    pub background: Background,
}

impl Command {
    /// A command with no arguments, an empty environment, no input, pipes for output and no limits.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stdin: Stdin::Null,
            output: Output::Pipes,
            limits: Limits::default(),
            background: Background::End,
        }
    }
}

/// The fate of background processes in a container: those that outlive the main process of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// They end with the job, also those of earlier jobs.
    #[default]
    End,
    /// They are stopped, and go on during the next job. After a timeout or a cancellation they end.
    Keep,
    /// Those of earlier jobs stay stopped during this short job and after it.
    Freeze,
}

/// The standard input of a process.
#[derive(Clone, Debug)]
pub enum Stdin {
    /// Nothing: `/dev/null`, on Windows `NUL`.
    Null,
    /// These bytes through a pipe, then the end. A process that reads only some of them is fine.
    Bytes(Vec<u8>),
    /// A pipe fed by [`Process::send`](crate::Process::send) until
    /// [`Process::close_stdin`](crate::Process::close_stdin).
    Open,
}

/// Where a process writes stdout and stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One pipe each.
    Pipes,
    /// Both on one pseudo-terminal, which is also the controlling terminal; on Windows on a pseudo-console, which
    /// draws what is written anew. All bytes then count as stdout.
    Pty {
        /// Width of the terminal.
        columns: u16,
        /// Height of the terminal.
        rows: u16,
    },
}

/// The limits of a process, and the grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest it may run.
    pub wall: Option<Duration>,
    /// The longest it may write nothing.
    pub idle: Option<Duration>,
    /// The maximum number of output bytes in total. Further bytes are read and counted, but not
    /// delivered, and the exit has the reason [`OutputLimit`](crate::EndReason::OutputLimit).
    pub output: Option<u64>,
    /// The time between SIGTERM and SIGKILL; on Windows between Ctrl-Break and the end of the job.
    pub term_grace: Duration,
    /// The time that processes left behind may go on after the exit of the main one before they are killed.
    pub leak_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: None,
            idle: None,
            output: None,
            term_grace: Duration::from_millis(500),
            leak_grace: Duration::from_millis(500),
        }
    }
}

/// The argument that makes an executable act as supervisor.
pub(crate) const SUPERVISE: &str = "__supervise";

/// The executable that is started beside each process to own its descendants. Its `main` calls
/// [`supervise_if_asked`](crate::supervise_if_asked). On Windows a job owns them, and the executable is started only to
/// ask processes to end, and to start them within a pseudo-console.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pub(crate) executable: PathBuf,
}

impl Supervisor {
    /// Another executable, such as one built for tests.
    pub fn at(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
        }
    }
}
