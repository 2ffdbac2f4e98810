//! All processes, read from `/proc`.

use std::fs::File;
use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};

use super::super::tree::{ProcessEntry, ProcessState};

/// The processes of this machine. The orphans among the descendants of a supervisor are its children, so that nothing
/// has to be remembered about them.
pub(in super::super) struct Processes;

impl Processes {
    pub(in super::super) fn below(_root: Pid, _main: Option<Pid>) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "elsewhere orphans are remembered")]
    pub(in super::super) fn list(&mut self) -> Vec<ProcessEntry> {
        let Ok(folder) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        folder
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| read(Pid::from_raw(pid)?))
            .collect()
    }
}

fn read(pid: Pid) -> Option<ProcessEntry> {
    // Enough for all that is wanted; the rest of the line are counters.
    let mut buffer = [0; 512];
    let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
    let count = file.read(&mut buffer).ok()?;
    parse(&buffer[..count])
}

/// One line of `/proc/<pid>/stat`. The name stands in parentheses and may itself contain any character.
fn parse(line: &[u8]) -> Option<ProcessEntry> {
    let open = memchr::memchr(b'(', line)?;
    let close = memchr::memrchr(b')', line)?;
    let pid = std::str::from_utf8(&line[..open])
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    Some(ProcessEntry {
        pid: Pid::from_raw(pid)?,
        name: String::from_utf8_lossy(line.get(open + 1..close)?).into_owned(),
        state: match fields.next()?.as_bytes().first()? {
            b'Z' | b'X' => ProcessState::Dead,
            b'T' => ProcessState::Stopped,
            _ => ProcessState::Alive,
        },
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
    })
}

/// One process for as long as it exists, also when its id is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Identity {
    /// In ticks since the machine started; 0 if it is not known.
    started: u64,
    pid: i32,
}

impl Identity {
    pub(in super::super) fn of(pid: i32) -> Self {
        Self {
            started: start_time(pid).unwrap_or(0),
            pid,
        }
    }
}

fn start_time(pid: i32) -> Option<u64> {
    let line = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = memchr::memrchr(b')', &line)?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    // Field 22 of the line; the state after the name is field 3.
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether a process fell back to us when its parent died, and is not older than `supervisor`. Descendants of a
/// supervisor are never in our session, because the first of them opened another one; helpers of ours are.
pub(in super::super) fn is_orphan(entry: &ProcessEntry, supervisor: Identity) -> bool {
    let this = rustix::process::getpid();
    entry.parent == this.as_raw_pid()
        && read(this).is_some_and(|ours| ours.session != entry.session)
        && Identity::of(entry.pid.as_raw_pid()).started >= supervisor.started
}

/// The process group of a process; `None` if its leader lives outside this PID namespace, as under `docker exec`.
/// The kernel reports such a group as 0, which `rustix::process::getpgid` takes for impossible.
pub(in super::super) fn group_of(pid: Pid) -> Option<Pid> {
    Pid::from_raw(read(pid)?.group)
}

/// SIGKILL to the direct children of this (single-threaded) process. Far quicker than a pass over all of
/// `/proc`, so that it catches a chain of processes that each fork and exit at once.
pub(in super::super) fn kill_children(this: Pid) {
    let Ok(list) = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children")) else {
        return;
    };
    for pid in list.split_ascii_whitespace() {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_spaces_and_parentheses() {
        let entry = parse(b"12 (a) b (c) S 3 4 5 0 -1 4194560").unwrap();
        assert_eq!(entry.name, "a) b (c");
        assert_eq!((entry.parent, entry.group, entry.session), (3, 4, 5));
        assert_eq!(entry.state, ProcessState::Alive);
    }

    #[test]
    fn truncated_line_is_not_an_entry() {
        assert_eq!(parse(b"12 (a) S 3"), None);
        assert_eq!(parse(b"12 a"), None);
    }

    #[test]
    fn this_process_is_in_the_list() {
        let this = rustix::process::getpid();
        let all = Processes::below(this, None).list();
        assert!(all.iter().any(|entry| entry.pid == this));
    }
}
