//! macOS: there is no subreaper, so that descendants are scanned periodically and remembered, and
//! no process dies with its parent.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

mod processes;
mod signals;

pub(super) use processes::{Processes, kill_children};
pub(super) use signals::ChildSignals;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, getpgid, getppid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The bytes in which the kernel counts the memory of a process.
pub(super) const MAX_RSS_UNIT: u64 = 1;

/// A write to someone who is gone is an error all the same: Rust programs ignore the signal, and the supervisor blocks it.
pub(super) const SEND: SendFlags = SendFlags::empty();

/// Received descriptors are made close-on-exec with all others before a process starts.
pub(super) const RECEIVE: RecvFlags = RecvFlags::empty();

/// The interval of scans for descendants, so that they are known before their parents exit.
pub(super) const LOOK: Option<Duration> = Some(Duration::from_millis(50));

/// The file of the running program, which there is no way to open once it has been replaced.
pub(crate) fn this_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Orphans are reparented to launchd; those seen before are remembered.
pub(super) fn adopt_orphans() {}

/// The system keeps processes without a special right from the memory of others.
pub(crate) fn close_memory() {}

/// The system shows the environment of a process to others of the same user, and has no way to change that.
#[expect(
    clippy::unnecessary_wraps,
    reason = "there is something to do elsewhere"
)]
pub(crate) fn hide_environment(_keeps: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    Ok(())
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity(i32);

impl Identity {
    pub(super) fn of(pid: i32) -> Self {
        Self(pid)
    }
}

/// The process group of a process.
pub(super) fn group_of(pid: Pid) -> Option<Pid> {
    getpgid(Some(pid)).ok()
}

/// No orphan falls back to us.
pub(super) fn is_orphan(_entry: &super::tree::ProcessEntry, _supervisor: Identity) -> bool {
    false
}

/// Nothing can be prepared: orphans are reparented to launchd.
#[expect(
    clippy::unnecessary_wraps,
    reason = "there is something to do elsewhere"
)]
pub(super) fn own_descendants() -> io::Result<()> {
    Ok(())
}

/// A process cannot be made to die with its supervisor; that there is one yet can be seen.
pub(super) fn die_with(supervisor: Pid) -> io::Result<()> {
    if getppid() != Some(supervisor) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

/// The reading and the writing end of a pipe. Between its making and its sealing a process that another thread starts
/// can inherit it. A supervisor seals all descriptors before it runs anything; a helper such as git or npm that is
/// started within that instant may hold the pipe until it ends.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    seal(&reader)?;
    seal(&writer)?;
    Ok((reader, writer))
}

/// Both ends of a new pseudo-terminal: the one we read, and the terminal itself.
pub(super) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    seal(&controller)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let name = PathBuf::from(OsString::from_vec(name.into_bytes()));
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = open(&name, flags, Mode::empty())?;
    Ok((controller, terminal))
}

fn seal(fd: impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}

/// Closes inherited descriptors for the processes that we start.
pub(super) fn seal_descriptors() {
    let Ok(open) = std::fs::read_dir("/dev/fd") else {
        return;
    };
    let numbers: Vec<i32> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: the call only sets a flag. It fails for the descriptor of the list itself, which is closed by now.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
