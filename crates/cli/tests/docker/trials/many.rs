//! Many trials at once, and runs that are killed.

use std::time::Duration;

use proctor_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Rig, find, shell};

/// How the finished trials of the latest run ended.
fn outcomes(rig: &Rig) -> Vec<Value> {
    let trials = rig.context.root().join("results/latest/trials");
    let records = find(&trials, "record.json").into_iter();
    let records = records.filter(|path| !path.as_str().contains("attempt"));
    let read = |path| -> Option<Value> { serde_json::from_slice(&fs_err::read(path).ok()?).ok() };
    records
        .filter_map(read)
        .map(|record| record["outcome"].clone())
        .collect()
}

#[test]
fn many_trials_at_once_leave_nothing() {
    let Some(rig) = Rig::new() else { return };
    let path = rig.suite(&json!([{"name": "floor", "type": "null"}]), &json!({}));
    let args = ["--trials", "40", "--parallel", "8"];
    let program = rig.program(&path, &args);
    let output = program.deadline(Duration::from_mins(10)).run();
    output.assert_code(1);
    rig.assert_tidy();
    let outcomes = outcomes(&rig);
    assert_eq!(outcomes.len(), 40);
    assert!(
        outcomes.iter().all(|outcome| outcome == "completed"),
        "{outcomes:?}"
    );
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
            rig.context.root().join("results/latest").exists()
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
