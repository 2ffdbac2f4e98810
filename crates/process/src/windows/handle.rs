//! The calls that take any handle: waiting, inheriting, asking how a process ended.
#![allow(
    unsafe_code,
    reason = "calls of the Windows API; each says why it is sound"
)]

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    FILETIME, HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_FAILED, WAIT_OBJECT_0,
    WAIT_TIMEOUT,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    CreateEventW, GetExitCodeProcess, GetProcessTimes, INFINITE, OpenProcess, PROCESS_NAME_WIN32,
    PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW, SetEvent,
    WaitForMultipleObjects,
};
use windows_sys::core::BOOL;

use crate::Usage;

/// Turns the answer of a call that returns zero on failure into a result.
pub(super) fn checked(answer: BOOL) -> io::Result<()> {
    if answer == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Owns the handle that a call returned, unless it failed and returned none.
pub(super) fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: callers pass a handle that was just created and has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Lets a process that is started with this handle in its list inherit it.
pub(super) fn make_inheritable(handle: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: the handle is open while it is borrowed.
    checked(unsafe {
        SetHandleInformation(
            handle.as_raw_handle(),
            HANDLE_FLAG_INHERIT,
            HANDLE_FLAG_INHERIT,
        )
    })
}

/// Waits until one of the handles is signalled or the time is over. Returns the index of the
/// handle.
pub(super) fn wait_any(
    handles: &[BorrowedHandle<'_>],
    longest: Option<Duration>,
) -> io::Result<Option<usize>> {
    let raw: Vec<HANDLE> = handles.iter().map(AsRawHandle::as_raw_handle).collect();
    let count = u32::try_from(raw.len()).expect("a handful of handles");
    // SAFETY: the list has that length, and its handles are open while they are borrowed.
    let answer = unsafe { WaitForMultipleObjects(count, raw.as_ptr(), 0, milliseconds(longest)) };
    match answer {
        WAIT_TIMEOUT => Ok(None),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        index => Ok(Some((index - WAIT_OBJECT_0) as usize)),
    }
}

/// Rounded up, so that a short rest does not cause a busy loop, and below the value that means
/// infinite.
fn milliseconds(longest: Option<Duration>) -> u32 {
    longest.map_or(INFINITE, |longest| {
        let whole = longest.as_nanos().div_ceil(1_000_000);
        u32::try_from(whole).map_or(INFINITE - 1, |count| count.min(INFINITE - 1))
    })
}

/// An event that wakes one waiter each time it is set.
#[derive(Debug)]
pub(super) struct WakeEvent {
    pub(super) handle: OwnedHandle,
}

impl WakeEvent {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no name and no attributes are passed, so that no memory is read.
        let handle = unsafe { CreateEventW(std::ptr::null(), 0, 0, std::ptr::null()) };
        Ok(Self {
            handle: owned(handle)?,
        })
    }

    pub(super) fn set(&self) {
        // SAFETY: the handle is ours and open. An event cannot fail to be set.
        let _ = unsafe { SetEvent(self.handle.as_raw_handle()) };
    }
}

/// The exit code of a process that has ended.
pub(super) fn exit_code(process: BorrowedHandle<'_>) -> io::Result<u32> {
    let mut code = 0;
    // SAFETY: the handle is open while it is borrowed; the call writes one number.
    checked(unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) })?;
    Ok(code)
}

/// The process that has this id now, to be asked about.
pub(super) fn open(pid: u32) -> io::Result<OwnedHandle> {
    // SAFETY: takes no memory; returns a handle of ours or none.
    owned(unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) })
}

/// The file that a process executes; `None` if it is gone or closed to us.
pub(super) fn image(pid: u32) -> Option<String> {
    let process = open(pid).ok()?;
    let mut buffer = [0; 1024];
    let mut length = 1024;
    // SAFETY: the handle is open, and the buffer has the length that is passed.
    let answer = unsafe {
        QueryFullProcessImageNameW(
            process.as_raw_handle(),
            PROCESS_NAME_WIN32,
            buffer.as_mut_ptr(),
            &raw mut length,
        )
    };
    checked(answer).ok()?;
    Some(String::from_utf16_lossy(buffer.get(..length as usize)?))
}

/// The resources used by one process.
pub(super) fn usage(process: BorrowedHandle<'_>) -> Option<Usage> {
    let mut times = [FILETIME::default(); 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: the handle is open while it is borrowed; the call fills four structures.
    let answer = unsafe { GetProcessTimes(process.as_raw_handle(), created, exited, kernel, user) };
    checked(answer).ok()?;
    Some(Usage {
        cpu_user: span(times[3]),
        cpu_system: span(times[2]),
        max_rss_bytes: peak_memory(process),
    })
}

fn peak_memory(process: BorrowedHandle<'_>) -> Option<u64> {
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).ok()?;
    let mut counters = PROCESS_MEMORY_COUNTERS {
        cb: size,
        ..PROCESS_MEMORY_COUNTERS::default()
    };
    // SAFETY: the handle is open while it is borrowed; the structure has the size that is passed.
    let answer =
        unsafe { K32GetProcessMemoryInfo(process.as_raw_handle(), &raw mut counters, size) };
    checked(answer).ok()?;
    known(counters.PeakWorkingSetSize)
}

/// An amount of memory. No process has none: 0 is what systems say that do not keep this account.
pub(super) fn known(bytes: usize) -> Option<u64> {
    (bytes > 0).then_some(bytes as u64)
}

fn span(time: FILETIME) -> Duration {
    ticks((u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime))
}

/// A time in units of 100 ns.
pub(super) fn ticks(count: u64) -> Duration {
    Duration::from_nanos(count.saturating_mul(100))
}
