//! A job object: every process that is started in it stays in it and dies with it.
#![allow(
    unsafe_code,
    reason = "calls of the Windows API; each says why it is sound"
)]

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::path::Path;

use windows_sys::Win32::System::JobObjects::{
    CreateJobObjectW, IsProcessInJob, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS, JobObjectBasicAccountingInformation,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};

use super::handle::{checked, image, known, open, owned, ticks};
use crate::{Leak, Usage};

/// The most leaked processes that a report names.
const MOST_LEAKS: usize = 64;

/// The most processes that are listed at all.
const MOST_LISTED: usize = 1024;

/// The exit code of killed processes: the one that the task manager uses.
const KILLED: u32 = 1;

/// A job that only this process holds: it closes when this process exits, which kills all its
/// processes.
#[derive(Debug)]
pub(super) struct Job {
    handle: OwnedHandle,
}

/// A process of a job that cannot lose its id to another while this is held, whether it lives or not.
#[derive(Debug)]
pub(super) struct JobMember {
    pub(super) pid: u32,
    _process: OwnedHandle,
}

/// The list of the processes of a job, with room behind its first entry.
#[repr(C)]
struct List {
    head: JOBOBJECT_BASIC_PROCESS_ID_LIST,
    more: [usize; MOST_LISTED],
}

impl Job {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no name and no attributes are passed, so that no memory is read.
        let handle = owned(unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) })?;
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the structure is the one that belongs to the class, and its size is passed.
        checked(unsafe {
            SetInformationJobObject(
                handle.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast::<c_void>(),
                size::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            )
        })?;
        Ok(Self { handle })
    }

    /// Kills all processes of the job.
    pub(super) fn terminate(&self) {
        // SAFETY: the handle is ours and open. It fails only if no process is left.
        let _ = unsafe { TerminateJobObject(self.handle.as_raw_handle(), KILLED) };
    }

    /// How many processes live in it, those of jobs within it included.
    pub(super) fn living(&self) -> io::Result<u32> {
        Ok(self.accounting()?.ActiveProcesses)
    }

    /// The processes of the job.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut list = List {
            head: JOBOBJECT_BASIC_PROCESS_ID_LIST::default(),
            more: [0; MOST_LISTED],
        };
        // SAFETY: the structure is the one that belongs to the class, with room at its end as Windows wants it,
        // and its size is passed. A list that does not fit is filled as far as it goes.
        let _ = unsafe { self.query(JobObjectBasicProcessIdList, &raw mut list) };
        let count = list.head.NumberOfProcessIdsInList as usize;
        let first = list.head.ProcessIdList.into_iter();
        let all = first.chain(list.more).take(count);
        all.filter_map(|pid| u32::try_from(pid).ok()).collect()
    }

    /// The processes of the job that can be opened. A process may exit and its id be reused after
    /// the listing, so that membership is checked again once the handle is open.
    pub(super) fn members(&self) -> Vec<JobMember> {
        let member = |pid| {
            let process = open(pid).ok()?;
            self.holds(process.as_handle()).then_some(JobMember {
                pid,
                _process: process,
            })
        };
        self.pids().into_iter().filter_map(member).collect()
    }

    /// Whether a process is in it, or in a job within it.
    fn holds(&self, process: BorrowedHandle<'_>) -> bool {
        let mut is_in = 0;
        // SAFETY: both handles are open while they are borrowed; the call writes one number.
        let answer = unsafe {
            IsProcessInJob(
                process.as_raw_handle(),
                self.handle.as_raw_handle(),
                &raw mut is_in,
            )
        };
        answer != 0 && is_in != 0
    }

    /// The names of the processes of the job. The host of their console belongs to Windows.
    pub(super) fn leaks(&self) -> Vec<Leak> {
        let leak = |pid| {
            let name = image(pid)?;
            let name = Path::new(&name).file_name()?.to_string_lossy().into_owned();
            (!name.eq_ignore_ascii_case("conhost.exe")).then_some(Leak { pid, name })
        };
        let leaks = self.pids().into_iter().filter_map(leak);
        leaks.take(MOST_LEAKS).collect()
    }

    /// The resources used by all processes that ever were in the job.
    pub(super) fn usage(&self) -> Option<Usage> {
        let accounting = self.accounting().ok()?;
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        // SAFETY: the structure is the one that belongs to the class.
        unsafe { self.query(JobObjectExtendedLimitInformation, &raw mut limits) }.ok()?;
        let time = |count: i64| ticks(u64::try_from(count).unwrap_or_default());
        Some(Usage {
            cpu_user: time(accounting.TotalUserTime),
            cpu_system: time(accounting.TotalKernelTime),
            max_rss_bytes: known(limits.PeakProcessMemoryUsed),
        })
    }

    fn accounting(&self) -> io::Result<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION> {
        let mut accounting = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the structure is the one that belongs to the class.
        unsafe { self.query(JobObjectBasicAccountingInformation, &raw mut accounting) }?;
        Ok(accounting)
    }

    /// Callers pass a structure that belongs to the class.
    unsafe fn query<T>(&self, class: JOBOBJECTINFOCLASS, into: *mut T) -> io::Result<()> {
        // SAFETY: the handle is ours and open; the size is that of the structure.
        checked(unsafe {
            QueryInformationJobObject(
                self.handle.as_raw_handle(),
                class,
                into.cast::<c_void>(),
                size::<T>(),
                std::ptr::null_mut(),
            )
        })
    }
}

impl AsHandle for Job {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

fn size<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("structures are small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrelated_process_is_not_in_our_job_object() {
        let job = Job::new().unwrap();
        let this = open(std::process::id()).unwrap();
        assert!(!job.holds(this.as_handle()));
        assert!(job.members().is_empty());
    }
}
