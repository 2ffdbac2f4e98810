//! Signals as a stream that can be waited for: a handler that writes to a pipe.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::ioctl_fionbio;

/// Where the handler writes; negative before there is anything.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// One more than the highest signal.
const SIGNALS: i32 = 32;

/// Says when a child has changed state.
pub(in super::super) struct ChildSignals {
    reader: OwnedFd,
    /// Open for as long as the handler may write to it.
    _writer: OwnedFd,
}

impl ChildSignals {
    /// Blocks all signals of this process but SIGCHLD and `others`, so that nothing but SIGKILL ends it, and watches for
    /// those. All others get their default action again, because children would inherit ignored ones.
    pub(in super::super) fn take_over(others: &[i32]) -> io::Result<Self> {
        let (reader, writer) = super::pipe()?;
        ioctl_fionbio(&reader, true)?;
        ioctl_fionbio(&writer, true)?;
        BELL.store(writer.as_raw_fd(), Ordering::SeqCst);
        let mut blocked = MaybeUninit::uninit();
        let handler: extern "C" fn(i32) = ring;
        // SAFETY: the set is initialised by sigfillset before use; the calls take no other memory; the handler does
        // nothing but write to a pipe; this process has a single thread, so that no mask of another one is touched.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in 1..SIGNALS {
                libc::signal(signal, libc::SIG_DFL);
            }
            for watched in others.iter().chain([&libc::SIGCHLD]) {
                libc::sigdelset(blocked.as_mut_ptr(), *watched);
                libc::signal(*watched, handler as libc::sighandler_t);
            }
            libc::sigprocmask(libc::SIG_SETMASK, blocked.as_ptr(), std::ptr::null_mut());
        }
        Ok(Self {
            reader,
            _writer: writer,
        })
    }

    /// Forgets the signals that have arrived.
    pub(in super::super) fn clear(&self) {
        let mut buffer = [0; 64];
        while rustix::io::read(&self.reader, &mut buffer).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

/// A byte to wake the waiter. A full pipe holds enough of them already.
extern "C" fn ring(_signal: i32) {
    let byte = 0u8;
    // SAFETY: write is safe in a handler; the byte is valid. errno of the interrupted code is
    // restored.
    unsafe {
        let errno = *libc::__error();
        libc::write(
            BELL.load(Ordering::SeqCst),
            (&raw const byte).cast::<libc::c_void>(),
            1,
        );
        *libc::__error() = errno;
    }
}
