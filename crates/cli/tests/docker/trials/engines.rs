//! Several engines share the trials of a suite; one of them dies.

use std::time::Duration;

use proctor_testkit::{BUSYBOX, PrivateEngine, TestContext, wait_until};
use serde_json::{Value, json};

/// The finished records of the run, by the engine's share of them.
fn finished(context: &TestContext) -> usize {
    let folder = context.root().join("results/latest/trials/floor/task");
    let trials = folder.read_dir_utf8().into_iter().flatten().flatten();
    let is_whole = |path: &camino::Utf8Path| {
        let bytes = fs_err::read(path.join("artifacts/record.json")).unwrap_or_default();
        let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        record["outcome"] == "completed" && record["completed_at"].is_string()
    };
    let trials = trials.filter(|trial| !trial.file_name().contains("attempt"));
    trials.filter(|trial| is_whole(trial.path())).count()
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
    // What it lacks it is sent.
    let removed = docker(&second.host(), &["rmi", BUSYBOX]);
    assert!(removed.status.success(), "{removed:?}");
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let case = json!({
        "name": "task", "description": "in containers", "repo": context.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "do it"}},
        "evaluators": ["git-diff", {"name": "command", "config": {"command": "sleep 0.3"}}],
    });
    fs_err::write(context.root().join("case.json"), case.to_string()).unwrap();
    let suite = json!({
        "agents": [{"name": "floor", "type": "null"}], "tasks": [{"testcase": "case.json"}],
        "trials": 100, "parallel": 8,
        "sandbox": {"type": "docker", "image": BUSYBOX}, "network": "none",
        "executor": {"type": "docker", "hosts": [first.host(), second.host()]},
    });
    let path = context.root().join("suite.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    let running = context
        .proctor(["run", path.as_str(), "--no-tui"])
        .deadline(Duration::from_mins(4))
        .spawn();
    wait_until(Duration::from_mins(2), "some trials have ended", || {
        finished(&context) >= 10
    });
    let image = docker(&second.host(), &["image", "inspect", BUSYBOX]);
    assert!(image.status.success(), "the image was sent");
    second.kill();
    assert!(finished(&context) < 100, "it died in mid-run");
    running.wait().assert_code(0);
    assert_eq!(finished(&context), 100);
}
