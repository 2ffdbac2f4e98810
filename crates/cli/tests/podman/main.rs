//! podman instead of Docker: how it is found, started and stopped. The Docker tests cover
//! containers, and `scripts/test all` runs them with podman as well. podman serves its API on Linux
//! only.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::time::Duration;

use camino::Utf8PathBuf;
use proctor_testkit::{BUSYBOX, Podman, Program, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Long enough for a container on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// A suite of one agent on a machine where `DOCKER_HOST` says nothing.
struct Rig {
    context: TestContext,
    podman: Podman,
}

impl Rig {
    /// None, with a line that says so, without podman.
    fn new() -> Option<Rig> {
        let podman = Podman::in_dockers_place()?;
        let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        Some(Rig { context, podman })
    }

    /// Runs an agent that is this script.
    fn run(&self, script: &str) -> Program {
        self.write(script, &json!({}));
        self.podman.on(self.context.proctor(["run", "suite.yaml"]))
    }

    /// Writes a suite of an agent that is this script, with what else it says.
    fn write(&self, script: &str, more: &Value) {
        let root = self.context.root();
        let case = json!({
            "name": "greet", "description": "a greeting", "repo": self.context.repo().path(),
            "agent": {"type": "claude-code", "config": {"prompt": "greet"}},
            "evaluators": [{"name": "command", "config": {"command": "grep -qx hello greeting.txt"}}],
        });
        self.context.testcase(&case.to_string());
        let agent = json!({"name": "agent", "type": "command", "config": {"command": ["sh", "-c", script]}});
        let mut suite = json!({
            "agents": [agent], "tasks": [{"testcase": "cases/testcase.yaml"}],
            "sandbox": {"type": "docker", "image": BUSYBOX}, "network": "none",
        });
        let members = suite.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        fs_err::write(root.join("suite.yaml"), suite.to_string()).unwrap();
    }

    fn trial(&self) -> Utf8PathBuf {
        let trials = self.context.root().join(".proctor/latest/trials/agent");
        trials.join("greet/trial-1")
    }

    fn record(&self) -> Value {
        let path = self.trial().join("artifacts/record.json");
        serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
    }

    /// Whether the agent has printed something.
    fn agent_works(&self) -> bool {
        let raw = self.trial().join("artifacts/raw/stdout");
        fs_err::read(raw).is_ok_and(|bytes| !bytes.is_empty())
    }

    /// The containers of this context's runs.
    fn containers(&self) -> Vec<String> {
        self.context.containers(&self.podman.host())
    }

    /// No container, no process and no temporary folder is there.
    #[track_caller]
    fn assert_tidy(&self) {
        assert_eq!(self.containers(), Vec::<String>::new());
        self.context.assert_nothing_left("");
        let tmp = self.context.root().join("tmp");
        let left: Vec<_> = tmp.read_dir_utf8().unwrap().flatten().collect();
        assert!(left.is_empty(), "left in the temporary folder: {left:?}");
    }

    #[track_caller]
    fn assert_passed_with_podman(&self) {
        let record = self.record();
        assert_eq!(record["status"], "passed", "{record:#}");
        let engine = &record["sandbox"]["engine"];
        assert_eq!(engine["name"], "podman", "{record:#}");
        let version = engine["version"].as_str().unwrap();
        assert!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{version}"
        );
    }
}

#[test]
fn podman_is_started_for_the_run_if_no_engine_listens() {
    let Some(rig) = Rig::new() else { return };
    let done = rig.run("echo hello > greeting.txt").run();
    done.assert_code(0);
    rig.assert_passed_with_podman();
    rig.assert_tidy();
}

#[test]
fn a_podman_that_listens_is_taken_and_doctor_says_so() {
    let Some(rig) = Rig::new() else { return };
    let folder = rig.context.root().join("runtime/podman");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::os::unix::fs::symlink(rig.podman.socket(), folder.join("podman.sock")).unwrap();
    let runtime = rig.context.root().join("runtime");
    let done = rig.run("echo hello > greeting.txt");
    done.env("XDG_RUNTIME_DIR", &runtime).run().assert_code(0);
    rig.assert_passed_with_podman();
    rig.assert_tidy();
    let doctor = rig.context.proctor(["doctor", "--json"]);
    let reported = doctor.env("XDG_RUNTIME_DIR", &runtime).run();
    let findings: Value = serde_json::from_str(&reported.assert_code(3).stdout).unwrap();
    let mut findings = findings.as_array().unwrap().iter();
    let podman = findings
        .find(|finding| finding["name"] == "podman")
        .unwrap();
    let containers = podman["containers"].as_str().unwrap();
    assert!(
        containers.ends_with(&format!("at unix://{folder}/podman.sock")),
        "{containers}"
    );
}

