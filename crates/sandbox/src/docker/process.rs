//! A running job in a container, with the same interface as a local
//! [`Process`](proctor_process::Process): output first, then the report.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::query_parameters::{KillContainerOptions, WaitContainerOptions};
use futures_util::StreamExt;
use proctor_process::{
    Background, EndReason, Event, Exit, InitEnd, Job, JobInput, JobReport, Limits, Report, Status,
    Stream,
};
use tokio::time::{Instant, Sleep, sleep_until};

use super::announcement::Announcement;
use super::attach::{self, Attached, OutputPiece, StdinFeeder};
use super::container::{Inner, KeptProcesses};
use super::disk::exceeded;
use super::engine::ANSWER;
use super::{DiskLimit, EngineError};

/// How long to wait for the last output after the container has ended.
const DRAIN: Duration = Duration::from_secs(5);

/// The additional time for the first process to kill all others before the engine kills it.
const KILL_AFTER: Duration = Duration::from_millis(200);

/// The same if it stops background processes and reports meanwhile.
const KEEP_AFTER: Duration = Duration::from_secs(2);

/// The timeout of the engine for killing.
const OVERDUE: Duration = Duration::from_secs(30);

/// The additional time of a job after its limit if Proctor is dead.
const ORPHANED: Duration = Duration::from_secs(2);

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A running job. Dropping it kills it.
pub struct ContainerProcess {
    container: Arc<Inner>,
    limits: Limits,
    started: Instant,
    attached: Option<AttachedOutput>,
    /// How the end of a job is known whose container goes on.
    announcement: Option<Announcement>,
    /// The current piece of output without the announcement.
    passed: Vec<u8>,
    keeps: bool,
    input: Option<StdinFeeder<InputHalf>>,
    exit: Waiting<Result<i64, EngineError>>,
    exited: Option<(Instant, Result<i64, EngineError>)>,
    disk: Option<Waiting<u64>>,
    disk_used: Option<u64>,
    bytes: [u64; 2],
    last_output: Instant,
    ending: Option<RequestedEnd>,
    timer: Pin<Box<Sleep>>,
    end: Option<Result<(Report, JobFacts), EngineError>>,
}

type AttachedOutput = attach::Demultiplexer<tokio::io::ReadHalf<attach::Connection>>;
type InputHalf = attach::InputHalf;

/// The requested end.
#[derive(Clone, Copy, Debug)]
struct RequestedEnd {
    since: Instant,
    reason: EndReason,
    is_killed: bool,
}

/// The data of a container's job in addition to its [`Report`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// The number of OOM kills in the container.
    pub oom_kills: Option<u64>,
    /// The peak memory of the container, including file cache.
    pub peak_memory_bytes: Option<u64>,
    /// The written bytes, if they exceeded the limit.
    pub disk_exceeded: Option<u64>,
    /// The enforcement of the disk limit.
    pub disk_limit: Option<DiskLimit>,
}

/// A step of [`ContainerProcess::next`], without borrows.
enum ContainerStep {
    Output(OutputPiece),
    /// [`ContainerProcess::passed`].
    Passed(Stream),
    Finished,
}

impl ContainerProcess {
    pub(super) async fn start(
        container: Arc<Inner>,
        mut job: Job,
        mut limits: Limits,
    ) -> Result<Self, EngineError> {
        job.wall = limits.wall.map(|wall| wall + ORPHANED);
        if let Some(readiness) = &job.readiness {
            // The job's time starts when the container is ready, which is known only inside.
            job.wall = limits.wall;
            limits.wall = limits
                .wall
                .map(|wall| wall + readiness.longest() + ORPHANED);
        }
        job.term_grace = limits.term_grace;
        job.leak_grace = limits.leak_grace;
        if container.is_carried() {
            job.relays.clear();
        }
        let keeps = job.background != Background::End;
        let kept = container.take_kept();
        let is_first = kept.is_none();
        // Without processes of an earlier job there is nothing to freeze.
        let announcement = match (kept, job.background) {
            (None, Background::Keep) => Some(Announcement::new()),
            (kept, _) => kept,
        };
        job.has_secret = is_first && announcement.is_some();
        container.bring_in().await?;
        container.write_job(&job).await?;
        let Attached { output, input } = connect(&container).await?;
        if is_first {
            container.start().await?;
        } else {
            container.signal("SIGUSR1").await?;
        }
        let now = Instant::now();
        let mut input = StdinFeeder::new(input);
        if job.has_secret {
            input.push(announcement.as_ref().map_or(&[], |it| it.secret()));
        }
        if job.input == JobInput::Null {
            input.close();
        }
        let watched = container.watched_disk();
        Ok(Self {
            exit: Box::pin(wait(Arc::clone(&container))),
            disk: watched
                .map(|limit| -> Waiting<u64> { Box::pin(exceeded(Arc::clone(&container), limit)) }),
            container,
            limits,
            started: now,
            attached: Some(output),
            announcement,
            passed: Vec::new(),
            keeps,
            input: Some(input),
            exited: None,
            disk_used: None,
            bytes: [0; 2],
            last_output: now,
            ending: None,
            timer: Box::pin(sleep_until(now)),
            end: None,
        })
    }

