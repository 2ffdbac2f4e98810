//! Jobs whose trials are in containers: what one of them uses is not taken from it, and what a dead one left is removed.

use std::time::Duration;

use camino::Utf8Path;
use proctor_testkit::{BUSYBOX, Podman, docker_host, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Rig, sleeper};

fn in_containers(seconds: u32) -> Option<(Rig, String)> {
    let host = docker_host()?;
    Some((rig(seconds, 1)?, host))
}

fn rig(seconds: u32, trials: u32) -> Option<Rig> {
    let more = json!({
        "trials": trials, "sandbox": {"type": "docker", "image": BUSYBOX}, "network": "none",
    });
    Rig::new(&sleeper(seconds), &more)
}

/// The process that has the first trial.
fn holder(run: &Utf8Path) -> Pid {
    let claim = fs_err::read_to_string(run.join("claims/agent/task/trial-1.1")).unwrap();
    let holder: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    let pid = i32::try_from(holder["pid"].as_u64().unwrap()).unwrap();
    Pid::from_raw(pid).unwrap()
}

#[test]
fn second_process_keeps_containers_of_the_first() {
    let Some((rig, host)) = in_containers(15) else {
        return;
    };
    let running = rig.run(&[]).env("DOCKER_HOST", &host).spawn();
    wait_until(Duration::from_mins(1), "a container is there", || {
        !rig.context.containers(&host).is_empty()
    });
    let spec = rig.latest().join("cluster/trials/0.json");
    let again = rig.context.proctor(["trial", "--spec", spec.as_str()]);
    again.env("DOCKER_HOST", &host).run().assert_code(4);
    running.wait().assert_code(0);
    let records = rig.finished();
    assert_eq!(records[&1]["outcome"], "completed", "{records:?}");
    let folder = rig.latest().join("trials/agent/task");
    assert_eq!(folder.read_dir_utf8().unwrap().count(), 1, "one attempt");
    assert_eq!(rig.context.containers(&host), Vec::<String>::new());
}

#[test]
fn container_of_a_killed_job_is_removed_with_the_run() {
    let Some((rig, host)) = in_containers(8) else {
        return;
    };
    let running = rig.run(&[]).env("DOCKER_HOST", &host).spawn();
    wait_until(Duration::from_mins(1), "a container is there", || {
        !rig.context.containers(&host).is_empty()
    });
    let before = rig.context.containers(&host);
    kill_process(holder(&rig.latest()), Signal::KILL).unwrap();
    running.wait().assert_code(0);
    assert_eq!(rig.finished().len(), 1);
    let after = rig.context.containers(&host);
    assert_eq!(after, Vec::<String>::new(), "before: {before:?}");
}

/// The script comes from the suite's folder, which all nodes see; the real key stays on the head.
#[test]
fn a_script_runs_in_the_container_of_a_job_without_the_real_key() {
    const CANARY: &str = "sk-ant-canary-13572468";
    let Some(host) = docker_host() else { return };
    let agent = json!({"name": "agent", "type": "adapter", "config": {
        "adapter": "./tools/run.sh", "env": {"OWN": "Bearer ${ANTHROPIC_API_KEY}"},
    }});
    let more = json!({
        "trials": 1, "sandbox": {"type": "docker", "image": BUSYBOX}, "gateway": {},
        "executor": {"type": "slurm", "memory": "200m", "gateway": "head", "address": "localhost"},
    });
    let Some(rig) = Rig::new(&agent, &more) else {
        return;
    };
    let tools = rig.context.root().join("tools");
    fs_err::create_dir(&tools).unwrap();
    let script = ". \"$(dirname \"$0\")/helper.sh\"; env; help\n";
    fs_err::write(tools.join("run.sh"), script).unwrap();
    fs_err::write(
        tools.join("helper.sh"),
        "help() { echo done > done.txt; }\n",
    )
    .unwrap();
    let run = rig.run(&[]).env("DOCKER_HOST", &host);
    let run = run.env("ANTHROPIC_API_KEY", CANARY);
    run.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .run()
        .assert_code(0);
    let records = rig.finished();
    assert_eq!(records[&1]["diff"]["files_changed"], 1, "{records:#?}");
    let trial = rig.latest().join("trials/agent/task/trial-1");
    let printed = fs_err::read_to_string(trial.join("artifacts/raw/stdout")).unwrap();
    let key = printed
        .lines()
        .find_map(|line| line.strip_prefix("OWN=Bearer "));
    assert!(
        key.is_some_and(|key| key.starts_with("sk-ant-proctor-")),
        "{printed}"
    );
    assert!(!printed.contains(CANARY), "{printed}");
    assert_eq!(rig.context.containers(&host), Vec::<String>::new());
}

#[test]
fn nodes_without_docker_start_podman_for_a_trial_and_end_it_with_the_trial() {
    let Some(podman) = Podman::in_dockers_place() else {
        return;
    };
    let Some(rig) = rig(1, 4) else { return };
    podman.on(rig.run(&[])).run().assert_code(0);
    let records = rig.finished();
    assert_eq!(records.len(), 4);
    for record in records.values() {
        assert_eq!(record["outcome"], "completed", "{record:#}");
        assert_eq!(record["sandbox"]["engine"]["name"], "podman", "{record:#}");
    }
    assert_eq!(rig.context.containers(&podman.host()), Vec::<String>::new());
    rig.context.assert_nothing_left("");
}
