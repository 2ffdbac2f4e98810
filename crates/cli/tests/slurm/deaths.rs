//! What dies in mid-run: the daemon of a node, the head.

use std::time::Duration;

use proctor_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Rig, sleeper};

#[test]
fn the_trials_of_a_node_that_dies_are_run_elsewhere_and_have_one_record_each() {
    // Longer than it takes until the controller gives a node up.
    let Some(rig) = Rig::new(&sleeper(20), &json!({"trials": 12, "parallel": 12})) else {
        return;
    };
    let running = rig.run(&[]).spawn();
    let results = rig.context.root().join("results/latest");
    wait_until(Duration::from_mins(1), "trials run", || {
        results.exists() && rig.cluster.count(&rig.jobs(), "RUNNING") >= 6
    });
    rig.cluster.kill_node("node2");
    let output = running.wait();
    rig.cluster.start_node("node2");
    output.assert_code(0);
    assert_eq!(rig.finished().len(), 12);
    let claims = rig.latest().join("claims/agent/task");
    let claims = claims.read_dir_utf8().unwrap().flatten();
    let restarts = claims.map(|claim| {
        let text = fs_err::read_to_string(claim.path()).unwrap();
        let holder: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        holder["job"]["restarts"].as_u64().unwrap()
    });
    assert!(restarts.sum::<u64>() > 0, "none was run elsewhere");
    // Others may use it at once; a star would say that it does not answer.
    wait_until(Duration::from_mins(3), "the node is back", || {
        let states = rig.cluster.ask("sinfo", &["-h", "-n", "node2", "-o", "%T"]);
        ["idle", "mixed", "allocated", "completing"].contains(&states.trim())
    });
}

#[test]
fn a_head_that_is_killed_is_followed_by_another() {
    let Some(rig) = Rig::new(&sleeper(2), &json!({"trials": 12, "parallel": 3})) else {
        return;
    };
    let running = rig.run(&[]).spawn();
    wait_until(Duration::from_mins(1), "two trials end", || {
        rig.finished().len() >= 2
    });
    running.signal(Signal::KILL);
    running.wait();
    let before = rig.finished();
    let jobs = rig.jobs();
    assert!(
        rig.cluster.count(&jobs, "PENDING,RUNNING") > 0,
        "jobs go on"
    );
    let second = rig.run(&["--resume"]).spawn();
    wait_until(Duration::from_mins(2), "two more end", || {
        rig.finished().len() >= before.len() + 2
    });
    second.signal(Signal::KILL);
    second.wait();
    rig.run(&["--resume"]).run().assert_code(0);
    let after = rig.finished();
    assert_eq!(after.len(), 12);
    for (trial, record) in before {
        assert_eq!(after[&trial], record, "it was not run again");
    }
    let folder = rig.latest().join("trials/agent/task");
    assert_eq!(
        folder.read_dir_utf8().unwrap().count(),
        12,
        "none was run twice"
    );
}
