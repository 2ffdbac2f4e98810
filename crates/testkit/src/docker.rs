//! Real Docker engines: the one that `scripts/docker` started for all tests, and private ones that a test may kill.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::context::TestContext;
use crate::leftovers::{processes_with, wait_until};

/// Names the engine; nothing is pulled by a test.
const HOST: &str = "PROCTOR_TEST_DOCKER_HOST";

/// The small image that every test engine has.
pub const BUSYBOX: &str = "proctor-test:busybox";

/// The larger image: Debian with git, Python, Node and what agents need.
pub const DEBIAN: &str = "proctor-test:debian";

/// How long an engine may take to come up or go down.
const CHANGE: Duration = Duration::from_mins(1);

/// The address of the test engine. When there is none the test says so and gets none; under `CI` it fails.
pub fn docker_host() -> Option<String> {
    let host = std::env::var(HOST).ok().filter(|host| !host.is_empty());
    if host.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "there is no Docker engine: run `scripts/docker start` and set {HOST} to what it prints"
        );
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test");
        // Not a reason to fail: the line is only for those who look.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: no Docker engine ({HOST}; `scripts/docker start`)"
        );
    }
    host
}

impl TestContext {
    /// The output of the `docker` program for the engine at an address.
    #[track_caller]
    pub fn docker(&self, host: &str, args: &[&str]) -> String {
        let all = ["-H", host].into_iter().chain(args.iter().copied());
        let docker = self.program("docker".into(), all);
        let output = docker.env("PATH", "/usr/local/bin:/usr/bin:/bin").run();
        output.assert_code(0);
        output.stdout
    }

    /// The containers of this context's runs in the engine at an address.
    #[track_caller]
    pub fn containers(&self, host: &str) -> Vec<String> {
        let format = "{{.ID}} {{.Label \"proctor.run\"}} {{.Command}}";
        let listed = self.docker(host, &["ps", "--all", "--no-trunc", "--format", format]);
        let own = self.root().as_str();
        let lines = listed.lines().filter(|line| line.contains(own));
        lines.map(str::to_owned).collect()
    }
}

/// A Docker engine of a test's own, with the busybox image. Its files are in memory: engines wait for the disk at every
/// container, and a disk that is busy with something else would be the slowest part of a test. Gone when dropped.
#[derive(Debug)]
pub struct PrivateEngine {
    folder: PathBuf,
    dockerd: Option<Child>,
}

impl PrivateEngine {
    /// Starts one whose files lie in `folder`.
    pub fn start(folder: &Path) -> Option<Self> {
        let shared = docker_host()?;
        let mut engine = Self {
            folder: folder.to_owned(),
            dockerd: None,
        };
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "proctor-test"]).arg(folder);
        let mounted = mount.status().expect("mount starts");
        assert!(mounted.success(), "no file system in memory: {mounted}");
        engine.up();
        let pipe = format!(
            "docker -H '{shared}' save {BUSYBOX} | docker -H '{}' load",
            engine.host()
        );
        let loaded = Command::new("sh").args(["-c", &pipe]).output();
        let loaded = loaded.expect("sh starts");
        assert!(
            loaded.status.success(),
            "the image cannot be copied: {loaded:?}"
        );
        Some(engine)
    }

    /// Its address.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.join("d.sock").display())
    }

    /// Starts it, also again.
    pub fn up(&mut self) {
        let log = std::fs::File::create(self.folder.join("log")).expect("a log");
        // A helper that died with its engine may not have been waited for yet, and would pass for a living one.
        let _ = std::fs::remove_file(self.folder.join("exec/containerd/containerd.pid"));
        // In its own network namespace, so that it does not touch the bridge of another engine.
        let mut command = Command::new("unshare");
        command
            .args(["--net", "dockerd", "--data-root"])
            .arg(self.folder.join("data"))
            .arg("--exec-root")
            .arg(self.folder.join("exec"))
            .arg("--pidfile")
            .arg(self.folder.join("pid"))
            .args(["--host", &self.host()])
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a second handle"))
            .stdout(log);
        let host = self.host();
        let dockerd = command.spawn().expect("dockerd starts");
        let dockerd = self.dockerd.insert(dockerd);
        wait_until(CHANGE, "dockerd answers", || {
            // On a busy machine its helper may come too late for it.
            if dockerd.try_wait().is_ok_and(|ended| ended.is_some()) {
                *dockerd = command.spawn().expect("dockerd starts");
            }
            let mut docker = Command::new("docker");
            docker.args(["-H", &host, "version"]).stdout(Stdio::null());
            docker.stderr(Stdio::null());
            docker.status().is_ok_and(|status| status.success())
        });
    }

    /// The end of what it wrote about itself.
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(50).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Kills it on the spot. Containers go on without it.
    pub fn kill(&mut self) {
        if let Some(mut dockerd) = self.dockerd.take() {
            dockerd.kill().expect("it is ours");
            dockerd.wait().expect("it ends");
        }
    }

    /// Lets it hang: connections are taken, and nothing is answered.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Shuts it down; it ends its containers first.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        // Should it hang.
        self.thaw();
        if let Some(mut dockerd) = self.dockerd.take() {
            dockerd.wait().expect("it ends");
        }
    }

    /// Ends what an engine that was killed has left: the helper of each container, and what that started.
    fn end_helpers(&self) {
        let helpers = processes_with(&self.folder.display().to_string());
        let pids = helpers.iter().filter_map(|line| line.split(':').next());
        for pid in pids {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
            let tasks = tasks.into_iter().flatten().flatten();
            let started = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
            let started: String = started.flatten().collect();
            for pid in started.split_whitespace().chain([pid]) {
                let pid = pid.parse().ok().and_then(Pid::from_raw);
                // It may be over by now.
                let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(dockerd) = &self.dockerd {
            kill_process(Pid::from_child(dockerd), signal).expect("it is ours");
        }
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        self.stop();
        // One that was killed has left them.
        self.end_helpers();
        // With what an engine that was killed has mounted below.
        let mut umount = Command::new("umount");
        let _ = umount.arg("--lazy").arg(&self.folder).status();
    }
}