#[test]
fn a_run_that_is_cancelled_leaves_neither_containers_nor_podman() {
    let Some(rig) = Rig::new() else { return };
    let running = rig.run("echo at work; sleep 600").spawn();
    wait_until(SOON, "the agent works", || rig.agent_works());
    running.signal(Signal::INT);
    running.wait().assert_code(130);
    assert_eq!(rig.record()["outcome"], "interrupted");
    rig.assert_tidy();
}

/// Helpers of its containers write a file into the folder of its service then.
#[test]
fn out_of_memory_leaves_no_file_outside_of_the_run() {
    let Some(rig) = Rig::new() else { return };
    let script = "tail /dev/zero; echo hello > greeting.txt";
    rig.write(script, &json!({"limits": {"memory": "64m"}}));
    let run = rig.podman.on(rig.context.proctor(["run", "suite.yaml"]));
    run.run();
    let record = rig.record();
    assert_eq!(record["sandbox"]["oom_kills"], 1, "{record:#}");
    for folder in ["/", rig.context.root().as_str()] {
        let file = Utf8PathBuf::from(folder).join("oom");
        assert!(!file.exists(), "{file}");
    }
    rig.assert_tidy();
}

/// A podman service started for a run ends with it in any case; the next run removes the container.
#[test]
fn killed_run_stops_podman_and_next_run_removes_leftovers() {
    let Some(rig) = Rig::new() else { return };
    let running = rig.run("echo at work; sleep 600").spawn();
    wait_until(SOON, "the agent works", || rig.agent_works());
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    let own = rig.context.root().as_str();
    wait_until(SOON, "podman and the agent are dead", || {
        proctor_testkit::processes_with(own).is_empty()
    });
    rig.run("echo hello > greeting.txt").run().assert_code(0);
    rig.assert_passed_with_podman();
    assert_eq!(rig.containers(), Vec::<String>::new());
}

/// Everything of this test as a user who may do almost nothing, as people are on the nodes of a cluster.
#[test]
fn a_user_without_rights_has_trials_in_containers_too() {
    let Some(rig) = Rig::new() else { return };
    let Some(user) = rig.podman.user() else {
        return;
    };
    let root = rig.context.root();
    // Where builds lie, a user may not be let in.
    let own = root.join("bin/proctor");
    fs_err::copy(rig.context.binary(), &own).unwrap();
    rig.write("id -u; echo hello > greeting.txt", &json!({}));
    let chown = ["-R", user.as_str(), root.as_str()];
    let chown = rig.context.program("/bin/chown".into(), chown);
    chown.run().assert_code(0);
    let home = format!("~{user}");
    let find = rig
        .context
        .program("/bin/bash".into(), ["-c", &format!("echo {home}")]);
    let home = find.run().stdout.trim().to_owned();
    let as_user = |args: &[&str]| {
        let [user_id, group_id] = ["reuid", "regid"].map(|which| format!("--{which}={user}"));
        let who = [
            user_id.as_str(),
            group_id.as_str(),
            "--clear-groups",
            own.as_str(),
        ];
        let all = who.into_iter().chain(args.iter().copied());
        let program = rig.context.program("/usr/bin/setpriv".into(), all);
        program
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", root.join("tmp"))
            .run()
    };
    as_user(&["run", "suite.yaml"]).assert_code(0);
    rig.assert_passed_with_podman();
    let printed = fs_err::read_to_string(rig.trial().join("artifacts/raw/stdout")).unwrap();
    let me = rig
        .context
        .program("/usr/bin/id".into(), ["-u", &user])
        .run();
    assert_eq!(printed, me.stdout, "inside it is who it is outside");
    let peak = &rig.record()["sandbox"]["peak_memory_bytes"];
    assert!(
        peak.is_null() || peak.as_u64() < Some(1_000_000_000),
        "{peak} is not of this container"
    );
    rig.context.assert_nothing_left("");

    // Control groups of the new kind bound what a user's containers take; on those of the old kind it is refused.
    rig.write(
        "echo hello > greeting.txt",
        &json!({"limits": {"memory": "100m"}}),
    );
    let limited = as_user(&["run", "suite.yaml"]);
    let record = rig.record();
    if limited.code == Some(0) {
        assert_eq!(record["sandbox"]["limits"]["memory_bytes"], 104_857_600);
    } else {
        limited.assert_code(3);
        assert_eq!(record["outcome"], "sandbox", "{record:#}");
        let error = record["errors"][0]["message"].as_str().unwrap();
        assert!(error.contains("cannot use cgroups of version 1"), "{error}");
    }
    rig.context.assert_nothing_left("");
}
