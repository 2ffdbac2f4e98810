//! The kernel's counters for the whole container, if the engine exposes them.

use std::fs;

use crate::oom_kills_in;

/// The most memory held at one time: cgroup v2 first, then v1.
pub(super) fn peak_memory() -> Option<u64> {
    let files = [
        "/sys/fs/cgroup/memory.peak",
        "/sys/fs/cgroup/memory/memory.max_usage_in_bytes",
    ];
    let read = |file| fs::read_to_string(file).ok()?.trim().parse().ok();
    files.into_iter().find_map(read)
}

/// How many processes were killed because memory was short.
pub(super) fn oom_kills() -> Option<u64> {
    let files = [
        "/sys/fs/cgroup/memory.events",
        "/sys/fs/cgroup/memory/memory.oom_control",
    ];
    let read = |file| oom_kills_in(&fs::read_to_string(file).ok()?);
    files.into_iter().find_map(read)
}
