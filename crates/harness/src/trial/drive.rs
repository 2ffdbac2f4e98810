//! Drives one launched agent to its end: writes its output to disk and to the session, sends the
//! session's replies, and enforces limits and cancellation.

use std::{collections::BTreeSet, io, path::Path, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::{Input, Launch, Terminal};
use proctor_process::{
    Background, Capture, CaptureError, CaptureLimits, CapturePaths, Command, EndReason, Event,
    Limits, Line, Lines, Output, Report, Status, Stdin, Stream,
};
use proctor_record::{
    fs::beneath::UntrustedDir,
    outcome::{EndedBy, Ending},
    record::{self, COLLECTED_DIR, Listener},
    session::{Conclusion, LineSource, McpServer, Session, SessionEvent, SessionHost},
    transcript::LogWriter,
};
use proctor_sandbox::{
    ExecEnv, Running, StartError,
    docker::{EngineError, JobFacts},
    host::Host,
};
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    config::ProgressLimits,
    trial::{
        socket::{Socket, SocketEvent},
        stuck::Progress,
    },
};

const PTY_SIZE: Output = Output::Pty {
    columns: 200,
    rows: 50,
};

/// The maximum size of a collected file. Sessions get it as a whole.
const MAX_COLLECTED: u64 = 64 << 20;

/// The maximum number of recorded tool names: an agent may invent them.
const MOST_TOOLS: usize = 500;

/// The context for driving an agent.
pub struct Drive<'a> {
    /// The agent's working directory, as a path inside its environment.
    pub cwd: &'a Utf8Path,
    /// The environment of the agent.
    pub exec_env: &'a ExecEnv,
    /// The trial's directory, which contains the files of the agent.
    pub trial_dir: &'a Utf8Path,
    /// The limits of the process.
    pub limits: Limits,
    /// The fate of processes that it leaves behind.
    pub background: Background,
    /// When the agent is ended for making no progress.
    pub progress: ProgressLimits,
    /// The files for its output.
    pub paths: CapturePaths,
    /// The size limits of its output.
    pub capture: CaptureLimits,
    /// The socket that the agent connects to.
    pub socket: Option<Socket>,
    /// The host.
    pub host: &'a Host,
    /// The log of the session.
    pub log: &'a mut LogWriter<NamedTempFile>,
    /// The MCP servers that the agent cannot do without.
    pub required_mcp: &'a [String],
    /// The event callback.
    pub listener: &'a Listener<'a>,
    /// The cancellation token of the run.
    pub cancel: &'a CancellationToken,
    /// Cancelled when the agent's key is unknown to the gateway: retries would be in vain.
    pub unknown_key: CancellationToken,
}

/// The result of driving an agent.
pub struct Driven {
    /// The command of the agent.
    pub argv: Vec<String>,
    /// The conclusion of the session.
    pub conclusion: Conclusion,
    /// How the process ended.
    pub ending: Ending,
    /// The resources of the process, and its leftovers.
    pub report: Report,
    /// The captured output.
    pub capture: Capture,
    /// Why captured output is missing on disk.
    pub capture_error: Option<CaptureError>,
    /// The data of the container engine.
    pub facts: Option<JobFacts>,
    /// The repeated action, if it ended the agent.
    pub repeated: Option<String>,
    /// The names of the tools that the agent used.
    pub tools: BTreeSet<String>,
    /// The MCP servers that it reported.
    pub mcp_servers: Option<Vec<McpServer>>,
}