    /// Queues bytes for stdin; they are written while [`next`](Self::next) is awaited. Dropped if stdin is closed.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            input.push(bytes);
        }
    }

    /// Closes stdin once everything queued is written.
    pub fn close_stdin(&mut self) {
        if let Some(input) = &mut self.input {
            input.close();
        }
    }

    /// Ends the job: SIGTERM to all its processes, SIGKILL after the grace period. The first reason
    /// is kept; output and the report still come from [`next`](Self::next).
    pub fn end(&mut self, reason: EndReason) {
        if self.ending.is_none() && self.exited.is_none() {
            self.ending = Some(RequestedEnd {
                since: Instant::now(),
                reason,
                is_killed: false,
            });
            self.kill(match reason {
                EndReason::Finished if self.keeps => "SIGUSR2",
                _ => "SIGTERM",
            });
        }
    }

    /// The next output, or the report at the end (and again on every later call).
    ///
    /// Cancel-safe: no byte is lost if the future is dropped. Limits are enforced only while this
    /// is awaited; the wall limit is enforced two seconds later in any case.
    pub async fn next(&mut self) -> Result<Event<'_>, EngineError> {
        let step = match self.end {
            None => poll_fn(|context| self.poll_step(context)).await,
            Some(_) => ContainerStep::Finished,
        };
        match step {
            ContainerStep::Output(piece) => {
                let output = self
                    .attached
                    .as_ref()
                    .expect("the output just returned a piece");
                Ok(Event::Output {
                    stream: piece.stream,
                    bytes: output.bytes(piece),
                })
            }
            ContainerStep::Passed(stream) => Ok(Event::Output {
                stream,
                bytes: &self.passed,
            }),
            ContainerStep::Finished => {
                if self.end.is_none() {
                    self.end = Some(self.conclude().await);
                }
                let end = self.end.clone().expect("it was just set");
                end.map(|(report, _)| Event::Ended(report))
            }
        }
    }

    /// The additional data, available after [`next`](Self::next) has returned the report.
    pub fn facts(&self) -> Option<&JobFacts> {
        self.end.as_ref()?.as_ref().ok().map(|(_, facts)| facts)
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<ContainerStep> {
        loop {
            if let Some(input) = &mut self.input
                && input.poll_feed(context).is_ready()
            {
                self.input = None;
            }
            if self.exited.is_none()
                && let Poll::Ready(exit) = self.exit.as_mut().poll(context)
            {
                self.exited = Some((Instant::now(), exit));
                self.disk = None;
            }
            self.watch_disk(context);
            self.enforce_time();
            if let Poll::Ready(step) = self.poll_output(context) {
                return Poll::Ready(step);
            }
            if self.attached.is_none() && self.exited.is_some() {
                return Poll::Ready(ContainerStep::Finished);
            }
            let Some(deadline) = self.deadline() else {
                return Poll::Pending;
            };
            if self.timer.deadline() != deadline {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // Only here, without pending output, the stream may be closed or a job be idle.
            if self.exited.is_some() {
                return Poll::Ready(ContainerStep::Finished);
            }
            if self.idle_at().is_some_and(|at| at <= Instant::now()) {
                self.end(EndReason::Idle);
            }
        }
    }

    fn watch_disk(&mut self, context: &mut Context<'_>) {
        if let Some(disk) = &mut self.disk
            && let Poll::Ready(used) = disk.as_mut().poll(context)
        {
            self.disk = None;
            self.disk_used = Some(used);
            self.end(EndReason::Asked);
        }
    }

    /// Checks that must also run while there is output.
    fn enforce_time(&mut self) {
        if self.exited.is_some() {
            return;
        }
        let now = Instant::now();
        if self.wall_at().is_some_and(|at| at <= now) {
            self.end(EndReason::TimedOut);
        }
        let Some(ending) = self.ending else { return };
        let kill_at = self.kill_at(ending);
        if kill_at + OVERDUE <= now {
            let late = EngineError::gone("end a container", "the timeout was exceeded");
            self.exited = Some((now, Err(late)));
        } else if kill_at <= now && !ending.is_killed {
            self.ending = Some(RequestedEnd {
                is_killed: true,
                ..ending
            });
            self.kill("SIGKILL");
        }
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<ContainerStep> {
        while let Some(output) = &mut self.attached {
            let Poll::Ready(piece) = output.poll_piece(context) else {
                return Poll::Pending;
            };
            let Some(piece) = piece else {
                self.attached = None;
                break;
            };
            let Some(announcement) = &mut self.announcement else {
                let count = self.account(piece.stream, piece.len());
                if count > 0 {
                    return Poll::Ready(ContainerStep::Output(piece.cut(count)));
                }
                continue;
            };
            let stream = piece.stream;
            self.passed = announcement.pass(stream, output.bytes(piece));
            if announcement.is_complete() {
                self.attached = None;
                self.exited = Some((Instant::now(), Ok(0)));
                self.disk = None;
            }
            if self.cut_passed(stream) {
                return Poll::Ready(ContainerStep::Passed(stream));
            }
        }
        self.poll_rest()
    }

    /// Output that was held back because it looked like the announcement.
    fn poll_rest(&mut self) -> Poll<ContainerStep> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(announcement) = &mut self.announcement {
                self.passed = announcement.rest(stream);
                if self.cut_passed(stream) {
                    return Poll::Ready(ContainerStep::Passed(stream));
                }
            }
        }
        Poll::Pending
    }

    /// Cuts the passed output at the limit. Returns whether some of it is delivered.
    fn cut_passed(&mut self, stream: Stream) -> bool {
        let length = self.passed.len();
        let count = if length == 0 {
            0
        } else {
            self.account(stream, length)
        };
        self.passed.truncate(count);
        count > 0
    }

    /// Counts a piece of output. Returns how much of it is delivered.
    fn account(&mut self, stream: Stream, length: usize) -> usize {
        let before: u64 = self.bytes.iter().sum();
        let index = usize::from(stream == Stream::Stderr);
        self.bytes[index] += length as u64;
        self.last_output = Instant::now();
        let limit = self.limits.output.unwrap_or(u64::MAX);
        let room = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
        if length > room {
            self.end(EndReason::OutputLimit);
        }
        length.min(room)
    }

    /// The next deadline.
    fn deadline(&self) -> Option<Instant> {
        if let Some((at, _)) = &self.exited {
            return Some(*at + DRAIN);
        }
        if let Some(ending) = self.ending {
            let kill_at = self.kill_at(ending);
            return Some(if ending.is_killed {
                kill_at + OVERDUE
            } else {
                kill_at
            });
        }
        [self.wall_at(), self.idle_at()].into_iter().flatten().min()
    }

    /// When the engine kills a job that should have ended.
    fn kill_at(&self, ending: RequestedEnd) -> Instant {
        let after = match ending.reason {
            EndReason::Finished if self.keeps => KEEP_AFTER,
            _ => KILL_AFTER,
        };
        ending.since + self.limits.term_grace + after
    }

    fn wall_at(&self) -> Option<Instant> {
        match self.ending {
            None => self.started.checked_add(self.limits.wall?),
            Some(_) => None,
        }
    }

    fn idle_at(&self) -> Option<Instant> {
        match self.ending {
            None => self.last_output.checked_add(self.limits.idle?),
            Some(_) => None,
        }
    }

    fn kill(&self, signal: &'static str) {
        let container = Arc::clone(&self.container);
        self.container.engine.later(async move {
            let options = KillContainerOptions {
                signal: signal.to_owned(),
            };
            let docker = container.engine.docker();
            // A container that has ended needs no signal; a lost engine is reported elsewhere.
            let _ = docker.kill_container(&container.id, Some(options)).await;
        });
    }

    /// Combines the data of the engine and of the first process.
    async fn conclude(&self) -> Result<(Report, JobFacts), EngineError> {
        let (_, exit) = self.exited.clone().expect("concluded when exited only");
        let code = exit?;
        let report = match self.container.report().await? {
            Some(report) => report,
            None => self.without_report(code).await?,
        };
        if let Some(announcement) = self.announcement.as_ref().filter(|_| report.kept.is_some()) {
            self.container.keep(KeptProcesses {
                announcement: announcement.again(),
                count: report.kept.as_ref().map_or(0, Vec::len),
            });
        }
        if let Some(failure) = report.failure {
            return Err(failure.into());
        }
        self.container.collect().await?;
        if report.ended_by == Some(InitEnd::Signal) && self.ending.is_none() {
            let reason = "another program stopped the container";
            return Err(EngineError::gone("run a container", reason));
        }
        let reason = self.ending.map(|ending| ending.reason);
        // Output is truncated at its limit even if the process ended before it was read.
        let limit = self.limits.output.unwrap_or(u64::MAX);
        let cut = (self.bytes.iter().sum::<u64>() > limit).then_some(EndReason::OutputLimit);
        let ended_by = report
            .ended_by
            .map(|_| reason.unwrap_or(EndReason::TimedOut));
        let is_counted = self.container.engine.has_groups();
        let facts = JobFacts {
            oom_kills: report.oom_kills.filter(|_| is_counted),
            peak_memory_bytes: report.peak_memory_bytes.filter(|_| is_counted),
            disk_exceeded: self.disk_used,
            disk_limit: self.container.disk_limit(),
        };
        let report = Report {
            exit: Exit {
                status: report.status,
                ended_by: ended_by.or(cut),
            },
            duration: report.duration,
            leaked: report.leaked,
            background: report.kept.unwrap_or_default(),
            usage: report.usage,
            stdout_bytes: self.bytes[0],
            stderr_bytes: self.bytes[1],
        };
        Ok((report, facts))
    }

    /// The result if the first process was killed: by Proctor, by the kernel for lack of memory, or
    /// otherwise, which is not a failure of the job.
    async fn without_report(&self, code: i64) -> Result<JobReport, EngineError> {
        let container = &self.container;
        let asked = container.engine.is_out_of_memory(&container.id).await;
        let is_oom = asked.map_err(engine_fault)?;
        if !is_oom && self.ending.is_none() {
            let reason = format!("the container ended with code {code} and no report");
            return Err(EngineError::gone("run a container", reason));
        }
        Ok(JobReport {
            status: Some(Status::Signal(9)),
            ended_by: self.ending.map(|_| InitEnd::Signal),
            duration: self.started.elapsed(),
            oom_kills: Some(u64::from(is_oom)),
            ..JobReport::default()
        })
    }
}

