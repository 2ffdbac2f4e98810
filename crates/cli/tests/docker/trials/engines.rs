//! Several engines share the trials of a suite; one of them dies.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use proctor_testkit::{BUSYBOX, Output, PrivateEngine, TestContext, docker_host, wait_until};
use serde_json::{Value, json};

use super::elsewhere::{SshServer, over_tcp};

/// The records of the run's trials, those of earlier attempts left out.
fn records(context: &TestContext) -> Vec<Value> {
    let folder = context.root().join(".proctor/latest/trials/floor/task");
    let trials = folder.read_dir_utf8().into_iter().flatten().flatten();
    let trials = trials.filter(|trial| !trial.file_name().contains("attempt"));
    let records = trials.filter_map(|trial| {
        let bytes = fs_err::read(trial.path().join("artifacts/record.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    });
    records.collect()
}

/// How many finished trials of the run each engine has, by its address.
fn shares(context: &TestContext) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for record in records(context) {
        if record["outcome"] == "completed" && record["completed_at"].is_string() {
            let engine = record["sandbox"]["address"].as_str().unwrap();
            *shares.entry(engine.to_owned()).or_default() += 1;
        }
    }
    shares
}

/// Every trial passed; else those that did not are shown, with what these engines say.
#[track_caller]
fn assert_passed(context: &TestContext, output: &Output, engines: &[&PrivateEngine]) {
    let mut records = records(context);
    records.retain(|record| record["status"] != "passed");
    let logs: Vec<String> = engines.iter().map(|engine| engine.log()).collect();
    let logs = logs.join("\n---\n");
    assert_eq!(output.code, Some(0), "{output:?} {records:#?}\n{logs}");
}

fn finished(context: &TestContext) -> usize {
    shares(context).values().sum()
}

/// A suite of null trials on engines.
fn suite(context: &TestContext, trials: usize, hosts: [&str; 2]) -> Utf8PathBuf {
    let case = json!({
        "name": "task", "description": "in containers", "repo": context.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "do it"}},
        "evaluators": ["git-diff", {"name": "command", "config": {"command": "sleep 0.3"}}],
    });
    fs_err::write(context.root().join("case.json"), case.to_string()).unwrap();
    let suite = json!({
        "agents": [{"name": "floor", "type": "null"}], "tasks": [{"testcase": "case.json"}],
        "trials": trials, "parallel": 8,
        "sandbox": {"type": "docker", "image": BUSYBOX}, "network": "none",
        "executor": {"type": "docker", "hosts": hosts},
    });
    let path = context.root().join("suite.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

/// Asks an engine by its own client.
#[expect(clippy::disallowed_methods, reason = "it ends before it is answered")]
fn docker(host: &str, args: &[&str]) -> std::process::Output {
    let mut client = std::process::Command::new("docker");
    client.args(["-H", host]).args(args).output().unwrap()
}

#[test]
fn a_hundred_trials_are_shared_by_two_engines_and_finished_by_one() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(first) = PrivateEngine::start(one.path()) else {
        return;
    };
    let Some(mut second) = PrivateEngine::start(other.path()) else {
        return;
    };
    // Missing images are sent to it.
    let removed = docker(&second.host(), &["rmi", BUSYBOX]);
    assert!(removed.status.success(), "{removed:?}");
    let context = TestContext::in_memory(env!("CARGO_BIN_EXE_proctor"));
    let path = suite(&context, 100, [&first.host(), &second.host()]);
    let running = context
        .proctor(["run", path.as_str(), "--no-tui"])
        .deadline(Duration::from_mins(7))
        .spawn();
    // The first does many while the second still takes the image.
    wait_until(Duration::from_mins(2), "both have a share", || {
        shares(&context).len() == 2
    });
    let image = docker(&second.host(), &["image", "inspect", BUSYBOX]);
    assert!(image.status.success(), "the image was sent");
    second.kill();
    let before = shares(&context);
    assert!(
        finished(&context) < 100,
        "it died during the run: {before:?}"
    );
    assert_passed(&context, &running.wait(), &[&first, &second]);
    assert_eq!(finished(&context), 100);
}

#[test]
fn trials_of_an_engine_that_hangs_are_done_by_another() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(first) = PrivateEngine::start(one.path()) else {
        return;
    };
    let Some(second) = PrivateEngine::start(other.path()) else {
        return;
    };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let path = suite(&context, 12, [&first.host(), &second.host()]);
    let run = || {
        let program = context.proctor(["run", path.as_str(), "--no-tui"]);
        program.deadline(Duration::from_mins(4))
    };
    let running = run().spawn();
    wait_until(Duration::from_mins(1), "the second is at work", || {
        !docker(&second.host(), &["ps", "--quiet"]).stdout.is_empty()
    });
    second.freeze();
    let output = running.wait();
    assert_passed(&context, &output, &[&first, &second]);
    let lost = format!("{}: lost during the run", second.host());
    assert!(output.stderr.contains(&lost), "{output:?}");
    assert_eq!(finished(&context), 12);
    // Its containers are removed when it is available again.
    second.thaw();
    assert_passed(&context, &run().run(), &[&first, &second]);
    assert_eq!(shares(&context).len(), 2);
    for engine in [&first, &second] {
        assert_eq!(context.containers(&engine.host()), Vec::<String>::new());
    }
}

#[test]
fn an_engine_that_is_unavailable_is_reported_and_images_come_from_the_local_one() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = PrivateEngine::start(folder.path()) else {
        return;
    };
    let removed = docker(&first.host(), &["rmi", BUSYBOX]);
    assert!(removed.status.success(), "{removed:?}");
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let away = format!("unix://{}", folder.path().join("away.sock").display());
    let run = |hosts: [&str; 2]| {
        let path = suite(&context, 2, hosts);
        let program = context.proctor(["run", path.as_str(), "--no-tui"]);
        program.env("DOCKER_HOST", docker_host().unwrap()).run()
    };
    let output = run([&away, &first.host()]);
    assert_passed(&context, &output, &[&first]);
    assert!(output.stderr.contains(&away), "{output:?}");
    assert_eq!(finished(&context), 2);
    let output = run([&away, &away]);
    assert_ne!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains(&away), "{output:?}");
}

#[test]
fn tcp_and_ssh_engines_share_trials_and_receive_images() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let Some(first) = PrivateEngine::start(folders[0].path()) else {
        return;
    };
    let Some(second) = PrivateEngine::start(folders[1].path()) else {
        return;
    };
    let removed = docker(&second.host(), &["rmi", BUSYBOX]);
    assert!(removed.status.success(), "{removed:?}");
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let server = SshServer::start(&context);
    let hosts = [over_tcp(&first.host()), server.before(&second.host())];
    let path = suite(&context, 12, [&hosts[0], &hosts[1]]);
    let program = context.proctor(["run", path.as_str(), "--no-tui"]);
    let output = program.deadline(Duration::from_mins(4)).run();
    assert_passed(&context, &output, &[&first, &second]);
    let shares = shares(&context);
    assert_eq!(shares.values().sum::<usize>(), 12, "{shares:?}");
    let kinds = shares.keys().map(|engine| &engine[..6]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["ssh://", "tcp://"]);
    for engine in [&first, &second] {
        let left = docker(&engine.host(), &["ps", "--all", "--quiet"]);
        assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    }
    context.assert_nothing_left("");
}
