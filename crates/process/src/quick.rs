//! Small trusted helper programs such as git: no supervisor, just a process group with a time limit.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};

use crate::{Error, Status, sys};

/// How long a helper's own background processes may hold its output after it has exited.
const LINGER: Duration = Duration::from_millis(500);

/// What is kept of each stream, unless told otherwise.
const CAP: usize = 64 * 1024 * 1024;

/// A helper program to run.
#[derive(Debug)]
pub struct QuickCommand {
    /// A path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: Environment,
    /// Its working directory; ours if not given.
    pub cwd: Option<PathBuf>,
    /// What it reads.
    pub stdin: Source,
    /// Where its stdout goes.
    pub stdout: Sink,
    /// How many bytes are kept of each collected stream; 64 MiB by default.
    pub cap: usize,
}

/// The environment of a helper.
#[derive(Clone, Debug)]
pub enum Environment {
    /// Ours, with these added or replaced.
    Inherited(BTreeMap<OsString, OsString>),
    /// These and no others.
    Exactly(BTreeMap<OsString, OsString>),
}

impl Environment {
    /// The file that a name stands for. The standard library would leave the search to a fork of ours, which is
    /// slow; a path it starts without one.
    fn locate(&self, program: &OsStr) -> OsString {
        let Environment::Exactly(variables) = self else {
            return program.to_owned();
        };
        let path = variables.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let found = sys::find(program, path, Path::new(""));
        found.map_or_else(|_| program.to_owned(), OsString::from)
    }
}

/// What a helper reads.
#[derive(Debug)]
pub enum Source {
    /// Nothing.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A file from where it stands.
    File(File),
    /// What someone writes into the other end.
    Pipe(PipeReader),
}

/// Where a helper's stdout goes.
#[derive(Debug)]
pub enum Sink {
    /// Into [`CommandOutput::stdout`].
    Collect,
    /// Into a file, from where it stands.
    File(File),
    /// To whoever reads the other end.
    Pipe(PipeWriter),
}

/// What became of a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub status: Status,
    /// What it wrote to stdout, if that was collected.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than was kept.
    pub truncated: bool,
}

impl CommandOutput {
    /// Whether it exited with code 0.
    pub fn success(&self) -> bool {
        self.status == Status::Code(0)
    }
}

impl QuickCommand {
    /// A command that inherits the environment, reads nothing and has its output collected.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Environment::Inherited(BTreeMap::new()),
            cwd: None,
            stdin: Source::Null,
            stdout: Sink::Collect,
            cap: CAP,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one variable.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let (Environment::Inherited(variables) | Environment::Exactly(variables)) = &mut self.env;
        variables.insert(key.into(), value.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets what it reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Source) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets where its stdout goes.
    #[must_use]
    pub fn stdout(mut self, stdout: Sink) -> Self {
        self.stdout = stdout;
        self
    }
}

/// Runs a helper to its end. It is killed with its process group when `timeout` passes or the future is
/// dropped. A failing exit status is not an error.
pub async fn output(command: QuickCommand, timeout: Duration) -> Result<CommandOutput, Error> {
    let mut running = Running::start(command)?;
    match tokio::time::timeout(timeout, running.finish()).await {
        Ok(output) => output,
        Err(_elapsed) => {
            running.kill().await;
            Err(running.timed_out(timeout))
        }
    }
}

/// Runs two helpers, the stdout of the first being the stdin of the second, within one timeout for both.
pub async fn pipeline(
    first: QuickCommand,
    second: QuickCommand,
    timeout: Duration,
) -> Result<(CommandOutput, CommandOutput), Error> {
    let (reader, writer) = io::pipe().map_err(|source| Error::Stdio {
        program: first.program.clone(),
        source,
    })?;
    let mut first = Running::start(first.stdout(Sink::Pipe(writer)))?;
    let mut second = Running::start(second.stdin(Source::Pipe(reader)))?;
    let both = async { tokio::try_join!(first.finish(), second.finish()) };
    match tokio::time::timeout(timeout, both).await {
        Ok(outputs) => outputs,
        Err(_elapsed) => {
            let late = if first.child.id().is_some() {
                first.timed_out(timeout)
            } else {
                second.timed_out(timeout)
            };
            tokio::join!(first.kill(), second.kill());
            Err(late)
        }
    }
}

