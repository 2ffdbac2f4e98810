//! Runs the job of a container and waits for its end.

use std::{
    fs, io,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait},
};

use super::{
    cgroup, relay,
    start::{self, StartedJob},
};
use crate::{
    InitEnd, JOB_FILE, Job, JobFailure, JobReport, Leak, REPORT_FILE, Status,
    sys::{
        platform::{self, ChildSignals},
        signals::usage_of_children,
        tree::Family,
    },
};

/// How long killed processes are waited for. Those of other users may not heed us; they end with us.
const VANISH: Duration = Duration::from_millis(200);

/// How long the terminal may take to pass on its last bytes.
const DRAIN: Duration = Duration::from_secs(1);

/// The exit code if the job could not be started; the report says why.
const NOT_STARTED: u8 = 125;

/// Acts as the first process of a container until its job is done.
pub(crate) fn init() -> ExitCode {
    // Outside a container, `kill(-1)` would affect the whole machine.
    if !getpid().is_init() {
        return ExitCode::FAILURE;
    }
    // Processes of the job may run as the same user.
    platform::close_memory();
    let (report, code) = match prepare().and_then(|(job, signals)| run(job, signals)) {
        Ok(report) => {
            let code = report.status.map_or(u8::MAX, exit_code);
            (report, code)
        }
        Err(failure) => {
            let failure = Some(failure);
            let report = JobReport {
                failure,
                ..JobReport::default()
            };
            (report, NOT_STARTED)
        }
    };
    // If it cannot be written, the engine still tells the exit code.
    let _ = leave(&report);
    ExitCode::from(code)
}

fn prepare() -> Result<(Job, ChildSignals), JobFailure> {
    let failed = |reason: String| JobFailure::Job { reason };
    let job = fs::read(JOB_FILE).map_err(|error| failed(error.to_string()))?;
    let job = serde_json::from_slice(&job).map_err(|error| failed(error.to_string()))?;
    let asked = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
    let signals = ChildSignals::take_over(&asked).map_err(|error| failed(error.to_string()))?;
    Ok((job, signals))
}

fn run(job: Job, signals: ChildSignals) -> Result<JobReport, JobFailure> {
    let relays = relay::listen(&job.relays)?;
    let started = start::start(&job)?;
    // Threads start only now: between fork and exec no other thread may hold a lock.
    relay::serve(relays);
    let now = Instant::now();
    let until = job.wall.and_then(|wall| now.checked_add(wall));
    let watch = JobWatch {
        job,
        signals,
        began: now,
        end: None,
        phase: JobPhase::Running { until },
        ended_by: None,
        leaked: Vec::new(),
        started,
    };
    Ok(watch.run())
}

/// Writes the report. No other process is alive that could modify it.
fn leave(report: &JobReport) -> io::Result<()> {
    fs::write(REPORT_FILE, serde_json::to_vec(report)?)
}

fn exit_code(status: Status) -> u8 {
    let code = match status {
        Status::Code(code) => code,
        Status::Signal(signal) => 128 + signal,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// A job that runs.
struct JobWatch {
    job: Job,
    signals: ChildSignals,
    began: Instant,
    /// How and when the main process ended.
    end: Option<(Status, Duration)>,
    phase: JobPhase,
    ended_by: Option<InitEnd>,
    leaked: Vec<Leak>,
    started: StartedJob,
}

/// Where the job stands.
enum JobPhase {
    /// The main process runs, and may do so until then.
    Running { until: Option<Instant> },
    /// TERM has been sent; KILL follows then.
    Terminating { kill_at: Instant },
    /// The main process is gone, others are not; KILL follows then.
    Lingering { kill_at: Instant },
}

impl JobWatch {
    fn run(mut self) -> JobReport {
        while self.anyone_left() {
            let deadline = match self.phase {
                JobPhase::Running { until } => until,
                JobPhase::Terminating { kill_at } | JobPhase::Lingering { kill_at } => {
                    Some(kill_at)
                }
            };
            if deadline.is_some_and(|at| at <= Instant::now()) {
                match self.phase {
                    JobPhase::Running { .. } => self.terminate(InitEnd::Wall),
                    JobPhase::Terminating { .. } | JobPhase::Lingering { .. } => break,
                }
            }
            wait_for(&self.signals, deadline);
            while let Some(received) = self.signals.next() {
                // Processes inside the container cannot stop it with a signal to this process.
                if received.signal != libc::SIGCHLD && received.sender == 0 {
                    self.terminate(InitEnd::Signal);
                }
            }
        }
        self.finish()
    }

    /// Reaps dead children, and returns whether processes other than the service are left.
    fn anyone_left(&mut self) -> bool {
        self.reap() && (self.end.is_none() || !self.living().is_empty())
    }

    /// Reaps dead children, and returns whether processes are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.started.main => self.main_ended(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_no_child) => return false,
            }
        }
    }

    fn main_ended(&mut self, status: WaitStatus) {
        let status = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Code(code),
            (None, Some(signal)) => Status::Signal(signal),
            (None, None) => return,
        };
        self.end = Some((status, self.began.elapsed()));
        if matches!(self.phase, JobPhase::Running { .. }) {
            let kill_at = Instant::now() + self.job.leak_grace;
            self.phase = JobPhase::Lingering { kill_at };
        }
    }

    fn living(&self) -> Vec<Leak> {
        Family::of(getpid()).living_outside(self.started.service)
    }

    fn terminate(&mut self, why: InitEnd) {
        let grace = match self.phase {
            JobPhase::Running { .. } => self.job.term_grace,
            // It ended by itself; what it left behind had its time.
            JobPhase::Lingering { .. } => Duration::ZERO,
            JobPhase::Terminating { .. } => return,
        };
        if self.end.is_none() {
            self.ended_by = Some(why);
        }
        self.phase = JobPhase::Terminating {
            kill_at: Instant::now() + grace,
        };
        signal_everyone(Signal::TERM);
        // The stopped could not heed it.
        signal_everyone(Signal::CONT);
    }

    /// Kills the remaining processes and returns the result.
    fn finish(mut self) -> JobReport {
        if self.end.is_some() {
            self.leaked = self.living();
        }
        let until = Instant::now() + VANISH;
        signal_everyone(Signal::KILL);
        while self.reap() && Instant::now() < until {
            wait_for(&self.signals, Some(until));
            while self.signals.next().is_some() {}
            signal_everyone(Signal::KILL);
        }
        if let Some(terminal) = self.started.terminal.take() {
            terminal.drain(DRAIN);
        }
        JobReport {
            failure: None,
            status: self.end.map(|(status, _)| status),
            ended_by: self.ended_by,
            duration: self
                .end
                .map_or_else(|| self.began.elapsed(), |(_, duration)| duration),
            leaked: self.leaked,
            usage: usage_of_children(),
            peak_memory_bytes: cgroup::peak_memory(),
            oom_kills: cgroup::oom_kills(),
        }
    }
}

/// A signal to every process of the container but this one.
fn signal_everyone(signal: Signal) {
    let everyone = Pid::INIT;
    if getpid() == everyone {
        // The group of process 1 stands for all processes.
        let _ = kill_process_group(everyone, signal);
    }
}

/// Waits for a signal, until then at the longest.
fn wait_for(signals: &ChildSignals, until: Option<Instant>) {
    let longest = until.map(|until| until.saturating_duration_since(Instant::now()));
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    // An interruption is as good as a signal: everything is looked at again.
    let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], longest.as_ref());
}