/// Why an agent could not be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The agent could not be started.
    #[error("cannot start the agent")]
    Start(#[from] StartError),
    /// The environment was lost, and the agent with it.
    #[error(transparent)]
    Lost(#[from] EngineError),
    /// The output could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl Drive<'_> {
    /// Starts the agent and drives it to its end.
    pub async fn run(mut self, launch: Launch) -> Result<Driven, DriveError> {
        let mut capture = Capture::create(self.paths.clone(), self.capture)?;
        let deadline = launch.message_deadline;
        let collected = self.collected(&launch);
        let command = self.command(&launch);
        let progress = Progress::begin(self.progress, self.exec_env, self.cwd).await;
        let mut sink = SessionSink::new(self.log, self.listener, progress);
        sink.required_mcp = self.required_mcp;
        let mut reader = SessionReader::new(launch.session, sink);
        self.exec_env.end_background().await?;
        let mut process = self.exec_env.start(command, self.host).await?;
        if launch.input == Input::Session {
            reader.session.on_open(&mut reader.sink);
            reader.sink.deliver(&mut process, self.socket.as_ref());
        }
        let mut quiet_until = deadline.map(|deadline| Instant::now() + deadline);
        let mut capture_error = None;
        let mut is_cancelled = false;
        let mut stuck = Stuck::No;
        let report = loop {
            let end_at = reader.sink.end_at;
            let due = reader.sink.progress.due().filter(|_| stuck == Stuck::No);
            tokio::select! {
                event = process.next() => match event? {
                    Event::Output { stream, bytes } => {
                        keep(&mut capture, stream, bytes, &mut capture_error);
                        reader.read(stream, bytes);
                    }
                    Event::Ended(report) => break report,
                },
                Some(event) = next(&mut self.socket) => {
                    quiet_until = deadline.map(|deadline| Instant::now() + deadline);
                    if let SocketEvent::Frame(frame) = &event {
                        keep(&mut capture, Stream::Stdout, frame, &mut capture_error);
                    }
                    reader.read_socket(&event);
                }
                () = either(self.cancel, &self.unknown_key), if !is_cancelled => {
                    is_cancelled = true;
                    process.end(EndReason::Cancelled);
                }
                () = at(end_at), if end_at.is_some() => {
                    reader.sink.end_at = None;
                    process.end(EndReason::Finished);
                }
                () = at(quiet_until), if quiet_until.is_some() => {
                    quiet_until = None;
                    process.end(EndReason::Idle);
                }
                () = at(due), if due.is_some() => {
                    if reader.sink.progress.is_stuck(self.exec_env, self.cwd).await {
                        stuck = Stuck::Quiet;
                        process.end(EndReason::Asked);
                    }
                }
            }
            if let (Stuck::No, Some(what)) = (&stuck, reader.sink.progress.repeated()) {
                stuck = Stuck::Repeating(what);
                process.end(EndReason::Asked);
            }
            reader.sink.deliver(&mut process, self.socket.as_ref());
        };
        let ending = ending(&report, &stuck);
        let kept = self.paths.stdout.with_file_name(COLLECTED_DIR);
        let mcp_servers = reader.sink.mcp_servers.take();
        let (conclusion, tools) = reader.finish(self.trial_dir, &collected, &kept, &ending);
        Ok(Driven {
            argv: launch.argv,
            tools,
            mcp_servers,
            conclusion,
            ending,
            report,
            capture,
            capture_error,
            facts: process.facts(),
            repeated: stuck.repeating(),
        })
    }

    /// The paths on this machine of the files to collect.
    fn collected(&self, launch: &Launch) -> Vec<Utf8PathBuf> {
        let paths = launch.collect.iter();
        paths
            .map(|path| self.exec_env.outside(path))
            // A path inside the container is a different file on this machine.
            .filter(|path| {
                path.starts_with(self.trial_dir) || matches!(self.exec_env, ExecEnv::Local)
            })
            .collect()
    }

    fn command(&self, launch: &Launch) -> Command {
        let mut words = launch.argv.iter().map(std::ffi::OsString::from);
        let env = launch.env.iter();
        Command {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            env: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: self.cwd.into(),
            stdin: match &launch.input {
                Input::Closed => Stdin::Null,
                Input::Bytes(bytes) => Stdin::Bytes(bytes.clone()),
                Input::Session => Stdin::Open,
            },
            output: match launch.terminal {
                Terminal::Pipes => Output::Pipes,
                Terminal::Pty => PTY_SIZE,
            },
            limits: self.limits,
            background: self.background,
        }
    }
}

/// Writes to disk. After the first failure (a full disk) the session is still read to its end.
fn keep(capture: &mut Capture, stream: Stream, bytes: &[u8], failed: &mut Option<CaptureError>) {
    if failed.is_none() {
        *failed = capture.write(stream, bytes).err();
    }
}

async fn next(socket: &mut Option<Socket>) -> Option<SocketEvent> {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until one of two tokens is cancelled.
async fn either(one: &CancellationToken, other: &CancellationToken) {
    tokio::select! {
        () = one.cancelled() => {}
        () = other.cancelled() => {}
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Whether the agent was ended for making no progress.
#[derive(Debug, PartialEq, Eq)]
enum Stuck {
    No,
    /// There was nothing new.
    Quiet,
    /// It repeated an action.
    Repeating(String),
}

impl Stuck {
    /// The repeated action.
    fn repeating(self) -> Option<String> {
        match self {
            Stuck::Repeating(what) => Some(what),
            Stuck::No | Stuck::Quiet => None,
        }
    }
}

fn ending(report: &Report, stuck: &Stuck) -> Ending {
    let (code, signal) = match report.exit.status {
        Some(Status::Code(code)) => (Some(code), None),
        Some(Status::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let ended_by = report.exit.ended_by.map(|reason| match reason {
        EndReason::TimedOut => EndedBy::WallLimit,
        EndReason::Idle => EndedBy::IdleLimit,
        EndReason::OutputLimit => EndedBy::OutputLimit,
        EndReason::Cancelled => EndedBy::Cancelled,
        EndReason::SupervisorLost => EndedBy::SupervisorLost,
        EndReason::Finished => EndedBy::Session,
        EndReason::Asked => match stuck {
            Stuck::No => EndedBy::Session,
            Stuck::Quiet => EndedBy::NoProgress,
            Stuck::Repeating(_) => EndedBy::Loop,
        },
    });
    Ending {
        code,
        signal,
        ended_by,
    }
}

/// The session with its line framers.
struct SessionReader<'a> {
    session: Box<dyn Session>,
    sink: SessionSink<'a>,
    stdout: Lines,
    stderr: Lines,
}

impl<'a> SessionReader<'a> {
    fn new(session: Box<dyn Session>, sink: SessionSink<'a>) -> SessionReader<'a> {
        SessionReader {
            session,
            sink,
            stdout: Lines::default(),
            stderr: Lines::default(),
        }
    }

    fn read(&mut self, stream: Stream, mut bytes: &[u8]) {
        let (lines, source) = match stream {
            Stream::Stdout => (&mut self.stdout, LineSource::Stdout),
            Stream::Stderr => (&mut self.stderr, LineSource::Stderr),
        };
        while let Some(line) = lines.next(&mut bytes) {
            hand_over(self.session.as_mut(), source, &line, &mut self.sink);
            if self.session.takes_blocks()
                && let Some(last) = memchr::memrchr(b'\n', bytes)
            {
                let (block, rest) = bytes.split_at(last + 1);
                self.session.on_block(source, block, &mut self.sink);
                bytes = rest;
            }
        }
    }

    fn read_socket(&mut self, event: &SocketEvent) {
        match event {
            SocketEvent::Closed => {}
            SocketEvent::Opened => self.session.on_open(&mut self.sink),
            SocketEvent::Frame(frame) => {
                for line in frame
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    self.session
                        .on_line(LineSource::Socket, line, &mut self.sink);
                }
            }
        }
    }

    fn finish(
        mut self,
        trial_dir: &Utf8Path,
        collected: &[Utf8PathBuf],
        kept: &Path,
        ending: &Ending,
    ) -> (Conclusion, BTreeSet<String>) {
        for (lines, source) in [
            (&mut self.stdout, LineSource::Stdout),
            (&mut self.stderr, LineSource::Stderr),
        ] {
            if let Some(line) = lines.finish() {
                hand_over(self.session.as_mut(), source, &line, &mut self.sink);
            }
        }
        for path in collected {
            if let Some(bytes) = collect(trial_dir, path) {
                if let Err(error) = keep_collected(kept, path, &bytes) {
                    let note = format!("cannot keep {path}: {error}");
                    self.sink.event(SessionEvent::Note(&note));
                }
                self.session.on_file(path, &bytes, &mut self.sink);
            }
        }
        let conclusion = self.session.finish(ending, &mut self.sink);
        (conclusion, self.sink.tools)
    }
}

/// Reads a file of the agent. It is untrusted: it may be missing, too large, a link, or not a
/// regular file.
fn collect(trial_dir: &Utf8Path, path: &Utf8Path) -> Option<Vec<u8>> {
    let read = match path.strip_prefix(trial_dir) {
        Ok(below) => UntrustedDir::new(trial_dir).read(below, MAX_COLLECTED),
        Err(_) => UntrustedDir::new(path.parent()?).read(path.file_name()?, MAX_COLLECTED),
    };
    read.ok()
}

/// Records a file that the session read, so that it can be read again.
fn keep_collected(folder: &Path, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    fs_err::create_dir_all(folder)?;
    fs_err::write(folder.join(path.file_name().unwrap_or("file")), bytes)
}

fn hand_over(
    session: &mut dyn Session,
    source: LineSource,
    line: &Line<'_>,
    sink: &mut SessionSink<'_>,
) {
    match line {
        Line::Whole(line) => session.on_line(source, line, sink),
        Line::Oversized { bytes } => session.on_oversized_line(source, *bytes),
    }
}

/// The environment of the session.
struct SessionSink<'a> {
    log: &'a mut LogWriter<NamedTempFile>,
    listener: &'a Listener<'a>,
    replies: Vec<Vec<u8>>,
    end_at: Option<Instant>,
    closes_input: bool,
    progress: Progress,
    tools: BTreeSet<String>,
    required_mcp: &'a [String],
    mcp_servers: Option<Vec<McpServer>>,
}

impl<'a> SessionSink<'a> {
    fn new(
        log: &'a mut LogWriter<NamedTempFile>,
        listener: &'a Listener<'a>,
        progress: Progress,
    ) -> SessionSink<'a> {
        SessionSink {
            log,
            listener,
            replies: Vec::new(),
            end_at: None,
            closes_input: false,
            progress,
            tools: BTreeSet::new(),
            required_mcp: &[],
            mcp_servers: None,
        }
    }

    /// Keep the states of MCP servers, and end an agent that lacks one that it cannot do without.
    fn take_mcp_servers(&mut self, servers: &[McpServer]) {
        let lacks =
            |server: &McpServer| !server.is_usable() && self.required_mcp.contains(&server.name);
        if servers.iter().any(lacks) {
            self.end_within(Duration::ZERO);
        }
        self.mcp_servers = Some(servers.to_vec());
    }

    /// Delivers the session's requests to the process.
    fn deliver(&mut self, process: &mut Running, socket: Option<&Socket>) {
        for reply in self.replies.drain(..) {
            match socket {
                Some(socket) => socket.send(reply),
                None => process.send(&reply),
            }
        }
        if std::mem::take(&mut self.closes_input) {
            process.close_stdin();
        }
    }
}

impl SessionHost for SessionSink<'_> {
    fn event(&mut self, event: SessionEvent<'_>) {
        self.log.event(event);
        self.progress.event(&event);
        if let SessionEvent::McpServers(servers) = event {
            self.take_mcp_servers(servers);
        }
        if let SessionEvent::ToolCall { name, .. } = event
            && self.tools.len() < MOST_TOOLS
            && !self.tools.contains(name)
        {
            self.tools.insert(name.to_owned());
        }
        if let Some(event) = record::Event::of_session(event) {
            (self.listener)(&event);
        }
    }

    fn reply(&mut self, bytes: Vec<u8>) {
        self.replies.push(bytes);
    }

    fn close_input(&mut self) {
        self.closes_input = true;
    }

    fn end_within(&mut self, grace: Duration) {
        self.end_at = Some(Instant::now() + grace);
    }
}
