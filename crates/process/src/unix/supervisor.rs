//! The supervisor: a small process of its own, one per [`Process`](crate::Process), to which every descendant
//! falls back however it was started. It ends them all when asked, when time is up, or when its parent is gone.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, setpriority_process, setsid, wait};

use super::child;
use super::message::{Notice, Request, reason_from_byte};
use super::platform::{self, ChildSignals};
use super::signals::usage_of_children;
use super::tree::Family;
use super::wire::{HEADER, frame_length};
use crate::exit::Finished;
use crate::{EndReason, Exit, Leak, Status};

/// The pauses between two passes of killing: short first, for those that fork while we look.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How often only direct children are killed before a pass over all descendants.
const QUICK_ROUNDS: u32 = 16;

const HIGHEST_PRIORITY: i32 = -20;

/// The control socket, which the parent gave us as stdin.
fn control() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// Acts as supervisor until everything it started is gone.
pub(crate) fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    // Nobody's folder is held. Said to the parent's library, this would cost a fork of the parent.
    std::env::set_current_dir("/")?;
    // Fails only for a group leader, which a shell would make of us: then there is a session already.
    let _ = setsid();
    platform::own_descendants()?;
    let signals = ChildSignals::take_over(&[])?;
    let (request, streams) = receive()?;
    platform::seal_descriptors();
    let started = Instant::now();
    let main = match child::spawn(&request, streams, control()) {
        Ok(main) => main,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
            return tell(control(), &Notice::Failed { errno });
        }
    };
    // If the parent is gone already, the end of the control socket says so below.
    let _ = tell(control(), &Notice::Started);
    Supervision {
        family: Family::led_by(main, getpid()),
        main,
        started,
        end: None,
        phase: ProcessPhase::Running {
            until: request.wall.and_then(|wall| started.checked_add(wall)),
        },
        ended_by: None,
        leaked: Vec::new(),
        signals,
        request,
    }
    .run()
}

