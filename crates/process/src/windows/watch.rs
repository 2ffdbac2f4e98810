//! The thread that supervises one process: it enforces time limits, sends Ctrl-Break, and kills the
//! rest. It corresponds to the supervisor on Unix. The job object kills the rest if Proctor is
//! gone.

use std::collections::VecDeque;
use std::io;
use std::os::windows::io::AsHandle;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::assist::{self, Asking};
use super::handle::{WakeEvent, exit_code, usage, wait_any};
use super::job::Job;
use super::pseudo_console::PseudoConsole;
use super::spawn::Spawned;
use super::status;
use crate::exit::Finished;
use crate::{EndReason, Exit, Leak, Limits, Status, Usage};

/// The pauses between two looks at a job: short first, for those that are about to end.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How long the main process may take to be gone when its job is empty.
const VANISH: Duration = Duration::from_secs(1);

/// Commands for the watcher.
#[derive(Clone, Copy, Debug)]
pub(super) enum WatcherCommand {
    /// Send Ctrl-Break to all processes, and kill them after the grace period.
    End(EndReason),
    /// Kill all processes at once, because the caller dropped the process.
    Kill,
}

/// The orders that were given, and the event that says so.
#[derive(Debug)]
pub(super) struct Orders {
    event: WakeEvent,
    given: Mutex<VecDeque<WatcherCommand>>,
}

