//! Many trials at once, and runs that are killed.

use std::time::Duration;

use camino::Utf8PathBuf;
use proctor_testkit::{BUSYBOX, Kills, Start, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Rig, find, shell};

/// How the finished trials of the latest run ended.
fn outcomes(rig: &Rig) -> Vec<Value> {
    let trials = rig.context.root().join(".proctor/latest/trials");
    let records = find(&trials, "record.json").into_iter();
    let records = records.filter(|path| !path.as_str().contains("attempt"));
    let read = |path| -> Option<Value> { serde_json::from_slice(&fs_err::read(path).ok()?).ok() };
    records
        .filter_map(read)
        .map(|record| record["outcome"].clone())
        .collect()
}

/// A suite of this agent whose trials are as quick as trials in containers can be.
fn quick_suite(rig: &Rig, agent: &Value, more: &Value) -> Utf8PathBuf {
    let image = json!({"sandbox": {"type": "docker", "image": BUSYBOX}});
    let path = rig.suite(&json!([agent]), &merged(more, &image));
    let case = json!({
        "name": "quick", "description": "nothing to speak of", "repo": rig.context.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "work"}}, "evaluators": ["git-diff"],
    });
    rig.context.testcase(&case.to_string());
    path
}

fn merged(one: &Value, other: &Value) -> Value {
    let both = [one, other].map(|value| value.as_object().unwrap().clone());
    Value::Object(both.into_iter().flatten().collect())
}

/// Networks and volumes that bear a label of this context's runs.
fn labelled(rig: &Rig, what: &str) -> Vec<String> {
    let format = "{{.Name}} {{.Labels}}";
    let listed = rig.docker(&[
        what,
        "ls",
        "--filter",
        "label=proctor.run",
        "--format",
        format,
    ]);
    let own = listed
        .lines()
        .filter(|line| line.contains(rig.context.root().as_str()));
    own.map(str::to_owned).collect()
}

/// How many files a running trial may hold open, and how many the run itself.
const FILES_OF_A_TRIAL: usize = 16;
const FILES_OF_A_RUN: usize = 64;

#[test]
fn two_hundred_trials_sixteen_at_a_time_leave_nothing() {
    let Some(rig) = Rig::new() else { return };
    let path = quick_suite(&rig, &json!({"name": "floor", "type": "null"}), &json!({}));
    let program = rig.program(&path, &["--trials", "200", "--parallel", "16"]);
    let mut running = program.deadline(Duration::from_mins(4)).spawn();
    let files = format!("/proc/{}/fd", running.pid().as_raw_pid());
    let mut most = 0;
    while running.is_running() {
        // It may end between the two.
        let open = std::fs::read_dir(&files).map_or(0, Iterator::count);
        most = most.max(open);
        std::thread::sleep(Duration::from_millis(50));
    }
    running.wait().assert_code(0);
    rig.assert_tidy();
    for what in ["network", "volume"] {
        assert_eq!(labelled(&rig, what), Vec::<String>::new());
    }
    assert!(
        most <= FILES_OF_A_RUN + 16 * FILES_OF_A_TRIAL,
        "{most} open files"
    );
    let outcomes = outcomes(&rig);
    assert_eq!(outcomes.len(), 200);
    assert!(
        outcomes.iter().all(|outcome| outcome == "completed"),
        "{outcomes:?}"
    );
}

#[test]
fn a_run_in_containers_that_is_killed_at_ten_instants_loses_nothing_and_leaves_nothing() {
    let Some(rig) = Rig::new() else { return };
    let agent = shell("writer", "echo hello > greeting.txt");
    let path = quick_suite(&rig, &agent, &json!({"trials": 8, "parallel": 4}));
    let kills = Kills {
        count: 10,
        seed: 20_240_229,
        within: Duration::from_millis(2500),
    };
    kills.survive(&rig.context.root().join(".proctor"), |start| {
        let resume: &[&str] = match start {
            Start::Fresh => &[],
            Start::Resume => &["--resume"],
        };
        rig.program(&path, resume).deadline(Duration::from_mins(3))
    });
    rig.assert_tidy();
}

#[test]
fn a_killed_run_is_resumed_and_its_containers_are_swept() {
    let Some(rig) = Rig::new() else { return };
    let agents = json!([shell("writer", "echo hello > greeting.txt; sleep 2")]);
    let path = rig.suite(&agents, &json!({"trials": 6, "parallel": 2}));
    let running = rig.program(&path, &[]).spawn();
    wait_until(
        Duration::from_mins(1),
        "a trial is over and one runs",
        || {
            rig.context.root().join(".proctor/latest").exists()
                && !outcomes(&rig).is_empty()
                && !rig.containers().is_empty()
        },
    );
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    rig.program(&path, &["--resume"]).run().assert_code(0);
    rig.assert_tidy();
    let outcomes = outcomes(&rig);
    assert_eq!(outcomes.len(), 6);
    assert!(
        outcomes.iter().all(|outcome| outcome == "completed"),
        "{outcomes:?}"
    );
}
