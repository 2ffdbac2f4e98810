//! A small trusted helper program, before it is started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::path::PathBuf;

/// A helper program to run.
#[derive(Debug)]
pub struct QuickCommand {
    /// A path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// Its whole environment. Nothing is inherited: ours may hold secrets, and other processes of the same user can
    /// read the environment of a helper while it runs.
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory; ours if not given.
    pub cwd: Option<PathBuf>,
    /// The standard input.
    pub stdin: Source,
    /// Where its stdout goes.
    pub stdout: Sink,
    /// How many bytes are kept of each collected stream; 64 MiB by default.
    pub cap: usize,
}

/// The standard input of a helper.
#[derive(Debug)]
pub enum Source {
    /// Nothing.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A file from where it stands.
    File(File),
    /// The data written to the other end.
    Pipe(PipeReader),
}

/// Where a helper's stdout goes.
#[derive(Debug)]
pub enum Sink {
    /// Into [`CommandOutput::stdout`](crate::quick::CommandOutput::stdout).
    Collect,
    /// Into a file, from where it stands.
    File(File),
    /// To the reader of the other end.
    Pipe(PipeWriter),
}
