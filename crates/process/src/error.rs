//! Why a process could not be started. How it ended is never an error: see [`Exit`](crate::Exit).

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a process could not be started, or a quick command not be waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such file, or no such name in `PATH`.
    #[error("program {program:?} not found")]
    ProgramNotFound {
        /// The program.
        program: OsString,
    },
    /// There is such a file, but it may not be executed.
    #[error("{} is not executable", path.display())]
    NotExecutable {
        /// The file that was found.
        path: PathBuf,
    },
    /// The working directory is missing or not a directory.
    #[error("working directory {} does not exist", cwd.display())]
    CwdMissing {
        /// The working directory.
        cwd: PathBuf,
    },
    /// The operating system refused to execute the program.
    #[error("cannot start {program:?}")]
    Start {
        /// The program.
        program: OsString,
        /// The error message.
        source: io::Error,
    },
    /// The command line is longer than Windows takes, or its shell if it is a script.
    #[error(
        "the command line of {program:?} has {length} UTF-16 units and Windows takes {most}: pass long text on stdin or in a file"
    )]
    CommandTooLong {
        /// The program.
        program: OsString,
        /// How long the line would be.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// There is no way to pass this argument as it is: it holds a zero, or a line break for a `.cmd` or `.bat` script.
    #[error(
        "argument {position} of {program:?} holds a line break or a zero, which cannot be passed to it: pass the text on stdin or in a file"
    )]
    ArgumentRefused {
        /// The program.
        program: OsString,
        /// Which one, from 1.
        position: usize,
    },
    /// The supervisor could not be started or talked to.
    #[error("cannot start the supervisor {}", executable.display())]
    Supervisor {
        /// The executable that should supervise.
        executable: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A pipe or pseudo-terminal could not be made.
    #[error("cannot prepare input and output of {program:?}")]
    Stdio {
        /// The program.
        program: OsString,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A quick command took too long and was killed.
    #[error("{program:?} did not finish within {} s", after.as_secs_f64())]
    TimedOut {
        /// The program.
        program: OsString,
        /// The time it had.
        after: Duration,
    },
    /// A quick command could not be waited for.
    #[error("cannot wait for {program:?}")]
    Wait {
        /// The program.
        program: OsString,
        /// The error of the operating system.
        source: io::Error,
    },
}
