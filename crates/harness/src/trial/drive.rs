//! Drives one launched agent to its end: its output goes to disk and to the session, the
//! session's replies go back, and limits and cancellation end it.

use std::{collections::BTreeSet, io, path::Path, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Capture, CaptureError, CaptureLimits, CapturePaths, Command, EndReason, Event, Limits, Line,
    Lines, Output, Report, Status, Stdin, Stream,
};
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Input, Launch, Terminal},
    config::ProgressLimits,
    fs::beneath::UntrustedDir,
    host::Host,
    outcome::{EndedBy, Ending},
    record::{
        COLLECTED_DIR,
        run_event::{Listener, RunEvent},
    },
    sandbox::{
        Room, Running, StartError,
        docker::{EngineError, Facts},
    },
    session::{Conclusion, Session, SessionEvent, SessionHost, Source},
    transcript::LogWriter,
    trial::{
        socket::{Socket, SocketEvent},
        stuck::Progress,
    },
};

const PTY_SIZE: Output = Output::Pty {
    columns: 200,
    rows: 50,
};

/// The largest file that is collected. Sessions see it whole.
const MAX_COLLECTED: u64 = 64 << 20;

/// Names of tools beyond so many are not kept: an agent may make them up.
const MOST_TOOLS: usize = 500;

/// The context for driving an agent.
pub struct Drive<'a> {
    /// Where it works, as it sees it.
    pub cwd: &'a Utf8Path,
    /// Where it runs.
    pub room: &'a Room,
    /// The trial's own folder: files that the agent leaves are below it.
    pub area: &'a Utf8Path,
    /// Its limits.
    pub limits: Limits,
    /// When it is ended for not getting on.
    pub progress: ProgressLimits,
    /// Where its output goes.
    pub paths: CapturePaths,
    /// How much of its output goes there.
    pub capture: CaptureLimits,
    /// The socket that it connects to.
    pub socket: Option<Socket>,
    /// The machine.
    pub host: &'a Host,
    /// The log that its session is written to.
    pub log: &'a mut LogWriter<NamedTempFile>,
    /// The event callback.
    pub listener: &'a Listener<'a>,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
    /// Cancelled when its key is not one that the gateway knows: it would try again in vain.
    pub unknown_key: CancellationToken,
}

/// The result.
pub struct Driven {
    /// The conclusion of the session.
    pub conclusion: Conclusion,
    /// How the process ended.
    pub ending: Ending,
    /// The resources of the process, and its leftovers.
    pub report: Report,
    /// The captured output.
    pub capture: Capture,
    /// Why not everything that was captured is on disk.
    pub capture_error: Option<CaptureError>,
    /// The data of a container's engine.
    pub facts: Option<Facts>,
    /// The repeated action, if that stopped it.
    pub repeated: Option<String>,
    /// The names of the tools that it used.
    pub tools: BTreeSet<String>,
}

/// Why an agent could not be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// It could not be started.
    #[error("the agent could not be started")]
    Start(#[from] StartError),
    /// The place where it ran is gone, and it with it.
    #[error(transparent)]
    Lost(#[from] EngineError),
    /// Its output has nowhere to go.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl Drive<'_> {
    /// Start the agent and see it through.
    pub async fn run(mut self, launch: Launch) -> Result<Driven, DriveError> {
        let mut capture = Capture::create(self.paths.clone(), self.capture)?;
        let deadline = launch.message_deadline;
        let collected: Vec<Utf8PathBuf> = launch
            .collect
            .iter()
            .map(|path| self.room.outside(path))
            // A path that only the container has is another file here.
            .filter(|path| path.starts_with(self.area) || matches!(self.room, Room::Local))
            .collect();
        let command = self.command(&launch);
        let progress = Progress::begin(self.progress, self.room, self.cwd).await;
        let desk = Desk::new(self.log, self.listener, progress);
        let mut reader = Reader::new(launch.session, desk);
        let mut process = self.room.start(command, self.host).await?;
        if launch.input == Input::Session {
            reader.session.on_open(&mut reader.desk);
            reader.desk.deliver(&mut process, self.socket.as_ref());
        }
        let mut quiet_until = deadline.map(|deadline| Instant::now() + deadline);
        let mut capture_error = None;
        let mut is_cancelled = false;
        let mut stuck = Stuck::No;
        let report = loop {
            let end_at = reader.desk.end_at;
            let due = reader.desk.progress.due().filter(|_| stuck == Stuck::No);
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
                    reader.desk.end_at = None;
                    process.end(EndReason::Asked);
                }
                () = at(quiet_until), if quiet_until.is_some() => {
                    quiet_until = None;
                    process.end(EndReason::Idle);
                }
                () = at(due), if due.is_some() => {
                    if reader.desk.progress.is_stuck(self.room, self.cwd).await {
                        stuck = Stuck::Quiet;
                        process.end(EndReason::Asked);
                    }
                }
            }
            if let (Stuck::No, Some(what)) = (&stuck, reader.desk.progress.repeated()) {
                stuck = Stuck::Repeating(what);
                process.end(EndReason::Asked);
            }
            reader.desk.deliver(&mut process, self.socket.as_ref());
        };
        let ending = ending(&report, &stuck);
        let kept = self.paths.stdout.with_file_name(COLLECTED_DIR);
        let (conclusion, tools) = reader.finish(self.area, &collected, &kept, &ending);
        Ok(Driven {
            tools,
            conclusion,
            ending,
            report,
            capture,
            capture_error,
            facts: process.facts(),
            repeated: stuck.repeating(),
        })
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
        }
    }
}

