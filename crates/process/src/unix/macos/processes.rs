//! All processes, as the system lists them, and who among them was once seen below a supervisor.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;

use rustix::process::{Pid, Signal, getsid, kill_process};

use super::super::tree::{ProcessEntry, ProcessState};

/// When a process was started, in seconds and microseconds: two with the same id never have this in common.
type ProcessBirth = (u64, u64);

/// The first process of the system, which orphans fall to.
const LAUNCHD: i32 = 1;

/// The processes of this machine. An orphan that was seen below `root` before, or that is in a session of one that was,
/// is listed as a child of `root`.
pub(in super::super) struct Processes {
    root: i32,
    /// The session of the main process, which may exit with some of its children before the first
    /// scan.
    session: Option<i32>,
    /// The descendants that were seen the last time.
    known: HashMap<i32, ProcessBirth>,
}

impl Processes {
    /// Those below `root`, whose child `main` opened a session of its own.
    pub(in super::super) fn below(root: Pid, main: Option<Pid>) -> Self {
        Self {
            root: root.as_raw_pid(),
            session: main.map(Pid::as_raw_pid),
            known: HashMap::new(),
        }
    }

    pub(in super::super) fn list(&mut self) -> Vec<ProcessEntry> {
        let mut all: Vec<(ProcessEntry, ProcessBirth)> =
            pids().into_iter().filter_map(read).collect();
        for (entry, birth) in &mut all {
            let is_known = self.known.get(&entry.pid.as_raw_pid()) == Some(birth);
            let is_kin = is_known
                || self.known.contains_key(&entry.session)
                || self.session == Some(entry.session);
            if entry.parent == LAUNCHD && is_kin {
                entry.parent = self.root;
            }
        }
        self.remember(&all);
        all.into_iter().map(|(entry, _)| entry).collect()
    }

    /// Records the current descendants of the root. Sessions of exited processes stay known while
    /// processes are in them.
    fn remember(&mut self, all: &[(ProcessEntry, ProcessBirth)]) {
        let mut below: HashMap<i32, ProcessBirth> = HashMap::new();
        let mut parents = vec![self.root];
        while let Some(parent) = parents.pop() {
            for (entry, birth) in all.iter().filter(|(entry, _)| entry.parent == parent) {
                let pid = entry.pid.as_raw_pid();
                if below.insert(pid, *birth).is_none() {
                    parents.push(pid);
                }
            }
        }
        let sessions = all
            .iter()
            .filter(|(entry, _)| below.contains_key(&entry.pid.as_raw_pid()));
        let sessions: Vec<i32> = sessions.map(|(entry, _)| entry.session).collect();
        for session in sessions {
            if let Some(birth) = self.known.get(&session) {
                below.entry(session).or_insert(*birth);
            }
        }
        self.known = below;
    }
}

/// The ids of all processes.
fn pids() -> Vec<i32> {
    // Room for those that start between the two calls.
    const MORE: usize = 64;
    // SAFETY: without memory the call only says how many there are.
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    let mut pids = vec![0; usize::try_from(count).unwrap_or_default() + MORE];
    let size = c_int::try_from(size_of_val(&pids[..])).unwrap_or(c_int::MAX);
    // SAFETY: the list has the size in bytes that is passed.
    let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast::<c_void>(), size) };
    pids.truncate(usize::try_from(count).unwrap_or_default());
    pids
}

/// One process; `None` if it is gone or belongs to another user.
fn read(pid: i32) -> Option<(ProcessEntry, ProcessBirth)> {
    let pid = Pid::from_raw(pid)?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::uninit();
    let size = c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: the structure has the size that is passed, and is filled if that size is returned.
    let info = unsafe {
        let place = info.as_mut_ptr().cast::<c_void>();
        if libc::proc_pidinfo(pid.as_raw_pid(), libc::PROC_PIDTBSDINFO, 0, place, size) != size {
            return None;
        }
        info.assume_init()
    };
    let entry = ProcessEntry {
        pid,
        name: name(&info.pbi_name).or_else(|| name(&info.pbi_comm))?,
        state: match info.pbi_status {
            libc::SZOMB => ProcessState::Dead,
            libc::SSTOP => ProcessState::Stopped,
            _ => ProcessState::Alive,
        },
        parent: info.pbi_ppid.cast_signed(),
        group: info.pbi_pgid.cast_signed(),
        session: getsid(Some(pid)).map_or(0, Pid::as_raw_pid),
    };
    Some((entry, (info.pbi_start_tvsec, info.pbi_start_tvusec)))
}

/// A name that is closed by a zero; `None` if it is empty.
fn name(letters: &[libc::c_char]) -> Option<String> {
    let bytes: Vec<u8> = letters
        .iter()
        .map(|letter| letter.cast_unsigned())
        .collect();
    let name = CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy();
    (!name.is_empty()).then(|| name.into_owned())
}

/// SIGKILL to the direct children of this process. Far quicker than a pass over all processes, so that it catches a chain
/// of processes that each fork and exit at once, as long as they are our children.
pub(in super::super) fn kill_children(this: Pid) {
    let mut pids = [0; 1024];
    let size = c_int::try_from(size_of_val(&pids)).unwrap_or_default();
    // SAFETY: the list has the size in bytes that is passed.
    let count = unsafe {
        libc::proc_listchildpids(this.as_raw_pid(), pids.as_mut_ptr().cast::<c_void>(), size)
    };
    let count = usize::try_from(count).unwrap_or_default();
    for pid in pids.into_iter().take(count).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_the_list_with_its_parent_and_session() {
        let this = rustix::process::getpid();
        let all = Processes::below(this, None).list();
        let entry = all.iter().find(|entry| entry.pid == this).unwrap();
        let parent = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
        assert_eq!(entry.parent, parent);
        assert_eq!(entry.session, getsid(None).unwrap().as_raw_pid());
    }
}
