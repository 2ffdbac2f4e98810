//! The descendants of a process, and how to signal all of them.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use super::platform::{self, Processes};
use crate::Leak;

/// The most leaked processes that a report names.
const MOST_LEAKS: usize = 64;

/// One process, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) pid: Pid,
    pub(super) name: String,
    pub(super) state: State,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
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

    /// Whether somebody is left of whom waiting for children does not tell.
    pub(super) fn has_strays(&mut self) -> bool {
        platform::LOOK.is_some() && !self.living().is_empty()
    }

    fn descendants(&mut self) -> Vec<Entry> {
        self.split().0
    }

    /// Everything below the root, without the root itself, and everything else.
    fn split(&mut self) -> (Vec<Entry>, Vec<Entry>) {
        let mut children: HashMap<i32, Vec<Entry>> = HashMap::new();
        for entry in self.processes.list() {
            children.entry(entry.parent).or_default().push(entry);
        }
        let mut found: Vec<Entry> = children.remove(&self.root.as_raw_pid()).unwrap_or_default();
        let mut next = 0;
        while next < found.len() {
            let below = children.remove(&found[next].pid.as_raw_pid());
            found.extend(below.unwrap_or_default());
            next += 1;
        }
        (found, children.into_values().flatten().collect())
    }

    /// The living descendants.
    pub(super) fn living(&mut self) -> Vec<Leak> {
        self.living_outside(None)
    }

    /// The living descendants that are not in this session.
    pub(super) fn living_outside(&mut self, session: Option<Pid>) -> Vec<Leak> {
        self.descendants()
            .into_iter()
            .filter(|entry| entry.state != State::Dead && Pid::from_raw(entry.session) != session)
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
        // Whose parent heeds it before anybody saw them is nobody's.
        self.look();
        let _ = kill_process_group(main, Signal::TERM);
        for entry in self.descendants() {
            if entry.group != main.as_raw_pid() {
                let _ = kill_process(entry.pid, Signal::TERM);
            }
            if entry.state == State::Stopped {
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
        kill_entries(&self.descendants(), getpgid(Some(self.root)).ok());
    }
}

fn kill_entries(entries: &[Entry], except: Option<Pid>) {
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

/// Kills, from outside, what a lost supervisor should have killed: its descendants while it is there, whatever is in
/// the session of the main process, and where orphans are known by having been seen also those below it.
pub(super) fn kill_from_outside(supervisor: Option<Pid>, session: u32, within: Duration) {
    let own_group = supervisor.and_then(|pid| getpgid(Some(pid)).ok());
    let Some(main) = Pid::from_raw(session.cast_signed()) else {
        return;
    };
    let mut family = Family::led_by(main, supervisor.unwrap_or(main));
    let until = Instant::now() + within;
    // Those who left the session are found by their parents, while these live.
    family.look();
    // First what no fork can slip through.
    kill_group(session);
    loop {
        let (mut found, others) = family.split();
        let session = others
            .into_iter()
            .filter(|entry| entry.session.cast_unsigned() == session);
        found.extend(session);
        found.retain(|entry| entry.state != State::Dead);
        kill_entries(&found, own_group);
        if found.is_empty() || Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// SIGKILL to a process group.
pub(super) fn kill_group(leader: u32) {
    if let Some(group) = Pid::from_raw(leader.cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
