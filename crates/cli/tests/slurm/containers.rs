//! Jobs whose trials are in containers: what one of them uses is not taken from it, and what a dead one left is removed.

use std::time::Duration;

use camino::Utf8Path;
use proctor_testkit::{BUSYBOX, docker_host, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Rig, sleeper};

fn in_containers(seconds: u32) -> Option<(Rig, String)> {
    let host = docker_host()?;
    let more = json!({
        "trials": 1, "sandbox": {"type": "docker", "image": BUSYBOX}, "network": "none",
    });
    Some((Rig::new(&sleeper(seconds), &more)?, host))
}

/// The containers of this rig's runs.
fn containers(rig: &Rig, host: &str) -> Vec<String> {
    let format = "{{.ID}} {{.Label \"proctor.run\"}}";
    let args = ["-H", host, "ps", "--all", "--no-trunc", "--format", format];
    let docker = rig.context.program("docker".into(), args);
    let listed = docker.env("PATH", "/usr/local/bin:/usr/bin:/bin").run();
    let own = rig.context.root().as_str();
    let lines = listed.stdout.lines().filter(|line| line.contains(own));
    lines.map(str::to_owned).collect()
}

/// The process that has the first trial.
fn holder(run: &Utf8Path) -> Pid {
    let claim = fs_err::read_to_string(run.join("claims/agent/task/trial-1.1")).unwrap();
    let holder: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    let pid = i32::try_from(holder["pid"].as_u64().unwrap()).unwrap();
    Pid::from_raw(pid).unwrap()
}

#[test]
fn a_second_process_takes_no_container_from_the_first() {
    let Some((rig, host)) = in_containers(6) else {
        return;
    };
    let running = rig.run(&[]).env("DOCKER_HOST", &host).spawn();
    wait_until(Duration::from_mins(1), "a container is there", || {
        !containers(&rig, &host).is_empty()
    });
    let spec = rig.latest().join("cluster/trials/0.json");
    let again = rig.context.proctor(["trial", "--spec", spec.as_str()]);
    again.env("DOCKER_HOST", &host).run().assert_code(4);
    running.wait().assert_code(0);
    let records = rig.finished();
    assert_eq!(records[&1]["outcome"], "completed", "{records:?}");
    let folder = rig.latest().join("trials/agent/task");
    assert_eq!(folder.read_dir_utf8().unwrap().count(), 1, "one attempt");
    assert_eq!(containers(&rig, &host), Vec::<String>::new());
}

#[test]
fn the_container_of_a_job_that_was_killed_is_gone_when_the_run_ends() {
    let Some((rig, host)) = in_containers(3) else {
        return;
    };
    let running = rig.run(&[]).env("DOCKER_HOST", &host).spawn();
    wait_until(Duration::from_mins(1), "a container is there", || {
        !containers(&rig, &host).is_empty()
    });
    let before = containers(&rig, &host);
    kill_process(holder(&rig.latest()), Signal::KILL).unwrap();
    running.wait().assert_code(0);
    assert_eq!(rig.finished().len(), 1);
    let after = containers(&rig, &host);
    assert_eq!(after, Vec::<String>::new(), "before: {before:?}");
}