impl Orders {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            event: WakeEvent::new()?,
            given: Mutex::default(),
        })
    }

    pub(super) fn give(&self, order: WatcherCommand) {
        let given = self.given.lock();
        given
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(order);
        self.event.set();
    }

    fn take(&self) -> Option<WatcherCommand> {
        let given = self.given.lock();
        given.unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The state of a watcher.
pub(super) struct Watched {
    pub(super) main: Spawned,
    pub(super) job: Arc<Job>,
    pub(super) orders: Arc<Orders>,
    pub(super) terminal: Option<PseudoConsole>,
    pub(super) limits: Limits,
    /// The executable that asks processes to end.
    pub(super) assistant: PathBuf,
}

/// Watches until all processes are gone.
pub(super) fn watch(watched: Watched) -> Finished {
    let started = Instant::now();
    let until = watched
        .limits
        .wall
        .and_then(|wall| started.checked_add(wall));
    let watch = Watch {
        watched,
        started,
        end: None,
        phase: ProcessPhase::Running { until },
        ended_by: None,
        leaked: Vec::new(),
        asking: None,
    };
    watch.run()
}

struct Watch {
    watched: Watched,
    started: Instant,
    /// How and when the main process ended.
    end: Option<(Status, Duration)>,
    phase: ProcessPhase,
    ended_by: Option<EndReason>,
    leaked: Vec<Leak>,
    /// The assistant that sends Ctrl-Break.
    asking: Option<Asking>,
}

/// Where the process stands. A time that lies beyond all clocks never comes.
enum ProcessPhase {
    /// The main process runs, and may do so until then.
    Running { until: Option<Instant> },
    /// All processes got Ctrl-Break; they are killed at this time.
    Terminating { kill_at: Option<Instant> },
    /// The main process is gone, others are not; they are killed then.
    Lingering { kill_at: Option<Instant> },
}

/// Why the watcher woke up.
enum Wake {
    Changed,
    Ordered(WatcherCommand),
    Deadline,
}

impl Watch {
    fn run(mut self) -> Finished {
        let mut pause = FIRST_PAUSE;
        while !self.is_over() {
            match self.wake(pause) {
                Wake::Changed => {}
                Wake::Ordered(WatcherCommand::End(reason)) => self.terminate(reason),
                Wake::Ordered(WatcherCommand::Kill) => self.kill(),
                Wake::Deadline => match self.phase {
                    ProcessPhase::Running { .. } => self.terminate(EndReason::TimedOut),
                    ProcessPhase::Terminating { .. } | ProcessPhase::Lingering { .. } => {
                        self.kill()
                    }
                },
            }
            if self.end.is_some() {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        self.finish()
    }

    fn finish(mut self) -> Finished {
        // All that was drawn has been written when this returns; the owner reads meanwhile.
        drop(self.watched.terminal.take());
        Finished {
            exit: Exit {
                status: self.end.map(|(status, _)| status),
                ended_by: self.ended_by,
            },
            duration: self
                .end
                .map_or_else(|| self.started.elapsed(), |(_, duration)| duration),
            usage: self.usage(),
            leaked: self.leaked,
        }
    }

    /// Of the whole job. Its account is kept for those who have left only on some systems, so that the main process,
    /// which is still there to be asked, is the least.
    fn usage(&self) -> Option<Usage> {
        let all = self.watched.job.usage()?;
        let Some(main) = usage(self.watched.main.process.as_handle()) else {
            return Some(all);
        };
        Some(Usage {
            cpu_user: all.cpu_user.max(main.cpu_user),
            cpu_system: all.cpu_system.max(main.cpu_system),
            max_rss_bytes: all.max_rss_bytes.max(main.max_rss_bytes),
        })
    }

    /// Whether the main process and all others are gone.
    fn is_over(&mut self) -> bool {
        if self.end.is_none() {
            self.look_at_main(Duration::ZERO);
        }
        self.end.is_some() && self.is_empty()
    }

    fn is_empty(&self) -> bool {
        // A job that cannot be queried has no processes to wait for.
        self.watched.job.living().unwrap_or_default() == 0
    }

    /// Notes the end of the main process, if it comes within that time.
    fn look_at_main(&mut self, within: Duration) {
        let process = self.watched.main.process.as_handle();
        let Ok(Some(_)) = wait_any(&[process], Some(within)) else {
            return;
        };
        let Ok(code) = exit_code(process) else { return };
        self.end = Some((status(code), self.started.elapsed()));
        if matches!(self.phase, ProcessPhase::Running { .. }) {
            let kill_at = Instant::now().checked_add(self.watched.limits.leak_grace);
            self.phase = ProcessPhase::Lingering { kill_at };
        }
    }

    /// Waits for the next thing to do. Nothing tells reliably when the last process of a job is gone, so that this is
    /// looked at again and again once the main one is.
    fn wake(&self, pause: Duration) -> Wake {
        if let Some(order) = self.watched.orders.take() {
            return Wake::Ordered(order);
        }
        let deadline = match self.phase {
            ProcessPhase::Running { until } => until,
            ProcessPhase::Terminating { kill_at } | ProcessPhase::Lingering { kill_at } => kill_at,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Wake::Deadline;
        }
        let orders = self.watched.orders.event.handle.as_handle();
        let main = self.watched.main.process.as_handle();
        let waited = match self.end {
            None => wait_any(&[orders, main], left),
            Some(_) => wait_any(&[orders], Some(left.map_or(pause, |left| left.min(pause)))),
        };
        if waited.is_err() {
            std::thread::sleep(LONGEST_PAUSE);
        }
        Wake::Changed
    }

    fn terminate(&mut self, reason: EndReason) {
        match self.phase {
            ProcessPhase::Running { .. } => {
                self.ended_by = Some(reason);
                let kill_at = Instant::now().checked_add(self.watched.limits.term_grace);
                self.phase = ProcessPhase::Terminating { kill_at };
                self.asking = assist::ask_to_end(&self.watched.assistant, &self.watched.job).ok();
                // Processes that cannot get Ctrl-Break need no grace period.
                if self.asking.is_none() {
                    self.kill();
                }
            }
            // It ended by itself; what it left behind had its time.
            ProcessPhase::Lingering { .. } => self.kill(),
            ProcessPhase::Terminating { .. } => {}
        }
    }

    /// Kills until no process is left, including processes started meanwhile.
    fn kill(&mut self) {
        if self.end.is_some() {
            self.leaked = self.watched.job.leaks();
        }
        let mut pause = FIRST_PAUSE;
        loop {
            self.watched.job.terminate();
            if self.is_empty() {
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if self.end.is_none() {
            self.look_at_main(VANISH);
        }
    }
}
