//! How a process ended, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a process ended: what the operating system said, and whether we ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// What the operating system said; `None` if it was never known.
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

/// What the operating system said about the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

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
    /// What the whole tree used; `None` if it was never known.
    pub usage: Option<Usage>,
    /// Bytes read from stdout, delivered or not.
    pub stdout_bytes: u64,
    /// Bytes read from stderr, delivered or not.
    pub stderr_bytes: u64,
}

/// The end of a process as whoever watched it saw it.
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
    /// Its command name as the operating system has it; Linux cuts it to 15 bytes.
    pub name: String,
}

/// What a process and its descendants used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user code, summed over the tree.
    pub cpu_user: Duration,
    /// CPU time in the kernel, summed over the tree.
    pub cpu_system: Duration,
    /// The most memory that any single process of the tree held.
    pub max_rss_bytes: u64,
}