/// A helper that runs; killed with its group when dropped before its end.
struct Running {
    program: OsString,
    child: Child,
    stdin: Option<(ChildStdin, Vec<u8>)>,
    cap: usize,
}

impl Running {
    fn start(command: QuickCommand) -> Result<Self, Error> {
        if let Some(cwd) = &command.cwd
            && !cwd.is_dir()
        {
            return Err(Error::CwdMissing { cwd: cwd.clone() });
        }
        let program = command.program.clone();
        let (mut prepared, input) =
            prepare(command.stdin, command.stdout, &command.env.locate(&program));
        prepared.args(&command.args).process_group(0);
        if let Some(cwd) = &command.cwd {
            prepared.current_dir(cwd);
        }
        match command.env {
            Environment::Inherited(variables) => prepared.envs(variables),
            Environment::Exactly(variables) => prepared.env_clear().envs(variables),
        };
        let mut child = prepared
            .spawn()
            .map_err(|source| not_started(&program, source))?;
        Ok(Self {
            stdin: child.stdin.take().zip(input),
            program,
            child,
            cap: command.cap,
        })
    }

    async fn finish(&mut self) -> Result<CommandOutput, Error> {
        let mut stdout = Collected::new(self.cap);
        let mut stderr = Collected::new(self.cap);
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let stdin = self.stdin.take();
        let status = {
            let mut streams = pin!(async {
                tokio::join!(feed(stdin), stdout.fill(out), stderr.fill(err));
            });
            let mut flowing = true;
            let status = loop {
                tokio::select! {
                    status = self.child.wait() => break status,
                    () = &mut streams, if flowing => flowing = false,
                }
            };
            if flowing {
                let _ = tokio::time::timeout(LINGER, streams).await;
            }
            status
        };
        let status = status.map_err(|source| Error::Wait {
            program: self.program.clone(),
            source,
        })?;
        Ok(CommandOutput {
            status: sys::status(status),
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
        })
    }

    async fn kill(&mut self) {
        if let Some(leader) = self.child.id() {
            sys::kill_group(leader);
            let _ = self.child.wait().await;
        }
    }

    fn timed_out(&self, after: Duration) -> Error {
        Error::TimedOut {
            program: self.program.clone(),
            after,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The id is gone once the child has been waited for, so that no stranger is hit.
        if let Some(leader) = self.child.id() {
            sys::kill_group(leader);
        }
    }
}

/// The command with its streams, and the bytes to feed it.
fn prepare(
    stdin: Source,
    stdout: Sink,
    program: &OsStr,
) -> (tokio::process::Command, Option<Vec<u8>>) {
    let (stdin, input) = match stdin {
        Source::Null => (Stdio::null(), None),
        Source::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
        Source::File(file) => (file.into(), None),
        Source::Pipe(reader) => (reader.into(), None),
    };
    let stdout = match stdout {
        Sink::Collect => Stdio::piped(),
        Sink::File(file) => file.into(),
        Sink::Pipe(writer) => writer.into(),
    };
    #[expect(clippy::disallowed_methods, reason = "this is where processes start")]
    let mut command = tokio::process::Command::new(program);
    command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
    (command, input)
}

fn not_started(program: &OsString, source: io::Error) -> Error {
    let program = program.clone();
    let is_path = Path::new(&program).components().count() > 1;
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_path => Error::NotExecutable {
            path: program.into(),
        },
        // For a name this only says that some folder of `PATH` is closed to us.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            Error::ProgramNotFound { program }
        }
        _ => Error::Start { program, source },
    }
}

/// Writes the input; a helper that does not want all of it closes its end, which is no error.
async fn feed(stdin: Option<(ChildStdin, Vec<u8>)>) {
    if let Some((mut pipe, bytes)) = stdin {
        let _ = pipe.write_all(&bytes).await;
    }
}

/// The beginning of a stream.
struct Collected {
    bytes: Vec<u8>,
    cap: usize,
    truncated: bool,
}

impl Collected {
    fn new(cap: usize) -> Self {
        Self {
            bytes: Vec::new(),
            cap,
            truncated: false,
        }
    }

    /// Reads to the end, or to an error, which for a pipe is the end.
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            let room = self.cap - self.bytes.len();
            self.bytes.extend_from_slice(&chunk[..count.min(room)]);
            self.truncated |= count > room;
        }
    }
}
