//! A running process, pulled from by its owner: output as it comes, then the report.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::exit::Finished;
use crate::sys::{self, Control, Feeder, Reader};
use crate::{Command, EndReason, Error, Exit, Limits, Report, Supervisor};

/// The most bytes one event carries.
const CHUNK: usize = 64 * 1024;

/// How long a stream may stay open and silent when all processes are gone. Only someone outside can hold it then, and a
/// terminal needs a moment to pass on its last bytes. It counts from the last bytes that came: what a pipe holds is
/// read in small pieces on Windows, and each has to be waited for.
const DRAIN: Duration = Duration::from_millis(200);

/// The maximum time that a stream may stay open after the exit. A process outside that keeps
/// writing must not block forever.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// More than a pipe holds: later bytes do not come from the process tree.
const DRAIN_BYTES: usize = 4 * 1024 * 1024;

/// How much longer than its graces a supervisor may take to end everything before we do it ourselves.
const OVERDUE: Duration = Duration::from_secs(10);

/// The interval between SIGCONT signals to a supervisor that should be killing everything, in case
/// the process stopped it.
const NUDGE: Duration = Duration::from_millis(250);

/// Which stream a process wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, or the pseudo-terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The next event of a process.
#[derive(Debug)]
pub enum Event<'a> {
    /// It wrote these bytes.
    Output {
        /// Where to.
        stream: Stream,
        /// Not empty, at most 64 KiB, cut anywhere.
        bytes: &'a [u8],
    },
    /// It is gone, and all its descendants with it.
    Ended(Report),
}

/// A running process. Dropping it kills it and all its descendants, without waiting for that.
#[derive(Debug)]
pub struct Process {
    id: u32,
    limits: Limits,
    started: Instant,
    control: Control,
    stdin: Option<Feeder>,
    outputs: [OutputSource; 2],
    /// Which of `outputs` is asked first, so that neither starves the other.
    turn: usize,
    buffer: Box<[u8]>,
    last_output: Instant,
    ending: Option<ProcessEnding>,
    /// When and how everything ended.
    finished: Option<(Instant, Finished)>,
    drained: usize,
    timer: Pin<Box<Sleep>>,
}

/// The end that we asked for.
#[derive(Clone, Copy, Debug)]
struct ProcessEnding {
    since: Instant,
    reason: EndReason,
    nudge_at: Instant,
}

/// One stream of output.
#[derive(Debug)]
struct OutputSource {
    stream: Stream,
    reader: Option<Reader>,
    bytes: u64,
}

/// A step of [`Process::next`], free of borrows.
enum ProcessStep {
    Output { stream: Stream, count: usize },
    Finished,
}

impl Supervisor {
    /// The running program itself, even if its file was replaced or deleted since it started.
    pub fn this_executable() -> Self {
        Self::at(sys::this_executable())
    }
}

impl Process {
    /// Starts a process under a supervisor of its own. Returns once it runs, or with the reason why it cannot.
    pub async fn spawn(command: Command, supervisor: &Supervisor) -> Result<Self, Error> {
        let limits = command.limits;
        let process = sys::start(command, supervisor).await?;
        let now = Instant::now();
        let source = |stream, reader| OutputSource {
            stream,
            reader,
            bytes: 0,
        };
        Ok(Self {
            id: process.pid,
            limits,
            started: now,
            control: process.control,
            stdin: process.stdin,
            outputs: [
                source(Stream::Stdout, Some(process.stdout)),
                source(Stream::Stderr, process.stderr),
            ],
            turn: 0,
            buffer: vec![0; CHUNK].into_boxed_slice(),
            last_output: now,
            ending: None,
            finished: None,
            drained: 0,
            timer: Box::pin(sleep_until(now)),
        })
    }

