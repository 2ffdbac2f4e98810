//! Starts the main process from the supervisor: own session, own terminal, dies with the supervisor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, getpid, ioctl_tiocsctty, setsid};

use super::message::{Notice, Request, TerminalRequest};
use super::supervisor::tell;
use super::{platform, signals};

/// How often, and after which pause, a program that someone still writes to is tried again: between another
/// thread's fork and exec our parent's freshly written files are open for writing there.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Starts the process, which says so to the parent at the other end of `control`; the supervisor's copies of its streams are closed on return.
pub(super) fn spawn(
    request: &Request,
    streams: [OwnedFd; 3],
    control: BorrowedFd<'_>,
) -> io::Result<Pid> {
    // A copy, because the child's own stdin takes the place of the first.
    let control = fcntl_dupfd_cloexec(control, 3)?;
    let mut command = prepare(request, streams, control);
    let mut tries = 0;
    let child = loop {
        match command.spawn() {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES =>
            {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            other => break other?,
        }
    };
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a child has a positive id"))
}

fn prepare(request: &Request, [stdin, stdout, stderr]: [OwnedFd; 3], control: OwnedFd) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is where processes start")]
    let mut command = Command::new(&request.program);
    command
        .arg0(&request.name)
        .args(&request.args)
        .env_clear()
        .envs(request.env.iter().map(|(key, value)| (key, value)))
        .current_dir(&request.cwd)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    let supervisor = getpid();
    let terminal = request.terminal;
    // SAFETY: the supervisor has a single thread, so that no other thread can hold a lock or be in
    // the allocator when it forks; `enter` touches no state that it shares with the supervisor.
    #[expect(unsafe_code, reason = "a session must be opened between fork and exec")]
    unsafe {
        command.pre_exec(move || enter(supervisor, terminal, control.as_fd()));
    }
    command
}

/// Runs in the child between fork and exec, when its streams are in place.
fn enter(supervisor: Pid, terminal: TerminalRequest, control: BorrowedFd<'_>) -> io::Result<()> {
    let pid = setsid()?.as_raw_pid().cast_unsigned();
    tell(control, &Notice::Forked { pid })?;
    if terminal == TerminalRequest::Stdout {
        ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    platform::die_with(supervisor)?;
    signals::unblock()
}
