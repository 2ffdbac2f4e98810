//! Trials that go well: all of them, in as many jobs at a time as was asked for, and one process each.

use std::time::Duration;

use proctor_testkit::{Cluster, Terminal, TestContext, wait_until};
use serde_json::json;

use crate::support::{Rig, sleeper, waiter};

#[test]
fn two_hundred_trials_have_one_record_each() {
    let null = json!({"name": "floor", "type": "null"});
    let Some(rig) = Rig::new(&null, &json!({"trials": 200, "parallel": 24})) else {
        return;
    };
    let output = rig.run(&["--json"]).run();
    output.assert_code(0);
    let summary: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"].as_array().unwrap().len(), 200);
    assert_eq!(rig.finished().len(), 200);
    let folder = rig.latest().join("trials/floor/task");
    assert_eq!(folder.read_dir_utf8().unwrap().count(), 200, "no attempts");
    let specs = rig.latest().join("cluster/trials");
    assert_eq!(specs.read_dir_utf8().unwrap().count(), 200);
    let jobs = fs_err::read_to_string(rig.latest().join("cluster/jobs.ndjson")).unwrap();
    assert_eq!(jobs.lines().count(), 1, "one shape is one array: {jobs}");
}

#[test]
fn parallel_limits_concurrent_trials() {
    let Some(rig) = Rig::new(&sleeper(4), &json!({"trials": 8, "parallel": 3})) else {
        return;
    };
    rig.run(&[]).run().assert_code(0);
    let records = rig.finished();
    assert_eq!(records.len(), 8);
    let time = |record: &serde_json::Value, key: &str| {
        record[key]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let most = records.values().map(|one| {
        let at = time(one, "started_at");
        let is_there = |other: &&serde_json::Value| {
            time(other, "started_at") <= at && at < time(other, "completed_at")
        };
        records.values().filter(is_there).count()
    });
    assert_eq!(most.max(), Some(3));
}

#[test]
fn a_trial_that_is_started_twice_is_run_once() {
    let Some(cluster) = Cluster::find() else {
        return;
    };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let (agent, go) = waiter(&context);
    let rig = Rig::of(cluster, context, &agent, &json!({"trials": 1}));
    let running = rig.run(&[]).spawn();
    let results = rig.context.root().join(".proctor/latest");
    wait_until(Duration::from_mins(1), "the trial begins", || {
        results.join("trials/agent/task/trial-1/artifacts").exists()
    });
    let spec = rig.latest().join("cluster/trials/0.json");
    let again = || {
        rig.context
            .proctor(["trial", "--spec", spec.as_str()])
            .run()
    };
    let second = again();
    second.assert_code(4);
    assert!(
        second.stdout.contains("holds the lease of this trial"),
        "{second:?}"
    );
    assert!(second.stdout.contains("job slurm"), "{second:?}");
    go();
    running.wait().assert_code(0);
    let third = again();
    third.assert_code(0);
    assert!(third.stdout.contains("already has a record"), "{third:?}");
    let elsewhere = rig.context.root().join("elsewhere");
    let args = [
        "trial",
        "--spec",
        spec.as_str(),
        "--out",
        elsewhere.as_str(),
    ];
    rig.context.proctor(args).run().assert_code(0);
    assert!(elsewhere.join("artifacts/record.json").exists());
}

#[test]
fn detached_run_continues_and_is_resumed() {
    let Some(rig) = Rig::new(&sleeper(3), &json!({"trials": 6, "parallel": 2})) else {
        return;
    };
    let running = rig.run(&["--on-interrupt", "detach"]).spawn();
    wait_until(Duration::from_mins(1), "a trial ends", || {
        !rig.finished().is_empty()
    });
    running.signal(rustix::process::Signal::INT);
    let left = running.wait();
    left.assert_code(130);
    assert!(left.stderr.contains("jobs keep running"), "{left:?}");
    let before = rig.finished();
    let latest = rig.latest();
    let status = rig.context.proctor(["status", latest.as_str(), "--json"]);
    let status = rig.cluster.on(status).run();
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let queue = ["running", "pending"].map(|state| status["queue"][state].as_u64().unwrap());
    assert!(queue.iter().sum::<u64>() > 0, "{status}");
    wait_until(Duration::from_mins(1), "another trial ends", || {
        rig.finished().len() > before.len()
    });
    rig.run(&["--resume"]).run().assert_code(0);
    let after = rig.finished();
    assert_eq!(after.len(), 6);
    for (trial, record) in before {
        assert_eq!(after[&trial], record, "it was not run again");
    }
}

#[test]
fn a_run_whose_jobs_all_wait_is_not_removed() {
    let more = json!({"trials": 2, "executor": {"type": "slurm", "args": ["--hold"]}});
    let Some(rig) = Rig::new(&sleeper(1), &more) else {
        return;
    };
    let running = rig.run(&["--on-interrupt", "detach"]).spawn();
    let jobs = rig
        .context
        .root()
        .join(".proctor/latest/cluster/jobs.ndjson");
    wait_until(Duration::from_mins(1), "it has jobs", || jobs.exists());
    running.signal(rustix::process::Signal::INT);
    running.wait().assert_code(130);
    let latest = rig.latest();
    let clean = || {
        let clean = rig.context.proctor(["clean", latest.as_str()]);
        rig.cluster.on(clean).run()
    };
    let refused = clean();
    refused.assert_code(2);
    assert!(refused.stderr.contains("is running"), "{refused:?}");
    rig.cluster.ask("scancel", &["--name", &rig.jobs()]);
    wait_until(Duration::from_secs(30), "all jobs are gone", || {
        clean().code == Some(0)
    });
    assert!(!latest.exists());
}

#[test]
fn cancelled_run_leaves_no_job_and_can_be_resumed() {
    let Some(rig) = Rig::new(&sleeper(3), &json!({"trials": 5, "parallel": 2})) else {
        return;
    };
    let running = rig.run(&["--on-interrupt", "cancel"]).spawn();
    wait_until(Duration::from_mins(1), "a trial ends", || {
        !rig.finished().is_empty()
    });
    running.signal(rustix::process::Signal::INT);
    running.wait().assert_code(130);
    let jobs = rig.jobs();
    wait_until(Duration::from_secs(30), "all jobs are gone", || {
        rig.cluster.count(&jobs, "PENDING,RUNNING,COMPLETING") == 0
    });
    assert!(rig.finished().len() < 5);
    rig.run(&["--resume"]).run().assert_code(0);
    assert_eq!(rig.finished().len(), 5);
}

#[test]
fn ctrl_c_prompts_whether_to_cancel_jobs_tmux() {
    let Some(rig) = Rig::new(&sleeper(3), &json!({"trials": 6, "parallel": 1})) else {
        return;
    };
    let context = &rig.context;
    let env = [rig.cluster.env()];
    let words = format!("run '{}' --progress plain", rig.suite);
    let test = "the question at Ctrl-C";
    let Some(terminal) = Terminal::open(context, test, &env, &words) else {
        return;
    };
    wait_until(Duration::from_mins(1), "a trial ends", || {
        !rig.finished().is_empty()
    });
    let question = "cancel the jobs of this run (c), or keep them running (Enter)?";
    terminal.press(&["C-c"]);
    terminal.sees(question);
    terminal.press(&["Enter"]);
    terminal.is_given_back(130);
    let jobs = rig.jobs();
    let left = || rig.cluster.count(&jobs, "PENDING,RUNNING");
    assert!(left() > 0, "jobs go on");
    drop(terminal);

    let words = format!("run '{}' --resume --progress plain", rig.suite);
    let terminal = Terminal::open(context, test, &env, &words).unwrap();
    terminal.sees("trial");
    terminal.press(&["C-c"]);
    terminal.sees(question);
    terminal.press(&["c", "Enter"]);
    terminal.is_given_back(130);
    wait_until(Duration::from_secs(30), "all jobs are gone", || {
        rig.cluster.count(&jobs, "PENDING,RUNNING,COMPLETING") == 0
    });
    assert!(rig.finished().len() < 6);
}

#[test]
fn all_trials_start_from_the_commit_that_the_branch_meant_when_the_run_began() {
    let Some(rig) = Rig::new(&sleeper(1), &json!({"trials": 4, "parallel": 1})) else {
        return;
    };
    let running = rig.run(&["--progress", "plain"]).spawn();
    wait_until(Duration::from_mins(1), "a trial ends", || {
        !rig.finished().is_empty()
    });
    rig.context
        .repo()
        .commit("the branch moves on", &[("new", "")]);
    let output = running.wait();
    output.assert_code(0);
    // The head reports trials on other nodes from the files on disk.
    assert_eq!(
        output.stderr.matches("passed   agent on task").count(),
        4,
        "{output:?}"
    );
    let records = rig.finished();
    let commits = records
        .values()
        .map(|record| record["task"]["commit"].as_str().unwrap());
    let commits: std::collections::BTreeSet<&str> = commits.collect();
    assert_eq!(commits.len(), 1, "{commits:?}");
    assert_eq!(records.len(), 4);
}
