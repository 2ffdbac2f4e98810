//! The real Slurm cluster that `scripts/slurm` started for all tests: a controller and three nodes on this machine.

use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::Program;
use crate::leftovers::processes_with;

/// Names its configuration.
const CONF: &str = "PROCTOR_TEST_SLURM_CONF";

/// A Slurm cluster.
#[derive(Debug)]
pub struct Cluster {
    conf: String,
}

impl Cluster {
    /// The cluster of the tests. When there is none the test says so and gets none; under `CI` it fails.
    pub fn find() -> Option<Self> {
        let conf = std::env::var(CONF).ok().filter(|conf| !conf.is_empty());
        if conf.is_none() {
            assert!(
                std::env::var_os("CI").is_none(),
                "there is no Slurm: run `scripts/slurm start` and set {CONF} to what it prints"
            );
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("test");
            // Not a reason to fail: the line is only for those who look.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {test}: no Slurm ({CONF}; `scripts/slurm start`)"
            );
        }
        Some(Self { conf: conf? })
    }

    /// The variable that makes a program use this cluster.
    pub fn env(&self) -> (&str, &str) {
        ("SLURM_CONF", &self.conf)
    }

    /// Lets a program use this cluster.
    #[must_use]
    pub fn on(&self, program: Program) -> Program {
        program.env("SLURM_CONF", &self.conf)
    }

    /// The output of a Slurm command.
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(args)
            .env("SLURM_CONF", &self.conf)
            .output()
            .expect("Slurm's commands are there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many tasks of the jobs of this name are in this state.
    pub fn count(&self, name: &str, state: &str) -> usize {
        let args = ["--noheader", "--array", "--name", name, "--states", state];
        self.ask("squeue", &args).lines().count()
    }

    /// Kills a node as if its machine were gone: its daemon, and all that it has started.
    pub fn kill_node(&self, node: &str) {
        let file = self.pid_file(node);
        let pid = fs_err::read_to_string(&file).expect("the daemon of a node");
        kill(pid.trim());
        let _ = fs_err::remove_file(file);
        let of_cluster = processes_with(&self.conf);
        let mut jobs = processes_with(&format!("SLURMD_NODENAME={node}"));
        jobs.retain(|job| of_cluster.contains(job));
        for job in jobs {
            let pid = job.split(':').next().expect("a process id");
            let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // Its name, in parentheses, may hold anything; then come its state and its parent.
            let rest = stat.rsplit(')').next().unwrap_or_default();
            let parent = rest.split_whitespace().nth(1).unwrap_or_default();
            let name = fs_err::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
            if name.trim() == "slurmstepd" {
                kill(parent);
            }
            kill(pid);
        }
    }

    /// Starts the daemon of a node again.
    pub fn start_node(&self, node: &str) {
        let started = Command::new("setsid")
            .args(["slurmd", "-N", node, "-f", &self.conf])
            .status();
        assert!(started.is_ok_and(|status| status.success()), "{node}");
    }

    fn pid_file(&self, node: &str) -> String {
        let conf = fs_err::read_to_string(&self.conf).expect("the configuration");
        let line = conf
            .lines()
            .find_map(|line| line.strip_prefix("SlurmdPidFile="));
        line.expect("where daemons leave their ids")
            .replace("%n", node)
    }
}

fn kill(pid: &str) {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    // It may be over by now.
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}
