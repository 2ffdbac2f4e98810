//! The number of OOM kills in our own cgroup: a job of a cluster, or a service with a limit.

use proctor_process::oom_kills_in;

/// The kills so far; `None` if they are not counted for this process alone.
pub fn oom_kills() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let read = |file: String| oom_kills_in(&std::fs::read_to_string(file).ok()?);
    files(&groups).into_iter().find_map(read)
}

/// The counter files of our cgroup: `0::/job_7` is version 2, `4:memory:/job_7` is version 1. The
/// root cgroup is the whole machine and is ignored.
fn files(groups: &str) -> Vec<String> {
    let file = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, path) = (parts.next()?, parts.next()?);
        let is_memory = kinds.split(',').any(|kind| kind == "memory");
        match kinds {
            _ if path == "/" => None,
            "" => Some(format!("/sys/fs/cgroup{path}/memory.events")),
            _ if is_memory => Some(format!("/sys/fs/cgroup/memory{path}/memory.oom_control")),
            _ => None,
        }
    };
    groups.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_both_versions_are_found() {
        let found = files("0::/system.slice/job_7/step_batch\n");
        assert_eq!(
            found,
            ["/sys/fs/cgroup/system.slice/job_7/step_batch/memory.events"]
        );
        let found = files("9:cpu,cpuacct:/slurm/job_7\n4:memory:/slurm/job_7\n0::/\n");
        assert_eq!(
            found,
            ["/sys/fs/cgroup/memory/slurm/job_7/memory.oom_control"]
        );
        assert_eq!(files("4:memory:/\n0::/\n"), Vec::<String>::new());
    }
}