    /// The process id of the main process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Queues bytes for an [open](crate::Stdin::Open) stdin; they are written while [`next`](Self::next) is awaited,
    /// as fast as the process reads. Dropped if stdin is closed.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            stdin.push(bytes);
        }
    }

    /// Closes stdin once everything queued is written.
    pub fn close_stdin(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            stdin.close();
        }
    }

    /// Ends the process: SIGTERM (on Windows Ctrl-Break) to all descendants, SIGKILL (the end of the job) after the grace. The first reason wins; output
    /// and the report still come from [`next`](Self::next).
    pub fn end(&mut self, reason: EndReason) {
        if self.ending.is_none() && self.finished.is_none() {
            let since = Instant::now();
            self.ending = Some(ProcessEnding {
                since,
                reason,
                nudge_at: since + NUDGE,
            });
            self.control.end(reason);
        }
    }

    /// The next output, or the report once everything is over (and again on every later call).
    ///
    /// Cancel safe: no byte is lost if the future is dropped. Limits on silence and output and the feeding of
    /// stdin need this to be awaited; the wall limit holds without.
    pub async fn next(&mut self) -> Event<'_> {
        match poll_fn(|context| self.poll_step(context)).await {
            ProcessStep::Output { stream, count } => Event::Output {
                stream,
                bytes: &self.buffer[..count],
            },
            ProcessStep::Finished => {
                self.control.wait().await;
                Event::Ended(self.report())
            }
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<ProcessStep> {
        loop {
            self.feed(context);
            self.hear(context);
            self.enforce_time();
            if let Poll::Ready((stream, count)) = self.poll_output(context) {
                return Poll::Ready(ProcessStep::Output { stream, count });
            }
            if self.is_over() {
                return Poll::Ready(ProcessStep::Finished);
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
            // Only here, where no output is waiting to be read, may a stream be given up or a process be idle.
            if self.finished.is_some() {
                return Poll::Ready(ProcessStep::Finished);
            }
            if self.idle_at().is_some_and(|at| at <= Instant::now()) {
                self.end(EndReason::Idle);
            }
        }
    }

    fn feed(&mut self, context: &mut Context<'_>) {
        if let Some(stdin) = &mut self.stdin
            && stdin.poll_feed(context).is_ready()
        {
            self.stdin = None;
        }
    }

    fn hear(&mut self, context: &mut Context<'_>) {
        if self.finished.is_none() {
            match self.control.poll_finished(context) {
                Poll::Pending => {}
                Poll::Ready(Ok(finished)) => self.finish(finished),
                Poll::Ready(Err(_lost)) => {
                    let asked = self.ending.map(|ending| ending.reason);
                    // A run that was cancelled is over anyway.
                    let cancelled = asked.filter(|reason| *reason == EndReason::Cancelled);
                    self.give_up(cancelled.or(Some(EndReason::SupervisorLost)));
                }
            }
        }
    }

    fn finish(&mut self, finished: Finished) {
        self.stdin = None;
        self.finished = Some((Instant::now(), finished));
    }

    /// Ends everything without the supervisor, which is dead or does not answer.
    fn give_up(&mut self, ended_by: Option<EndReason>) {
        self.control.clean_up(self.id);
        self.finish(Finished {
            exit: Exit {
                status: None,
                ended_by,
            },
            duration: self.started.elapsed(),
            leaked: Vec::new(),
            usage: None,
        });
    }

    /// Checks that must also run while output keeps coming.
    fn enforce_time(&mut self) {
        if self.finished.is_some() {
            return;
        }
        let now = Instant::now();
        if self.overdue_at().is_some_and(|at| at <= now) {
            self.give_up(self.ending.map(|ending| ending.reason));
        } else if self.wall_at().is_some_and(|at| at <= now) {
            // The supervisor keeps this time as well; here it is for one that was stopped.
            self.end(EndReason::TimedOut);
        } else if let Some(ending) = &mut self.ending
            && ending.nudge_at <= now
        {
            ending.nudge_at = now + NUDGE;
            self.control.resume();
        }
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<(Stream, usize)> {
        for offset in 0..self.outputs.len() {
            let index = (self.turn + offset) % self.outputs.len();
            while let Some(reader) = &self.outputs[index].reader {
                let count = match reader.poll_read(context, &mut self.buffer) {
                    Poll::Pending => break,
                    Poll::Ready(0) => {
                        self.outputs[index].reader = None;
                        break;
                    }
                    Poll::Ready(count) => count,
                };
                let count = self.account(index, count);
                if count > 0 {
                    self.turn = index + 1;
                    return Poll::Ready((self.outputs[index].stream, count));
                }
            }
        }
        Poll::Pending
    }

    /// Counts what was read and returns how much of it is to be delivered.
    fn account(&mut self, index: usize, count: usize) -> usize {
        let before = self.outputs[0].bytes + self.outputs[1].bytes;
        self.outputs[index].bytes += count as u64;
        self.last_output = Instant::now();
        if self.finished.is_some() {
            self.drained += count;
            if self.drained > DRAIN_BYTES {
                self.outputs
                    .iter_mut()
                    .for_each(|output| output.reader = None);
            }
        }
        let Some(limit) = self.limits.output else {
            return count;
        };
        let room = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
        if count > room {
            self.end(EndReason::OutputLimit);
        }
        count.min(room)
    }

    fn is_over(&self) -> bool {
        let closed = self.outputs.iter().all(|output| output.reader.is_none());
        closed && self.finished.is_some()
    }

    /// The next moment at which something happens by itself.
    fn deadline(&self) -> Option<Instant> {
        if let Some((at, _)) = &self.finished {
            let silent_since = self.last_output.max(*at);
            return Some((silent_since + DRAIN).min(*at + LONGEST_DRAIN));
        }
        let nudge_at = self.ending.map(|ending| ending.nudge_at);
        let next = [nudge_at, self.wall_at(), self.idle_at()];
        next.into_iter().flatten().min()
    }

    fn overdue_at(&self) -> Option<Instant> {
        let grace = self.limits.term_grace.max(self.limits.leak_grace);
        let since = self.ending?.since;
        since.checked_add(grace.saturating_add(OVERDUE))
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

    fn report(&self) -> Report {
        let (_, finished) = self.finished.clone().expect("reported when finished only");
        let [stdout, stderr] = &self.outputs;
        // Output is truncated at its limit even if the process ended before it was read.
        let limit = self.limits.output.unwrap_or(u64::MAX);
        let cut = (stdout.bytes + stderr.bytes > limit).then_some(EndReason::OutputLimit);
        Report {
            exit: Exit {
                status: finished.exit.status,
                ended_by: finished.exit.ended_by.or(cut),
            },
            duration: finished.duration,
            leaked: finished.leaked,
            background: Vec::new(),
            usage: finished.usage,
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
        }
    }
}
