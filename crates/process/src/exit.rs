//! How a process ended, as data.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a process ended: what the operating system said, and whether we ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit status from the operating system; `None` if unknown.
    pub status: Option<Status>,
    /// Why we ended the process; `None` if it ended by itself.
    pub ended_by: Option<EndReason>,
}

impl Exit {
    /// Whether the process ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.status == Some(Status::Code(0)) && self.ended_by.is_none()
    }
}

/// The exit status of a process from the operating system. `Display` describes it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It exited with this code. On Windows a crash is a code too, which is negative then: see [`Status::crash`].
    Code(i32),
    /// This signal killed it; Unix only.
    Signal(i32),
}

impl Status {
    /// The name of an exception code that killed a process on Windows. Other systems have no such
    /// codes.
    pub fn crash(self) -> Option<&'static str> {
        let Self::Code(code) = self else { return None };
        let code = code.cast_unsigned();
        let known = CRASHES.iter().find(|(known, _)| *known == code);
        known.map(|(_, words)| *words)
    }

    /// An exit code with what is known of it: `7`, `0xC0000005 (access violation)`.
    fn code_in_words(code: i32) -> String {
        match Self::Code(code).crash() {
            Some(crash) => format!("0x{:08X} ({crash})", code.cast_unsigned()),
            // An unknown code is easier to look up in this form.
            None if code < 0 => format!("0x{:08X}", code.cast_unsigned()),
            None => code.to_string(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {}", Self::code_in_words(*code)),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// The values of NTSTATUS with which processes end, in words.
const CRASHES: &[(u32, &str)] = &[
    (0x4001_0004, "ended by the system or a debugger"),
    (0x8000_0003, "breakpoint"),
    (0xC000_0005, "access violation"),
    (
        0xC000_0006,
        "error while reading a page of memory from disk",
    ),
    (0xC000_0017, "out of memory"),
    (0xC000_001D, "illegal instruction"),
    (0xC000_0094, "integer division by zero"),
    (0xC000_0096, "privileged instruction"),
    (0xC000_00FD, "stack overflow"),
    (0xC000_012D, "out of memory: the commit limit was reached"),
    (0xC000_0135, "a DLL was not found"),
    (0xC000_0138, "a DLL lacks a function, by number"),
    (0xC000_0139, "a DLL lacks a function"),
    (
        0xC000_013A,
        "ended by Ctrl-C, Ctrl-Break or the closing of its console",
    ),
    (0xC000_0142, "a DLL could not be initialised"),
    (0xC000_0374, "heap corruption"),
    (0xC000_0409, "stack buffer overrun or abort"),
    (0xC000_0417, "invalid argument to the C library"),
    (0xC000_041D, "unhandled exception in a callback"),
    (0xC000_0420, "assertion failed"),
    (0xE06D_7363, "unhandled C++ exception"),
    (0xE043_4352, "unhandled .NET exception"),
];

/// Why we ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// It ran longer than [`Limits::wall`](crate::Limits::wall).
    TimedOut,
    /// It wrote nothing for [`Limits::idle`](crate::Limits::idle).
    Idle,
    /// It wrote more than [`Limits::output`](crate::Limits::output).
    OutputLimit,
    /// The run was cancelled.
    Cancelled,
    /// The caller had what it wanted.
    Asked,
    /// The process had its result. Background processes are kept, as if it had ended by itself.
    Finished,
    /// The supervisor died without a report, and the processes that it had started were killed. The end of the
    /// main process is then not known.
    SupervisorLost,
}

/// All that is known once a process and its descendants are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the main process ended.
    pub exit: Exit,
    /// From start to end of the main process.
    pub duration: Duration,
    /// Processes that outlived the main one by more than its grace, and were killed. At most 64 are named.
    pub leaked: Vec<Leak>,
    /// Processes that outlived the main one and were kept; see [`Background::Keep`](crate::Background::Keep).
    pub background: Vec<Leak>,
    /// The resources used by the process tree; `None` if unknown.
    pub usage: Option<Usage>,
    /// Bytes read from stdout, delivered or not.
    pub stdout_bytes: u64,
    /// Bytes read from stderr, delivered or not.
    pub stderr_bytes: u64,
}

/// The end of a process, as observed by its supervisor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) duration: Duration,
    pub(crate) leaked: Vec<Leak>,
    pub(crate) usage: Option<Usage>,
}

/// A process that outlived the main one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// Its process id while it lived.
    pub pid: u32,
    /// Its command name as the operating system has it; Linux cuts it to 15 bytes, macOS to 32, and on Windows it is the
    /// name of the file.
    pub name: String,
}

/// The resources used by a process and its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user code, summed over the tree.
    pub cpu_user: Duration,
    /// CPU time in the kernel, summed over the tree.
    pub cpu_system: Duration,
    /// The most memory that any single process of the tree held; on Windows what it had asked for, used or not.
    /// `None` where the system does not tell.
    pub max_rss_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_is_described_in_words() {
        let check = |status: Status, expect: &str| assert_eq!(status.to_string(), expect);
        let code = |code: u32| Status::Code(code.cast_signed());
        check(code(0), "exit code 0");
        check(code(255), "exit code 255");
        check(Status::Signal(9), "signal 9");
        check(code(0xC000_0005), "exit code 0xC0000005 (access violation)");
        check(code(0xC000_00FD), "exit code 0xC00000FD (stack overflow)");
        check(
            code(0xC000_0135),
            "exit code 0xC0000135 (a DLL was not found)",
        );
        check(
            code(0xC000_013A),
            "exit code 0xC000013A (ended by Ctrl-C, Ctrl-Break or the closing of its console)",
        );
        check(code(0xFFFF_FFFF), "exit code 0xFFFFFFFF");
    }
}
