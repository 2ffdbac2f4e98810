//! Odd workspaces in containers: the change is complete, and another user judges it.

use std::time::Duration;

use proctor_testkit::{BUSYBOX, odd};
use serde_json::{Value, json};

use super::{Rig, shell};

/// Lets a script be the agent on the repo at `branch`, and gives the record.
fn record_of(rig: &Rig, script: &str, branch: &str, judge: &str) -> Value {
    let image = json!({"sandbox": {"type": "docker", "image": BUSYBOX}, "keep_workspace": "all"});
    let path = rig.suite(
        &json!([shell("agent", &format!("set -e\n{script}"))]),
        &image,
    );
    let case = json!({
        "name": "odd", "description": "an odd workspace", "repo": rig.context.repo().path(), "branch": branch,
        "agent": {"type": "claude-code", "config": {"prompt": "work"}},
        "evaluators": ["git-diff", {"name": "command", "config": {"command": judge}}],
    });
    rig.context.testcase(&case.to_string());
    let run = rig.program(&path, &[]).deadline(Duration::from_mins(8));
    run.run().assert_code(0);
    rig.assert_tidy();
    rig.record("agent")
}

#[test]
fn odd_links_and_names_are_in_the_change_of_a_container() {
    for and_then in ["", "rm -rf .git", "rm -rf .git; echo garbage > .git"] {
        let Some(rig) = Rig::new() else { return };
        odd::commit_odd(rig.context.repo());
        let script = format!("{}{and_then}", odd::CHANGES);
        record_of(&rig, &script, "main", odd::JUDGE);
        let trial = rig.trial("agent");
        let left = trial.join("src-modified");
        odd::assert_patch_is_complete(rig.context.repo(), &trial.join("diff.patch"), &left);
    }
}

#[test]
fn many_files_of_another_user_are_worked_on_in_a_container() {
    let Some(rig) = Rig::new() else { return };
    odd::commit_many(rig.context.repo(), 50_000);
    if rustix::process::geteuid().is_root() {
        let repo = rig.context.repo().path();
        let other = rig
            .context
            .program("chown".into(), ["-R", "12345", repo.as_str()]);
        other.run().assert_code(0);
    }
    let script =
        "echo changed >> d0/f0.txt; rm d1/f1.txt; echo new > d2/new.txt; chmod 600 d2/new.txt";
    let judge = "test \"$(find . -name 'f*.txt' | wc -l)\" = 49999 && grep -qx new d2/new.txt";
    let record = record_of(&rig, script, "many", judge);
    assert_eq!(record["diff"]["files_changed"], 3, "{record:#}");
}