/// The request, and the three streams of the process.
fn receive() -> io::Result<(Request, [OwnedFd; 3])> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        control(),
        &mut [IoSliceMut::new(&mut header)],
        &mut attached,
        platform::RECEIVE,
    )?;
    if received.bytes != HEADER {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut streams = Vec::new();
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            streams.extend(rights);
        }
    }
    let mut frame = vec![0; frame_length(header)];
    let mut filled = 0;
    while filled < frame.len() {
        match rustix::io::read(control(), &mut frame[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    let streams = streams
        .try_into()
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((Request::decode(&frame)?, streams))
}

/// Says something to the parent.
pub(super) fn tell(socket: BorrowedFd<'_>, notice: &Notice) -> io::Result<()> {
    let frame = notice.encode()?;
    let mut rest = &frame[..];
    while !rest.is_empty() {
        let count = rustix::net::send(socket, rest, platform::SEND)?;
        rest = &rest[count..];
    }
    Ok(())
}

/// One process under supervision.
struct Supervision {
    family: Family,
    main: Pid,
    started: Instant,
    /// How and when the main process ended.
    end: Option<(Status, Duration)>,
    phase: ProcessPhase,
    ended_by: Option<EndReason>,
    leaked: Vec<Leak>,
    signals: ChildSignals,
    request: Request,
}

/// Where the process stands.
enum ProcessPhase {
    /// The main process runs, and may do so until then.
    Running { until: Option<Instant> },
    /// TERM has been sent; KILL follows then.
    Terminating { kill_at: Instant },
    /// The main process is gone, others are not; KILL follows then.
    Lingering { kill_at: Instant },
}

/// Whether anyone is left.
#[derive(PartialEq)]
enum Left {
    Some,
    None,
}

impl Supervision {
    fn run(mut self) -> io::Result<()> {
        while self.reap() == Left::Some {
            self.family.look();
            match self.wake()? {
                Wake::Child => self.signals.clear(),
                Wake::Asked(reason) => self.terminate(reason),
                Wake::Deadline => match self.phase {
                    ProcessPhase::Running { .. } => self.terminate(EndReason::TimedOut),
                    ProcessPhase::Terminating { .. } | ProcessPhase::Lingering { .. } => {
                        self.kill();
                    }
                },
                Wake::ParentGone => {
                    self.kill();
                    return Ok(());
                }
            }
        }
        let finished = Finished {
            exit: Exit {
                status: self.end.map(|(status, _)| status),
                ended_by: self.ended_by,
            },
            duration: self
                .end
                .map_or_else(|| self.started.elapsed(), |(_, duration)| duration),
            leaked: self.leaked,
            usage: usage_of_children(),
        };
        tell(control(), &Notice::Finished(finished))
    }

    /// Waits for the next thing to do.
    fn wake(&self) -> io::Result<Wake> {
        let deadline = match self.phase {
            ProcessPhase::Running { until } => until,
            ProcessPhase::Terminating { kill_at } | ProcessPhase::Lingering { kill_at } => {
                Some(kill_at)
            }
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Wake::Deadline);
        }
        let socket = control();
        let mut watched = [
            PollFd::new(&socket, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let longest = [left, platform::LOOK].into_iter().flatten().min();
        wait_for(&mut watched, longest)?;
        if watched[0].revents().is_empty() {
            return Ok(Wake::Child);
        }
        let mut byte = [0];
        match rustix::io::read(socket, &mut byte) {
            Ok(1..) => Ok(reason_from_byte(byte[0]).map_or(Wake::Child, Wake::Asked)),
            Ok(0) | Err(_) => Ok(Wake::ParentGone),
        }
    }

    /// Reaps dead children.
    fn reap(&mut self) -> Left {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.main_ended(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Left::Some,
                Err(_no_child) if self.family.has_strays() => return Left::Some,
                Err(_no_child) => return Left::None,
            }
        }
    }

    fn main_ended(&mut self, status: WaitStatus) {
        let status = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Code(code),
            (None, Some(signal)) => Status::Signal(signal),
            (None, None) => return,
        };
        self.end = Some((status, self.started.elapsed()));
        if matches!(self.phase, ProcessPhase::Running { .. }) {
            let kill_at = Instant::now() + self.request.leak_grace;
            self.phase = ProcessPhase::Lingering { kill_at };
        }
    }

    fn terminate(&mut self, reason: EndReason) {
        match self.phase {
            ProcessPhase::Running { .. } => {
                self.ended_by = Some(reason);
                let kill_at = Instant::now() + self.request.term_grace;
                self.phase = ProcessPhase::Terminating { kill_at };
                self.family.terminate(self.main);
            }
            // It ended by itself; what it left behind had its time.
            ProcessPhase::Lingering { .. } => self.kill(),
            ProcessPhase::Terminating { .. } => {}
        }
    }

    /// Kills until no process is left, including processes forked meanwhile.
    fn kill(&mut self) {
        // A process whose parent is killed before a scan cannot be attributed.
        self.family.look();
        if self.end.is_some() {
            self.leaked = self.family.living();
        }
        // Thousands that fork and die must not keep us from running; only root may do this.
        let _ = setpriority_process(None, HIGHEST_PRIORITY);
        let mut pause = FIRST_PAUSE;
        loop {
            for _ in 0..QUICK_ROUNDS {
                self.family.kill_children();
                if self.reap() == Left::None {
                    return;
                }
            }
            self.family.kill_pass();
            let mut watched = [PollFd::new(&self.signals, PollFlags::IN)];
            let _ = wait_for(&mut watched, Some(pause));
            self.signals.clear();
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Why the supervisor woke up.
enum Wake {
    Child,
    Asked(EndReason),
    Deadline,
    ParentGone,
}

fn wait_for(watched: &mut [PollFd<'_>], longest: Option<Duration>) -> io::Result<()> {
    let longest = longest.map(|longest| {
        Timespec::try_from(longest).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        })
    });
    match poll(watched, longest.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
