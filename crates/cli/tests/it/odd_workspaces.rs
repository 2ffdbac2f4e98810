//! Workspaces with all that is odd: the change is whole, and it is judged.

use std::time::Duration;

use proctor_testkit::{TestContext, odd};
use serde_json::{Value, json};

use crate::support::context;

/// Lets a script be the agent on the repo at `branch`, and gives the record.
#[track_caller]
fn record_of(context: &TestContext, script: &str, branch: &str, judge: &str) -> Value {
    let case = json!({
        "name": "odd", "description": "an odd workspace", "repo": context.repo().path(), "branch": branch,
        "agent": {"type": "command", "config": {"command": ["sh", "-ec", script], "prompt": "work"}},
        "evaluators": ["git-diff", {"name": "command", "config": {"command": judge}}],
    });
    let path = context.testcase(&case.to_string());
    let run = context.proctor(["run", "-c", path.as_str()]);
    run.deadline(Duration::from_mins(4)).run().assert_code(0);
    context.record()
}

fn changed_files(record: &Value) -> Vec<&str> {
    let files = record["verdicts"][0]["metrics"]["changed_files"].as_array();
    let names = files
        .unwrap()
        .iter()
        .filter_map(|file| file["path"].as_str());
    names.collect()
}

#[track_caller]
fn assert_change_is_whole(and_then: &str) {
    let context = context();
    odd::commit_odd(context.repo());
    let script = format!("{}{and_then}", odd::CHANGES);
    let record = record_of(&context, &script, "main", odd::JUDGE);
    assert_eq!(record["outcome"], "completed", "{record:#}");
    let left = context.only_run_dir().join("src-modified");
    let patch = context.artifact("git-diff.patch");
    odd::assert_patch_is_complete(context.repo(), &patch, &left);
}

#[test]
fn odd_links_and_names_are_in_the_change() {
    assert_change_is_whole("");
}

#[test]
fn odd_links_and_names_are_in_the_change_without_a_repository() {
    assert_change_is_whole("rm -rf .git");
}

#[test]
fn odd_links_and_names_are_in_the_change_when_the_repository_became_a_file() {
    assert_change_is_whole("rm -rf .git; echo garbage > .git");
}

#[test]
fn odd_links_and_names_are_in_the_change_when_git_points_elsewhere() {
    assert_change_is_whole("rm -rf .git; echo gitdir: /nonexistent > .git");
}

#[test]
fn odd_links_and_names_are_in_the_change_when_the_repository_became_a_link() {
    assert_change_is_whole("rm -rf .git; ln -s /etc .git");
}

/// Git by itself sees nothing below a place that is known as a submodule.
#[test]
fn files_in_the_place_of_a_submodule_count() {
    for init in ["", "git init -q vendor/lib;"] {
        let context = context();
        odd::commit_submodule(context.repo());
        let script = format!("{init} echo int x\\; > vendor/lib/new.c; echo y > other.txt");
        let record = record_of(&context, &script, "main", "grep -q int vendor/lib/new.c");
        let files = changed_files(&record);
        assert!(files.contains(&"vendor/lib/new.c"), "{files:?}");
        assert!(files.contains(&"other.txt"), "{files:?}");
        let notes = record["notes"].to_string();
        assert!(notes.contains("at the path of a submodule"), "{notes}");
    }
}

#[test]
fn untouched_submodule_is_not_a_change() {
    let context = context();
    odd::commit_submodule(context.repo());
    let record = record_of(&context, "echo y > other.txt", "main", "test -d vendor/lib");
    assert_eq!(changed_files(&record), ["other.txt"]);
}

#[test]
fn a_workspace_of_fifty_thousand_files_is_compared() {
    let context = context();
    odd::commit_many(context.repo(), 50_000);
    let script = "echo changed >> d0/f0.txt; rm d1/f1.txt; echo new > d2/new.txt";
    let judge = "test \"$(find . -name 'f*.txt' | wc -l)\" = 49999";
    let record = record_of(&context, script, "many", judge);
    assert_eq!(
        changed_files(&record),
        ["d0/f0.txt", "d1/f1.txt", "d2/new.txt"]
    );
}

/// Only root can change the owner of files.
#[test]
fn files_of_other_users_are_read_and_compared() {
    if !rustix::process::geteuid().is_root() {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests are configured by the environment"
        )]
        let is_ci = std::env::var_os("CI").is_some();
        assert!(!is_ci, "this test must run as root");
        eprintln!(
            "SKIPPED files_of_other_users_are_read_and_compared: only root can change the owner of files"
        );
        return;
    }
    let context = context();
    let other = context.program(
        "chown".into(),
        ["-R", "12345:12345", context.repo().path().as_str()],
    );
    other.run().assert_code(0);
    let script = "echo x > new.txt; chown 23456 new.txt README.md; chmod 600 new.txt";
    let record = record_of(&context, script, "main", "grep -qx x new.txt");
    assert_eq!(changed_files(&record), ["new.txt"]);
}
