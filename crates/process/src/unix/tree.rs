//! The descendants of a process, read from `/proc`, and how to signal all of them.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use crate::Leak;

/// The most leaked processes that a report names.
const MOST_LEAKS: usize = 64;

/// One line of `/proc/<pid>/stat`, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    pid: Pid,
    name: String,
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
}

impl Entry {
    fn read(pid: Pid) -> Option<Self> {
        // Enough for all that is wanted; the rest of the line are counters.
        let mut buffer = [0; 512];
        let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
        let count = file.read(&mut buffer).ok()?;
        Self::parse(&buffer[..count])
    }

    /// The name stands in parentheses and may itself contain any character.
    fn parse(line: &[u8]) -> Option<Self> {
        let open = memchr::memchr(b'(', line)?;
        let close = memchr::memrchr(b')', line)?;
        let pid = std::str::from_utf8(&line[..open])
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            pid: Pid::from_raw(pid)?,
            name: String::from_utf8_lossy(line.get(open + 1..close)?).into_owned(),
            state: *fields.next()?.as_bytes().first()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
        })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    fn is_stopped(&self) -> bool {
        self.state == b'T'
    }
}

fn all() -> Vec<Entry> {
    let Ok(folder) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Entry::read(Pid::from_raw(pid)?))
        .collect()
}

/// Everything below `root`, without `root` itself.
fn descendants(root: Pid) -> Vec<Entry> {
    split(root).0
}

/// Everything below `root`, and everything else.
fn split(root: Pid) -> (Vec<Entry>, Vec<Entry>) {
    let mut children: HashMap<i32, Vec<Entry>> = HashMap::new();
    for entry in all() {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut found: Vec<Entry> = children.remove(&root.as_raw_pid()).unwrap_or_default();
    let mut next = 0;
    while next < found.len() {
        let below = children.remove(&found[next].pid.as_raw_pid());
        found.extend(below.unwrap_or_default());
        next += 1;
    }
    (found, children.into_values().flatten().collect())
}

/// The living descendants of `root`.
pub(super) fn living(root: Pid) -> Vec<Leak> {
    living_outside(root, None)
}

/// The living descendants of `root` that are not in this session.
pub(super) fn living_outside(root: Pid, session: Option<Pid>) -> Vec<Leak> {
    descendants(root)
        .into_iter()
        .filter(|entry| !entry.is_dead() && Pid::from_raw(entry.session) != session)
        .take(MOST_LEAKS)
        .map(|entry| Leak {
            pid: entry.pid.as_raw_pid().cast_unsigned(),
            name: entry.name,
        })
        .collect()
}

/// SIGTERM once to every descendant of `root`: to the group `main` in one go, to all others one by one.
/// Those that were stopped go on, or they could not heed it.
pub(super) fn terminate(root: Pid, main: Pid) {
    let _ = kill_process_group(main, Signal::TERM);
    for entry in descendants(root) {
        if entry.group != main.as_raw_pid() {
            let _ = kill_process(entry.pid, Signal::TERM);
        }
        if entry.is_stopped() {
            let _ = kill_process(entry.pid, Signal::CONT);
        }
    }
}

/// One pass of SIGKILL over the descendants of `root`.
///
/// A group is killed in one go, which no fork can slip through; groups of descendants hold descendants only,
/// because the main process opened a session of its own. New groups opened meanwhile are for the next pass.
pub(super) fn kill_pass(root: Pid) {
    kill_entries(&descendants(root), getpgid(Some(root)).ok());
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

/// SIGKILL to the direct children of this (single-threaded) process. Far quicker than a pass over all of
/// `/proc`, so that it catches a chain of processes that each fork and exit at once.
pub(super) fn kill_children(this: Pid) {
    let Ok(list) = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children")) else {
        return;
    };
    for pid in list.split_ascii_whitespace() {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Kills, from outside, what a lost supervisor should have killed: its descendants while it is there, and
/// whatever is in the session of the main process.
pub(super) fn kill_from_outside(supervisor: Option<Pid>, session: u32, within: Duration) {
    let own_group = supervisor.and_then(|pid| getpgid(Some(pid)).ok());
    let until = Instant::now() + within;
    // First what no fork can slip through.
    kill_group(session);
    loop {
        let (mut found, others) = supervisor.map_or_else(|| (Vec::new(), all()), split);
        let session = others
            .into_iter()
            .filter(|entry| entry.session.cast_unsigned() == session);
        found.extend(session);
        found.retain(|entry| !entry.is_dead());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_spaces_and_parentheses() {
        let entry = Entry::parse(b"12 (a) b (c) S 3 4 5 0 -1 4194560").unwrap();
        assert_eq!(entry.name, "a) b (c");
        assert_eq!((entry.parent, entry.group, entry.session), (3, 4, 5));
        assert_eq!(entry.state, b'S');
    }

    #[test]
    fn a_line_cut_short_is_no_entry() {
        assert_eq!(Entry::parse(b"12 (a) S 3"), None);
        assert_eq!(Entry::parse(b"12 a"), None);
    }

    #[test]
    fn this_process_is_in_the_list() {
        let this = rustix::process::getpid();
        assert!(all().iter().any(|entry| entry.pid == this));
    }
}
