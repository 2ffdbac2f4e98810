//! System calls and settings that only Linux has.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getpid, getppid, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

/// The bytes in which the kernel counts the memory of a process.
pub(in crate::sys) const MAX_RSS_UNIT: u64 = 1024;

/// A write to someone who is gone is an error and no signal.
pub(in crate::sys) const SEND: SendFlags = SendFlags::NOSIGNAL;

/// Descriptors that are received are not passed on.
pub(in crate::sys) const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// The interval of scans for descendants: never, because orphans are reparented to the subreaper.
pub(in crate::sys) const LOOK: Option<Duration> = None;

/// The running program, even when its file has been replaced.
pub(crate) fn this_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Makes this process, the parent of supervisors, the one that orphans of a dead supervisor fall back to.
pub(in crate::sys) fn adopt_orphans() {
    // Refused by no kernel since 3.4; without it, orphans of a dead supervisor are not found.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Keeps processes of the same user from reading or changing the memory of this one.
pub(crate) fn close_memory() {
    // A process with CAP_SYS_PTRACE, such as one of root, is not kept out by this.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Undoes [`close_memory`] in a child between fork and exec.
pub(in crate::sys) fn open_memory() {
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
}

/// Makes this process the subreaper of its descendants.
pub(in crate::sys) fn own_descendants() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // If the process stopped us and then our parent dies, we must go on to see that.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    // For people who read process lists; else it would be the name of the link that was executed.
    let _ = std::fs::write("/proc/self/comm", "proctor-superv");
    close_memory();
    Ok(())
}

/// Has this process, a child between fork and exec, die with its supervisor.
pub(in crate::sys) fn die_with(supervisor: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The supervisor may have died before it said so.
    if getppid() != Some(supervisor) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}

/// The reading and the writing end of a pipe that is not inherited.
pub(in crate::sys) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Both ends of a new pseudo-terminal that is not inherited: the controller and the terminal
/// itself.
pub(in crate::sys) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags)?;
    unlockpt(&controller)?;
    let terminal = ioctl_tiocgptpeer(&controller, flags)?;
    Ok((controller, terminal))
}

/// Becomes another user, in a child of root between fork and exec.
pub(in crate::sys) fn become_user(user: u32, group: u32, others: &[u32]) -> io::Result<()> {
    // SAFETY: the list is valid for its length; nothing else is touched. The child has a single thread, so that
    // no other one keeps the old identity.
    let done = unsafe {
        libc::setgroups(others.len(), others.as_ptr()) == 0
            && libc::setgid(group) == 0
            && libc::setuid(user) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Closes inherited descriptors for the processes that we start.
pub(in crate::sys) fn seal_descriptors() {
    // SAFETY: the call only sets the close-on-exec flag. It fails on kernels before 5.11; then what was
    // inherited is passed on, as with any other program.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}
