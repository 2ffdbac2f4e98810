//! The few libc calls of the supervisor and of the first process of a container for which rustix has no safe form.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::Usage;

/// Says when a child has changed state, or one of the other signals that are watched for has come.
pub(super) struct ChildSignals {
    fd: OwnedFd,
}

/// A signal that came.
pub(super) struct Received {
    pub(super) signal: i32,
    /// Who sent it; 0 if that process is not in our process namespace.
    pub(super) sender: u32,
}

impl ChildSignals {
    /// Blocks all signals of this process, so that nothing but SIGKILL ends it, and watches for SIGCHLD and `others`.
    /// All signals get their default action again, because children would inherit ignored ones.
    pub(super) fn take_over(others: &[i32]) -> io::Result<Self> {
        let mut every = MaybeUninit::uninit();
        let mut watched = MaybeUninit::uninit();
        // SAFETY: the sets are initialised by sigfillset and sigemptyset before use; the calls take no other
        // memory; this process has a single thread, so that no handler or mask of another one is touched.
        let fd = unsafe {
            libc::sigfillset(every.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, every.as_ptr(), std::ptr::null_mut());
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::sigemptyset(watched.as_mut_ptr());
            libc::sigaddset(watched.as_mut_ptr(), libc::SIGCHLD);
            for other in others {
                libc::sigaddset(watched.as_mut_ptr(), *other);
            }
            libc::signalfd(-1, watched.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd returned a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// The next signal that has arrived.
    pub(super) fn next(&self) -> Option<Received> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut record = [0; SIZE];
        let count = rustix::io::read(&self.fd, &mut record).ok()?;
        let number = |at| {
            record
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_ne_bytes)
        };
        (count == SIZE).then_some(())?;
        Some(Received {
            signal: number(offset_of!(libc::signalfd_siginfo, ssi_signo))?.cast_signed(),
            sender: number(offset_of!(libc::signalfd_siginfo, ssi_pid))?,
        })
    }

    /// Forgets the signals that have arrived.
    pub(super) fn clear(&self) {
        let mut buffer = [0; 1024];
        while rustix::io::read(&self.fd, &mut buffer).is_ok() {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Lets all signals through again, in a child that inherited our mask.
pub(super) fn unblock() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is initialised by sigemptyset before use; both calls are safe between fork and exec.
    let result = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Becomes another user, in a child of root between fork and exec.
pub(super) fn become_user(user: u32, group: u32, others: &[u32]) -> io::Result<()> {
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

/// Keeps descriptors that we inherited, whoever left them open, from the processes we start.
pub(super) fn seal_descriptors() {
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

/// What all children that have been waited for used, with their own children.
pub(super) fn usage_of_children() -> Option<Usage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the whole structure if it returns 0.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    Some(Usage {
        cpu_user: duration(usage.ru_utime)?,
        cpu_system: duration(usage.ru_stime)?,
        max_rss_bytes: u64::try_from(usage.ru_maxrss).ok()? * 1024,
    })
}

fn duration(time: libc::timeval) -> Option<Duration> {
    let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
    Some(seconds + Duration::from_micros(time.tv_usec.try_into().ok()?))
}
