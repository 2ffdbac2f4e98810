//! Signals as a stream that can be waited for: Linux has a descriptor for that.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Says when a child has changed state, or one of the other signals that are watched for has come.
pub(in super::super) struct ChildSignals {
    fd: OwnedFd,
}

/// A signal that came.
pub(in super::super) struct Received {
    pub(in super::super) signal: i32,
    /// The sender; 0 if that process is not in our PID namespace.
    pub(in super::super) sender: u32,
}

impl ChildSignals {
    /// Blocks all signals of this process, so that nothing but SIGKILL ends it, and watches for SIGCHLD and `others`.
    /// All signals get their default action again, because children would inherit ignored ones.
    pub(in super::super) fn take_over(others: &[i32]) -> io::Result<Self> {
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
        // SAFETY: signalfd returned a new descriptor without another owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// The next signal that has arrived.
    pub(in super::super) fn next(&self) -> Option<Received> {
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
    pub(in super::super) fn clear(&self) {
        let mut buffer = [0; 1024];
        while rustix::io::read(&self.fd, &mut buffer).is_ok() {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
