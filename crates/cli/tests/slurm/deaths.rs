//! Deaths during a run: the daemon of a node, the head.

use std::time::Duration;

use camino::Utf8Path;
use proctor_testkit::{Cluster, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Rig, sleeper, waiter};

/// How often Slurm had started the jobs again that have claimed trials of a run.
fn restarts(run: &Utf8Path) -> u64 {
    let claims = run.join("claims/agent/task").read_dir_utf8();
    let restarts = claims.into_iter().flatten().flatten().map(|claim| {
        let text = fs_err::read_to_string(claim.path()).unwrap_or_default();
        let holder: Value = serde_json::from_str(text.lines().next()?).ok()?;
        holder["job"]["restarts"].as_u64()
    });
    restarts.flatten().sum()
}

#[test]
fn trials_of_a_dead_node_run_elsewhere_with_one_record_each() {
    let Some(cluster) = Cluster::find() else {
        return;
    };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let (agent, go) = waiter(&context);
    let rig = Rig::of(
        cluster,
        context,
        &agent,
        &json!({"trials": 12, "parallel": 12}),
    );
    let running = rig.run(&[]).deadline(Duration::from_mins(7)).spawn();
    let results = rig.context.root().join(".proctor/latest");
    wait_until(Duration::from_mins(1), "trials run on the node", || {
        let args = ["-h", "-w", "node2", "-t", "RUNNING"];
        let here = || rig.cluster.ask("squeue", &args).lines().count();
        results.join("claims/agent/task/trial-12.1").exists() && here() > 0
    });
    rig.cluster.kill_node("node2");
    // Slurm needs half a minute to declare the node down, and delays a requeued job by the `cred_expire` of scripts/slurm.
    wait_until(Duration::from_mins(5), "they are started elsewhere", || {
        restarts(&results) > 0
    });
    go();
    let output = running.wait();
    rig.cluster.start_node("node2");
    output.assert_code(0);
    assert_eq!(rig.finished().len(), 12);
    // Others may use it at once; a star would say that it does not answer.
    wait_until(Duration::from_mins(3), "the node is back", || {
        let states = rig.cluster.ask("sinfo", &["-h", "-n", "node2", "-o", "%T"]);
        ["idle", "mixed", "allocated", "completing"].contains(&states.trim())
    });
}

#[test]
fn killed_coordinator_is_replaced_by_another() {
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