impl Drop for ContainerProcess {
    fn drop(&mut self) {
        if self.exited.is_none() {
            self.kill("SIGKILL");
        }
    }
}

pub(super) async fn connect(container: &Inner) -> Result<Attached, EngineError> {
    let engine = &container.engine;
    let version = engine.docker().client_version();
    let prefix = format!("/v{}.{}", version.major_version, version.minor_version);
    let attached = attach::attach(engine.socket(), &prefix, &container.id);
    let attached = tokio::time::timeout(Duration::from_secs(ANSWER), attached).await;
    let attached = attached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    attached.map_err(|error| EngineError::gone("attach to a container", error.to_string()))
}

/// The exit code of a started container. Failures here are the engine's.
pub(super) async fn wait(container: Arc<Inner>) -> Result<i64, EngineError> {
    use bollard::errors::Error;
    let doing = "wait for a container";
    let options = WaitContainerOptions {
        condition: "not-running".to_owned(),
    };
    let docker = container.engine.docker();
    let mut answers = docker.wait_container(&container.id, Some(options));
    match answers.next().await {
        Some(Ok(answer)) => Ok(answer.status_code),
        Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
        Some(Err(error)) => Err(engine_fault(EngineError::of(doing, error))),
        None => Err(EngineError::gone(doing, "the engine closed the connection")),
    }
}

/// An error about a container that should exist: another program removed it, or the engine was
/// replaced.
fn engine_fault(error: EngineError) -> EngineError {
    match error {
        EngineError::Refused { doing, message, .. } => EngineError::gone(&doing, message),
        other => other,
    }
}
