//! The libc calls that are the same on all Unix systems and for which rustix has no safe form.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use super::platform::MAX_RSS_UNIT;
use crate::Usage;

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

/// The resources used by all reaped children and their descendants.
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
        max_rss_bytes: memory(usage.ru_maxrss),
    })
}

/// A size in the unit of this system; none has a process that used no memory.
fn memory(units: libc::c_long) -> Option<u64> {
    let units = u64::try_from(units).ok().filter(|&units| units > 0)?;
    Some(units * MAX_RSS_UNIT)
}

fn duration(time: libc::timeval) -> Option<Duration> {
    let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
    Some(seconds + Duration::from_micros(time.tv_usec.try_into().ok()?))
}
