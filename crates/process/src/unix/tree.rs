//! The descendants of a process, and how to signal all of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use super::platform::{self, Processes};
use crate::Leak;

/// The most leaked processes that a report names.
const MOST_LEAKS: usize = 64;

/// How many passes in a row must find no process: the list is not read at one moment, so that a process whose parent
/// dies meanwhile can be missed once.
const EMPTY_PASSES: u32 = 2;

/// One process, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProcessEntry {
    pub(super) pid: Pid,
    pub(super) name: String,
    pub(super) state: ProcessState,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ProcessState {
    Alive,
    Stopped,
    /// It only waits for its parent to take leave of it.
    Dead,
}

/// A process and its descendants.
pub(super) struct Family {
    root: Pid,
    processes: Processes,
}

impl Family {
    /// That of the first process of a container, which only Linux has.
    #[cfg(target_os = "linux")]
    pub(super) fn of(root: Pid) -> Self {
        Self {
            root,
            processes: Processes::below(root, None),
        }
    }

    /// That of a supervisor that started `main`, which opened a session of its own.
    pub(super) fn led_by(main: Pid, root: Pid) -> Self {
        Self {
            root,
            processes: Processes::below(root, Some(main)),
        }
    }

    /// Notes who is there, so that their own descendants are known as such when they are gone.
    pub(super) fn look(&mut self) {
        if platform::LOOK.is_some() {
            self.processes.list();
        }
    }

    /// Whether processes are left that `waitpid` does not report.
    pub(super) fn has_strays(&mut self) -> bool {
        platform::LOOK.is_some() && !self.living().is_empty()
    }

    fn descendants(&mut self) -> Vec<ProcessEntry> {
        self.descendants_and(|_| false)
    }

    /// The children of the root, other processes for which `is_ours` holds, and everything below them.
    fn descendants_and(&mut self, is_ours: impl Fn(&ProcessEntry) -> bool) -> Vec<ProcessEntry> {
        let root = self.root.as_raw_pid();
        let (mut found, others): (Vec<_>, Vec<_>) = self
            .processes
            .list()
            .into_iter()
            .partition(|entry| entry.parent == root || is_ours(entry));
        let mut children: HashMap<i32, Vec<ProcessEntry>> = HashMap::new();
        for entry in others {
            children.entry(entry.parent).or_default().push(entry);
        }
        let mut next = 0;
        while next < found.len() {
            let below = children.remove(&found[next].pid.as_raw_pid());
            found.extend(below.unwrap_or_default());
            next += 1;
        }
        found
    }

    /// Those of `roots` that live, and everything below them.
    #[cfg(target_os = "linux")]
    pub(super) fn living_below(&mut self, roots: &BTreeSet<i32>) -> Vec<ProcessEntry> {
        let mut all = self.processes.list();
        all.retain(|entry| entry.state != ProcessState::Dead);
        let mut found = roots.clone();
        loop {
            let below = |entry: &&ProcessEntry| found.contains(&entry.parent);
            let pids: Vec<i32> = all
                .iter()
                .filter(below)
                .map(|it| it.pid.as_raw_pid())
                .collect();
            let before = found.len();
            found.extend(pids);
            if found.len() == before {
                break;
            }
        }
        all.retain(|entry| found.contains(&entry.pid.as_raw_pid()));
        all
    }

    /// Whether all living descendants are stopped.
    #[cfg(target_os = "linux")]
    pub(super) fn is_stopped(&mut self) -> bool {
        let runs = |entry: &ProcessEntry| entry.state == ProcessState::Alive;
        !self.descendants().iter().any(runs)
    }

    /// The living descendants.
    pub(super) fn living(&mut self) -> Vec<Leak> {
        self.living_outside(None)
    }

    /// The living descendants that are not in this session.
    pub(super) fn living_outside(&mut self, session: Option<Pid>) -> Vec<Leak> {
        self.descendants()
            .into_iter()
            .filter(|entry| {
                entry.state != ProcessState::Dead && Pid::from_raw(entry.session) != session
            })
            .take(MOST_LEAKS)
            .map(|entry| Leak {
                pid: entry.pid.as_raw_pid().cast_unsigned(),
                name: entry.name,
            })
            .collect()
    }

    /// SIGTERM once to every descendant: to the group `main` in one go, to all others one by one. Those that were
    /// stopped go on, or they could not heed it.
    pub(super) fn terminate(&mut self, main: Pid) {
        // A process whose parent exits before a scan cannot be attributed.
        self.look();
        let _ = kill_process_group(main, Signal::TERM);
        for entry in self.descendants() {
            if entry.group != main.as_raw_pid() {
                let _ = kill_process(entry.pid, Signal::TERM);
            }
            if entry.state == ProcessState::Stopped {
                let _ = kill_process(entry.pid, Signal::CONT);
            }
        }
    }

    /// SIGKILL to the direct children of the root, which is this (single-threaded) process.
    pub(super) fn kill_children(&self) {
        platform::kill_children(self.root);
    }

    /// One pass of SIGKILL over the descendants.
    ///
    /// A group is killed in one go, which no fork can slip through; groups of descendants hold descendants only,
    /// because the main process opened a session of its own. New groups opened meanwhile are for the next pass.
    pub(super) fn kill_pass(&mut self) {
        kill_entries(&self.descendants(), platform::group_of(self.root));
    }
}

fn kill_entries(entries: &[ProcessEntry], except: Option<Pid>) {
    let groups: BTreeSet<i32> = entries.iter().map(|entry| entry.group).collect();
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        if Some(group) != except {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    for entry in entries {
        if Pid::from_raw(entry.group) == except {
            let _ = kill_process(entry.pid, Signal::KILL);
        }
    }
}

/// Kills, from outside, the processes that a lost supervisor should have killed: its descendants while it is there,
/// the session of the main process, the orphans that fell back to us, and everything below them.
pub(super) fn kill_from_outside(
    supervisor: Option<Pid>,
    session: u32,
    within: Duration,
    is_orphan: &dyn Fn(&ProcessEntry) -> bool,
) {
    let own_group = supervisor.and_then(platform::group_of);
    let Some(main) = Pid::from_raw(session.cast_signed()) else {
        return;
    };
    let mut family = Family::led_by(main, supervisor.unwrap_or(main));
    let until = Instant::now() + within;
    // Those who left the session are found by their parents, while these live.
    family.look();
    // First what no fork can slip through.
    kill_group(session);
    let mut empty_passes = 0;
    while empty_passes < EMPTY_PASSES && Instant::now() < until {
        let is_ours = |entry: &ProcessEntry| entry.session == main.as_raw_pid() || is_orphan(entry);
        let (dead, living): (Vec<_>, Vec<_>) = family
            .descendants_and(is_ours)
            .into_iter()
            .partition(|entry| entry.state == ProcessState::Dead);
        kill_entries(&living, own_group);
        for entry in dead.iter().filter(|entry| is_orphan(entry)) {
            let _ = waitpid(Some(entry.pid), WaitOptions::NOHANG);
        }
        if living.is_empty() {
            empty_passes += 1;
        } else {
            empty_passes = 0;
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// SIGKILL to a process group.
pub(super) fn kill_group(leader: u32) {
    if let Some(group) = Pid::from_raw(leader.cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
