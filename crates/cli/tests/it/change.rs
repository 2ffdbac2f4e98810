//! The agent's change (case 2): the difference to the starting point, independent of its git
//! operations.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{claude_case, context, install_claude, run, session, shell, with, write};

/// Lets an agent do this to the repository and returns the context of the run.
#[track_caller]
fn after(steps: &[Value]) -> TestContext {
    let context = context();
    context.repo().commit(
        "content",
        &[
            ("kept.txt", "one\ntwo\nthree\nfour\nfive\n"),
            (".gitignore", "target/\n"),
        ],
    );
    install_claude(&context, &session(steps));
    run(&context, &claude_case()).assert_code(0);
    context
}

fn changed_files(context: &TestContext) -> Vec<String> {
    let record = context.record();
    let files = &record["verdicts"][0]["metrics"]["changed_files"];
    let files = files.as_array().unwrap().iter();
    let mut files: Vec<String> = files
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    files.sort();
    files
}

fn patch(context: &TestContext) -> String {
    fs_err::read_to_string(context.artifact("git-diff.patch")).unwrap()
}

/// The patch, applied to what the agent was given, gives what it left.
#[track_caller]
fn assert_patch_reproduces(context: &TestContext, path: &str) {
    let repo = context.repo();
    repo.git([
        "apply",
        "--index",
        context.artifact("git-diff.patch").as_str(),
    ]);
    let applied = fs_err::read(repo.path().join(path)).unwrap();
    let left = fs_err::read(context.only_run_dir().join("src-modified").join(path)).unwrap();
    assert_eq!(applied, left);
}

#[test]
fn untouched_workspace_is_not_a_change() {
    let context = after(&[]);
    assert_eq!(context.record()["diff"]["files_changed"], 0);
    assert_eq!(patch(&context), "");
}

#[test]
fn work_counts_when_it_is_committed() {
    let context = after(&[
        write("new.txt", "a\n"),
        shell("git add -A && git -c user.name=a -c user.email=a@b commit -qm work"),
        write("later.txt", "b\n"),
        shell(
            "git checkout -q -b other && git add -A && git -c user.name=a -c user.email=a@b commit -qm more",
        ),
    ]);
    assert_eq!(changed_files(&context), ["later.txt", "new.txt"]);
    assert_patch_reproduces(&context, "later.txt");
}

#[test]
fn work_counts_when_it_is_staged_or_untracked() {
    let context = after(&[
        write("staged.txt", "a\n"),
        shell("git add staged.txt"),
        write("deep/er/untracked.txt", "b\n"),
        shell("rm kept.txt"),
    ]);
    assert_eq!(
        changed_files(&context),
        ["deep/er/untracked.txt", "kept.txt", "staged.txt"]
    );
    assert_eq!(context.record()["diff"]["lines_removed"], 5);
}

#[test]
fn a_renamed_file_is_one_change() {
    let context = after(&[shell("mv kept.txt moved.txt && echo six >> moved.txt")]);
    assert_eq!(changed_files(&context), ["moved.txt"]);
    assert!(patch(&context).contains("rename from kept.txt"));
    assert_eq!(context.record()["diff"]["lines_added"], 1);
}

#[test]
fn binary_files_survive_in_the_patch() {
    let context = after(&[shell(r"printf 'a\000\001\377b' > logo.bin")]);
    assert_eq!(changed_files(&context), ["logo.bin"]);
    assert_eq!(context.record()["diff"]["lines_added"], 0);
    assert_patch_reproduces(&context, "logo.bin");
}

#[test]
fn file_names_of_any_kind_are_preserved() {
    let context = after(&[
        write("with space.txt", "x\n"),
        write("-dash.txt", "x\n"),
        write("ünï\"quote.txt", "x\n"),
        write("tab\there.txt", "x\n"),
    ]);
    let files = changed_files(&context);
    assert!(files.contains(&"with space.txt".to_owned()), "{files:?}");
    assert!(files.contains(&"-dash.txt".to_owned()), "{files:?}");
    assert!(files.contains(&"ünï\"quote.txt".to_owned()), "{files:?}");
}

#[test]
fn ignored_build_output_is_left_out() {
    let context = after(&[write("target/debug/app", "binary"), write("src.txt", "x\n")]);
    assert_eq!(changed_files(&context), ["src.txt"]);
    let left = context.only_run_dir().join("src-modified/target/debug/app");
    assert!(left.exists(), "it is only left out of the diff");
}

#[test]
fn the_change_is_known_when_git_was_removed() {
    let context = after(&[write("new.txt", "a\n"), shell("rm -rf .git")]);
    assert_eq!(changed_files(&context), ["new.txt"]);
}

#[test]
fn change_is_known_after_git_init() {
    let context = after(&[
        write("new.txt", "a\n"),
        shell(
            "rm -rf .git && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm all",
        ),
    ]);
    assert_eq!(changed_files(&context), ["new.txt"]);
}

/// Git would take it for a mere link to a commit.
#[test]
fn a_repository_inside_the_workspace_counts_as_files() {
    let context = after(&[
        write("lib/inner.txt", "a\n"),
        shell(
            "cd lib && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm inner",
        ),
    ]);
    assert_eq!(changed_files(&context), ["lib/inner.txt"]);
    let notes = context.record()["notes"].to_string();
    assert!(notes.contains("lib/.git"), "{notes}");
    let left = context.only_run_dir().join("src-modified/lib/.git");
    assert!(left.exists(), "what the agent made stays");
}

/// Git would refuse to add anything at all.
#[test]
fn an_empty_repository_inside_the_workspace_hides_nothing() {
    let context = after(&[
        write("lib/inner.txt", "a\n"),
        shell("cd lib && git init -q"),
        write("zoo.txt", "z\n"),
    ]);
    assert_eq!(changed_files(&context), ["lib/inner.txt", "zoo.txt"]);
}

#[test]
fn the_agents_git_config_and_hooks_run_nothing() {
    let mark = "ran-by-git";
    let context = after(&[
        write("new.txt", "a\n"),
        shell(
            "printf '#!/bin/sh\\ntouch ran-by-git\\n' > .git/evil && chmod +x .git/evil
             git config core.fsmonitor \"$PWD/.git/evil\"
             git config diff.external \"$PWD/.git/evil\"
             git config filter.evil.clean \"$PWD/.git/evil\"
             echo '* filter=evil diff=evil' > .gitattributes
             git config diff.evil.textconv \"$PWD/.git/evil\"",
        ),
    ]);
    assert_eq!(changed_files(&context), [".gitattributes", "new.txt"]);
    let workspace = context.only_run_dir().join("src-modified");
    assert!(!workspace.join(mark).exists());
}

/// A change is compared with the commit that was checked out, or with `base_commit`.
#[test]
fn another_base_commit_can_be_compared_with() {
    let context = context();
    let first = context.repo().head();
    context.repo().commit("second", &[("second.txt", "x\n")]);
    install_claude(&context, &session(&[write("third.txt", "x\n")]));
    let evaluators = json!([
        "git-diff",
        {"name": "git-diff", "config": {"base_commit": first}},
    ]);
    let case = with(&claude_case(), &json!({"evaluators": evaluators}));
    run(&context, &case).assert_code(0);
    let record = context.record();
    let count = |at: usize| record["verdicts"][at]["metrics"]["files_changed"].clone();
    assert_eq!((count(0), count(1)), (json!(1), json!(2)));
}
