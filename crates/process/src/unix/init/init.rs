//! Runs the job of a container and waits for its end.

use std::{
    collections::BTreeSet,
    fs, io,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait,
    },
};

use super::{
    cgroup, relay,
    start::{self, EarlierJob, StartedJob},
};
use crate::{
    ANNOUNCEMENT, Background, InitEnd, JOB_FILE, Job, JobFailure, JobReport, Leak, REPORT_FILE,
    Status,
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

/// How long processes are kept for another job. Proctor may have died.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// The host has written another job.
const NEXT_JOB: Signal = Signal::USR1;

/// The host asks for the end of the main process and its descendants.
const END_MAIN: Signal = Signal::USR2;

/// The exit code if the job could not be started; the report says why.
const NOT_STARTED: u8 = 125;

/// Acts as the first process of a container until its job is done, and later jobs if processes are kept for them.
pub(crate) fn init() -> ExitCode {
    // Outside a container, `kill(-1)` would affect the whole machine.
    if !getpid().is_init() {
        return ExitCode::FAILURE;
    }
    // Processes of the job may run as the same user.
    platform::close_memory();
    let mut first = match FirstProcess::new() {
        Ok(first) => first,
        Err(failure) => {
            let _ = leave(&failed(failure));
            return ExitCode::from(NOT_STARTED);
        }
    };
    loop {
        let report = first.run_job();
        // If it cannot be written, the engine still tells the exit code.
        let _ = leave(&report);
        let goes_on = report.kept.is_some() && {
            first.announce();
            first.wait_for_job()
        };
        if !goes_on {
            return ExitCode::from(match (&report.failure, report.status) {
                (Some(_), _) => NOT_STARTED,
                (None, status) => status.map_or(u8::MAX, exit_code),
            });
        }
    }
}

/// The report of a job that could not be started.
fn failed(failure: JobFailure) -> JobReport {
    JobReport {
        failure: Some(failure),
        ..JobReport::default()
    }
}

fn read_job() -> Result<Job, JobFailure> {
    let failed = |reason: String| JobFailure::Job { reason };
    let job = fs::read(JOB_FILE).map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&job).map_err(|error| failed(error.to_string()))
}

/// The state that goes on from job to job.
struct FirstProcess {
    signals: ChildSignals,
    /// The announcement of the end of a job.
    secret: Option<[u8; ANNOUNCEMENT]>,
    /// The earlier job whose processes go on.
    earlier: Option<EarlierJob>,
}

impl FirstProcess {
    fn new() -> Result<Self, JobFailure> {
        let asked = [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
            NEXT_JOB.as_raw(),
            END_MAIN.as_raw(),
        ];
        let signals = ChildSignals::take_over(&asked).map_err(|error| JobFailure::Job {
            reason: error.to_string(),
        })?;
        Ok(Self {
            signals,
            secret: None,
            earlier: None,
        })
    }

    fn run_job(&mut self) -> JobReport {
        match read_job().and_then(|job| self.run(job)) {
            Ok(report) => report,
            // Processes of earlier jobs wait for another one.
            Err(failure) => JobReport {
                kept: self.earlier.map(|_| {
                    freeze();
                    Vec::new()
                }),
                ..failed(failure)
            },
        }
    }

    fn run(&mut self, job: Job) -> Result<JobReport, JobFailure> {
        if job.has_secret {
            self.secret = Some(read_secret()?);
        }
        let relays = match self.earlier {
            None => relay::listen(&job.relays)?,
            // They are still served.
            Some(_) => Vec::new(),
        };
        if self.earlier.is_some() && job.background != Background::Freeze {
            signal_everyone(Signal::CONT);
        }
        let started = start::start(&job, self.earlier)?;
        let service = started.service;
        // Threads start only now: between fork and exec no other thread may hold a lock.
        relay::serve(relays);
        let now = Instant::now();
        let until = job.wall.and_then(|wall| now.checked_add(wall));
        let watch = JobWatch {
            can_keep: self.secret.is_some() && job.background != Background::End,
            is_first: self.earlier.is_none(),
            job,
            signals: &self.signals,
            began: now,
            end: None,
            phase: JobPhase::Running { until },
            ended_by: None,
            own: None,
            started,
        };
        let report = watch.run();
        self.earlier = report.kept.is_some().then_some(EarlierJob { service });
        Ok(report)
    }