/// Write to disk; after the first failure (a full disk) the session is still read to its end.
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

/// Wait until one of two is cancelled.
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

/// Whether the agent was ended for not getting on.
#[derive(Debug, PartialEq, Eq)]
enum Stuck {
    No,
    /// Nothing new came of it.
    Quiet,
    /// It did the same again and again.
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
struct Reader<'a> {
    session: Box<dyn Session>,
    desk: Desk<'a>,
    stdout: Lines,
    stderr: Lines,
}

impl<'a> Reader<'a> {
    fn new(session: Box<dyn Session>, desk: Desk<'a>) -> Reader<'a> {
        Reader {
            session,
            desk,
            stdout: Lines::default(),
            stderr: Lines::default(),
        }
    }

    fn read(&mut self, stream: Stream, mut bytes: &[u8]) {
        let (lines, source) = match stream {
            Stream::Stdout => (&mut self.stdout, Source::Stdout),
            Stream::Stderr => (&mut self.stderr, Source::Stderr),
        };
        while let Some(line) = lines.next(&mut bytes) {
            hand_over(self.session.as_mut(), source, &line, &mut self.desk);
            if self.session.takes_blocks()
                && let Some(last) = memchr::memrchr(b'\n', bytes)
            {
                let (block, rest) = bytes.split_at(last + 1);
                self.session.on_block(source, block, &mut self.desk);
                bytes = rest;
            }
        }
    }

    fn read_socket(&mut self, event: &SocketEvent) {
        match event {
            SocketEvent::Closed => {}
            SocketEvent::Opened => self.session.on_open(&mut self.desk),
            SocketEvent::Frame(frame) => {
                for line in frame
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    self.session.on_line(Source::Socket, line, &mut self.desk);
                }
            }
        }
    }

    fn finish(
        mut self,
        area: &Utf8Path,
        collected: &[Utf8PathBuf],
        kept: &Path,
        ending: &Ending,
    ) -> (Conclusion, BTreeSet<String>) {
        for (lines, source) in [
            (&mut self.stdout, Source::Stdout),
            (&mut self.stderr, Source::Stderr),
        ] {
            if let Some(line) = lines.finish() {
                hand_over(self.session.as_mut(), source, &line, &mut self.desk);
            }
        }
        for path in collected {
            if let Some(bytes) = collect(area, path) {
                if let Err(error) = keep_collected(kept, path, &bytes) {
                    let note = format!("{path} could not be kept: {error}");
                    self.desk.event(SessionEvent::Note(&note));
                }
                self.session.on_file(path, &bytes, &mut self.desk);
            }
        }
        let conclusion = self.session.finish(ending, &mut self.desk);
        (conclusion, self.desk.tools)
    }
}

/// A file that the agent left. It is the agent's: it may be missing, too large, a link, or not a file.
fn collect(area: &Utf8Path, path: &Utf8Path) -> Option<Vec<u8>> {
    let read = match path.strip_prefix(area) {
        Ok(below) => UntrustedDir::new(area).read(below, MAX_COLLECTED),
        Err(_) => UntrustedDir::new(path.parent()?).read(path.file_name()?, MAX_COLLECTED),
    };
    read.ok()
}

/// Files that a session read are recorded, so that they can be read again.
fn keep_collected(folder: &Path, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    fs_err::create_dir_all(folder)?;
    fs_err::write(folder.join(path.file_name().unwrap_or("file")), bytes)
}

fn hand_over(session: &mut dyn Session, source: Source, line: &Line<'_>, desk: &mut Desk<'_>) {
    match line {
        Line::Whole(line) => session.on_line(source, line, desk),
        Line::Oversized { bytes } => session.on_oversized_line(source, *bytes),
    }
}

/// The environment of the session.
struct Desk<'a> {
    log: &'a mut LogWriter<NamedTempFile>,
    listener: &'a Listener<'a>,
    replies: Vec<Vec<u8>>,
    end_at: Option<Instant>,
    closes_input: bool,
    progress: Progress,
    tools: BTreeSet<String>,
}

impl<'a> Desk<'a> {
    fn new(
        log: &'a mut LogWriter<NamedTempFile>,
        listener: &'a Listener<'a>,
        progress: Progress,
    ) -> Desk<'a> {
        Desk {
            log,
            listener,
            replies: Vec::new(),
            end_at: None,
            closes_input: false,
            progress,
            tools: BTreeSet::new(),
        }
    }

    /// Bring what the session asked for to the process.
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

impl SessionHost for Desk<'_> {
    fn event(&mut self, event: SessionEvent<'_>) {
        self.log.event(event);
        self.progress.event(&event);
        if let SessionEvent::ToolCall { name, .. } = event
            && self.tools.len() < MOST_TOOLS
            && !self.tools.contains(name)
        {
            self.tools.insert(name.to_owned());
        }
        if let Some(event) = RunEvent::from_session(event) {
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
