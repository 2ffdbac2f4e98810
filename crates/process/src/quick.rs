//! Small trusted helper programs such as git: no supervisor, just a process group or a job with a time limit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::sys::{Helper, Streams};
use crate::{Error, Status};

pub use crate::helper::{QuickCommand, Sink, Source};

/// How long a helper's own background processes may hold its output in silence after it has exited.
const LINGER: Duration = Duration::from_millis(500);

/// How long they may hold it in all.
const LONGEST_LINGER: Duration = Duration::from_secs(5);

/// The default maximum of bytes kept from each stream.
const CAP: usize = 64 * 1024 * 1024;

/// The result of a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub status: Status,
    /// The collected stdout.
    pub stdout: Vec<u8>,
    /// The collected stderr.
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
    /// A command with an empty environment that reads nothing and has its output collected.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
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
        self.env.insert(key.into(), value.into());
        self
    }

    /// Sets these variables.
    #[must_use]
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        self.env
            .extend(variables.map(|(name, value)| (name.into(), value.into())));
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

/// Runs a helper to its end. It is killed with its process group (on Windows: its job) when `timeout` passes or the future is
/// dropped. A failing exit status is not an error.
pub async fn output(command: QuickCommand, timeout: Duration) -> Result<CommandOutput, Error> {
    let mut running = RunningHelper::start(command)?;
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
    let mut first = RunningHelper::start(first.stdout(Sink::Pipe(writer)))?;
    let mut second = RunningHelper::start(second.stdin(Source::Pipe(reader)))?;
    let both = async { tokio::try_join!(first.finish(), second.finish()) };
    match tokio::time::timeout(timeout, both).await {
        Ok(outputs) => outputs,
        Err(_elapsed) => {
            let late = if first.helper.runs() {
                first.timed_out(timeout)
            } else {
                second.timed_out(timeout)
            };
            tokio::join!(first.kill(), second.kill());
            Err(late)
        }
    }
}

/// A running helper. If dropped early, it is killed with its descendants.
struct RunningHelper {
    program: OsString,
    helper: Helper,
    streams: Option<Streams>,
    cap: usize,
}

impl RunningHelper {
    fn start(command: QuickCommand) -> Result<Self, Error> {
        if let Some(cwd) = &command.cwd
            && !cwd.is_dir()
        {
            return Err(Error::CwdMissing { cwd: cwd.clone() });
        }
        let (program, cap) = (command.program.clone(), command.cap);
        let (helper, streams) = Helper::start(command)?;
        Ok(Self {
            program,
            helper,
            streams: Some(streams),
            cap,
        })
    }

    async fn finish(&mut self) -> Result<CommandOutput, Error> {
        let reads = AtomicU64::new(0);
        let mut stdout = Collected::new(self.cap, &reads);
        let mut stderr = Collected::new(self.cap, &reads);
        let open = self.streams.take();
        let status = {
            let mut streams = pin!(async {
                if let Some(open) = open {
                    tokio::join!(
                        feed(open.stdin),
                        stdout.fill(open.stdout),
                        stderr.fill(open.stderr)
                    );
                }
            });
            let mut flowing = true;
            let status = loop {
                tokio::select! {
                    status = self.helper.wait() => break status,
                    () = &mut streams, if flowing => flowing = false,
                }
            };
            if flowing {
                let lingering = linger(streams, &reads);
                let _ = tokio::time::timeout(LONGEST_LINGER, lingering).await;
            }
            status
        };
        let status = status.map_err(|source| Error::Wait {
            program: self.program.clone(),
            source,
        })?;
        Ok(CommandOutput {
            status,
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
        })
    }

    async fn kill(&mut self) {
        if self.helper.runs() {
            self.helper.kill();
            let _ = self.helper.wait().await;
        }
    }

    fn timed_out(&self, after: Duration) -> Error {
        Error::TimedOut {
            program: self.program.clone(),
            after,
        }
    }
}

/// Sees the streams of a helper that has exited to their end, as long as something comes: on Windows even what it wrote
/// itself comes in pieces, each of which has to be waited for.
async fn linger(mut streams: impl Future<Output = ()> + Unpin, reads: &AtomicU64) {
    loop {
        let before = reads.load(Ordering::Relaxed);
        let ended = tokio::time::timeout(LINGER, &mut streams).await;
        if ended.is_ok() || reads.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

/// Writes the input. A helper may close its end early, which is not an error.
async fn feed(stdin: Option<(impl AsyncWrite + Unpin, Vec<u8>)>) {
    if let Some((mut pipe, bytes)) = stdin {
        let _ = pipe.write_all(&bytes).await;
    }
}

/// The beginning of a stream.
struct Collected<'a> {
    bytes: Vec<u8>,
    cap: usize,
    truncated: bool,
    /// Counts each read, so that others see whether something comes.
    reads: &'a AtomicU64,
}

impl<'a> Collected<'a> {
    fn new(cap: usize, reads: &'a AtomicU64) -> Self {
        Self {
            bytes: Vec::new(),
            cap,
            truncated: false,
            reads,
        }
    }

    /// Reads to the end, or to an error, which for a pipe is the end.
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let room = self.cap - self.bytes.len();
            self.bytes.extend_from_slice(&chunk[..count.min(room)]);
            self.truncated |= count > room;
        }
    }
}
