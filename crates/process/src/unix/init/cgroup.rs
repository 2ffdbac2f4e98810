//! What the kernel counted for the whole container, as far as the engine lets us see it.

use std::fs;

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
    let read = |file| count(&fs::read_to_string(file).ok()?);
    files.into_iter().find_map(read)
}

fn count(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_apart_from_the_limit_that_was_only_hit() {
        assert_eq!(
            count("low 0\noom 7\noom_kill 2\noom_group_kill 1\n"),
            Some(2)
        );
        assert_eq!(
            count("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            Some(1)
        );
        assert_eq!(count("oom_kill_disable 0\n"), None);
    }
}