    /// Says that a job has ended and its report is there. All other processes are stopped, so that none of them can
    /// read this or change the report.
    fn announce(&self) {
        let Some(secret) = &self.secret else { return };
        for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            loop {
                match rustix::io::write(stream, secret) {
                    // Processes of the job can make the pipe non-blocking.
                    Err(Errno::AGAIN) => {
                        let _ = poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None);
                    }
                    Err(Errno::INTR) => {}
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    /// Waits until the host has written the next job; `false` if the container has to end.
    fn wait_for_job(&self) -> bool {
        let until = Instant::now() + LONGEST_PAUSE;
        while Instant::now() < until {
            while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {}
            while let Some(received) = self.signals.next() {
                if received.signal != libc::SIGCHLD && received.sender == 0 {
                    return received.signal == NEXT_JOB.as_raw();
                }
            }
            wait_for(&self.signals, Some(until));
        }
        false
    }
}

/// Reads the announcement before any process exists that could read it too.
fn read_secret() -> Result<[u8; ANNOUNCEMENT], JobFailure> {
    let mut secret = [0; ANNOUNCEMENT];
    let mut count = 0;
    while count < ANNOUNCEMENT {
        match rustix::io::read(rustix::stdio::stdin(), &mut secret[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    if count < ANNOUNCEMENT {
        return Err(JobFailure::Job {
            reason: "its secret is missing".to_owned(),
        });
    }
    Ok(secret)
}

/// Stops all other processes.
fn freeze() {
    let until = Instant::now() + VANISH;
    signal_everyone(Signal::STOP);
    while !Family::of(getpid()).is_stopped() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes the report. No other process runs that could modify it.
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
struct JobWatch<'a> {
    job: Job,
    /// Whether background processes may outlive it.
    can_keep: bool,
    /// Whether no processes of an earlier job exist.
    is_first: bool,
    signals: &'a ChildSignals,
    began: Instant,
    /// How and when the main process ended.
    end: Option<(Status, Duration)>,
    phase: JobPhase,
    ended_by: Option<InitEnd>,
    /// The main process and its descendants, if only these were asked to end.
    own: Option<BTreeSet<i32>>,
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

impl JobWatch<'_> {
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
            wait_for(self.signals, deadline);
            while let Some(received) = self.signals.next() {
                // Processes inside the container cannot stop it with a signal to this process.
                if received.signal == libc::SIGCHLD || received.sender != 0 {
                    continue;
                }
                if received.signal == END_MAIN.as_raw() && self.can_keep {
                    self.terminate_main();
                } else {
                    self.terminate(InitEnd::Signal);
                }
            }
        }
        self.finish()
    }

    /// Reaps dead children, and returns whether there are processes to wait for: not the service, and not those of
    /// earlier jobs.
    fn anyone_left(&mut self) -> bool {
        if !self.reap() {
            return false;
        }
        let is_left = match &self.own {
            Some(own) => !Family::of(getpid()).living_below(own).is_empty(),
            None => self.is_first && !self.living().is_empty(),
        };
        self.end.is_none() || is_left
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

    /// Asks the main process and its descendants to end. Orphans are background processes and go on.
    fn terminate_main(&mut self) {
        if !matches!(self.phase, JobPhase::Running { .. }) || self.end.is_some() {
            return;
        }
        self.ended_by = Some(InitEnd::Signal);
        let main = BTreeSet::from([self.started.main.as_raw_pid()]);
        let own = Family::of(getpid()).living_below(&main);
        for entry in &own {
            let _ = kill_process(entry.pid, Signal::TERM);
            let _ = kill_process(entry.pid, Signal::CONT);
        }
        self.own = Some(own.iter().map(|entry| entry.pid.as_raw_pid()).collect());
        self.phase = JobPhase::Terminating {
            kill_at: Instant::now() + self.job.term_grace,
        };
    }

    /// Kills what is left of the main process and its descendants.
    fn kill_main(&mut self) {
        let Some(mut own) = self.own.clone() else {
            return;
        };
        let until = Instant::now() + VANISH;
        loop {
            self.reap();
            let left = Family::of(getpid()).living_below(&own);
            if left.is_empty() || Instant::now() >= until {
                break;
            }
            for entry in left {
                own.insert(entry.pid.as_raw_pid());
                let _ = kill_process(entry.pid, Signal::KILL);
            }
            wait_for(
                self.signals,
                Some(Instant::now() + Duration::from_millis(5)),
            );
            while self.signals.next().is_some() {}
        }
        self.reap();
    }

    /// Whether background processes go on: the main process ended by itself, or was alone asked to.
    fn keeps(&self) -> bool {
        let (status, _) = self.end.unzip();
        let is_own_end = self.ended_by.is_none() && matches!(status, Some(Status::Code(_)));
        self.can_keep
            && (is_own_end || (self.own.is_some() && status.is_some()))
            && !Family::of(getpid()).living().is_empty()
    }

    /// Stops or kills the remaining processes and returns the result.
    fn finish(mut self) -> JobReport {
        self.kill_main();
        let mut left = Vec::new();
        if self.end.is_some() {
            left = self.living();
        }
        let kept = if self.keeps() {
            freeze();
            Some(std::mem::take(&mut left))
        } else {
            self.kill_everyone();
            None
        };
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
            leaked: left,
            kept,
            usage: usage_of_children(),
            peak_memory_bytes: cgroup::peak_memory(),
            oom_kills: cgroup::oom_kills(),
        }
    }

    fn kill_everyone(&mut self) {
        let until = Instant::now() + VANISH;
        signal_everyone(Signal::KILL);
        while self.reap() && Instant::now() < until {
            wait_for(self.signals, Some(until));
            while self.signals.next().is_some() {}
            signal_everyone(Signal::KILL);
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
