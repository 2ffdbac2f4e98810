//! Which workspaces are kept whole, and what the diff restores when they are not.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, TestContext, odd};
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite, two_agents},
    support::{context, run as run_case, with},
};

/// Runs the suite; gives the folder of the run.
fn run_suite(context: &TestContext, path: &Utf8Path, args: &[&str]) -> Utf8PathBuf {
    let all = ["run", path.as_str()].into_iter();
    let output: Output = context.proctor(all.chain(args.iter().copied())).run();
    assert!(matches!(output.code, Some(0 | 1)), "{output}");
    context.root().join(".proctor/latest")
}

/// A suite of one task in which a shell script is the agent.
fn suite_of_script(context: &TestContext, script: &str, judge: &str, more: &Value) -> Utf8PathBuf {
    let agents =
        json!([{"name": "agent", "type": "command", "config": {"command": ["sh", "-ec", script]}}]);
    let path = suite(context, &agents, &json!({}));
    let case = json!({
        "name": "task", "description": "work", "repo": context.repo().path(),
        "agent": {"type": "null", "config": {"prompt": "work"}},
        "evaluators": ["git-diff", {"name": "command", "config": {"command": judge}}],
    });
    let file = context.root().join("suite/task.json");
    fs_err::write(file, with(&case, more).to_string()).unwrap();
    let tasks = with(
        &json_of(&path),
        &json!({"tasks": [{"testcase": "task.json"}]}),
    );
    fs_err::write(&path, tasks.to_string()).unwrap();
    path
}

fn record_in(trial: &Utf8Path) -> Value {
    json_of(&trial.join("artifacts/record.json"))
}

/// Asserts that judging again, from the diff, gives the same status.
#[track_caller]
fn assert_rescored(context: &TestContext, run: &Utf8Path, trial: &Utf8Path) {
    let before = record_in(trial);
    let output = context.proctor(["rescore", run.as_str(), "--json"]).run();
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary[0]["not_judged"], json!([]), "{output}");
    let after = record_in(trial);
    assert_eq!(after["status"], before["status"], "{after:#}");
    assert_eq!(after["history"].as_array().unwrap().len(), 1);
}

fn files_below(folder: &Utf8Path, names: &mut Vec<Utf8PathBuf>) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files_below(entry.path(), names);
        } else {
            names.push(entry.into_path());
        }
    }
}

#[test]
fn a_null_trial_of_a_suite_leaves_at_most_12_files() {
    let context = context();
    for number in 0..100 {
        let name = format!("file{number}.txt");
        fs_err::write(context.repo().path().join(name), "text\n").unwrap();
    }
    context.repo().commit("files", &[]);
    let agents = json!([{"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({}));
    let count = |trials: &str| {
        let run = run_suite(&context, &path, &["--task", "one", "--trials", trials]);
        let mut files = Vec::new();
        files_below(&run.canonicalize_utf8().unwrap(), &mut files);
        files
    };
    let (one, five) = (count("1"), count("5"));
    // Files that a run has only once are ignored.
    let each = (five.len() - one.len()) / 4;
    assert!(each <= 12, "{each} files for each trial: {one:#?}");
}

#[test]
fn a_suite_keeps_a_diff_that_restores_odd_files() {
    let context = context();
    odd::commit_odd(context.repo());
    let script = format!(
        "{}\n: > empty; rm README.md; printf '\\000\\001' > bytes.bin",
        odd::CHANGES
    );
    let judge = format!(
        "{} && test -e empty && test ! -s empty && test ! -e README.md && test -s bytes.bin",
        odd::JUDGE
    );
    let path = suite_of_script(&context, &script, &judge, &json!({}));
    let run = run_suite(&context, &path, &[]);
    let trial = run.join("trials/agent/task/trial-1");
    let record = record_in(&trial);
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["notes"], json!([]));
    assert!(!trial.join("src-modified").exists());
    assert_rescored(&context, &run, &trial);
}

#[test]
fn a_workspace_that_the_diff_cannot_restore_is_kept_with_a_note() {
    let context = context();
    let path = suite_of_script(
        &context,
        "truncate -s 101M big; echo x > small",
        "true",
        &json!({}),
    );
    let run = run_suite(&context, &path, &[]);
    let trial = run.join("trials/agent/task/trial-1");
    assert!(trial.join("src-modified/big").exists());
    let notes = record_in(&trial)["notes"].to_string();
    let expected = "the complete workspace is kept: big is too large for a diff";
    assert!(notes.contains(expected), "{notes}");
    let run = run_suite(&context, &path, &["--keep-workspace", "none"]);
    let trial = run.join("trials/agent/task/trial-1");
    assert!(!trial.join("src-modified").exists());
}

#[test]
fn keep_workspace_says_which_workspaces_are_kept() {
    let context = context();
    let judge = json!([{"name": "command", "config": {"command": "test -e new.txt"}}]);
    let kept = |more: &Value, args: &[&str]| -> Vec<bool> {
        let path = suite(&context, &two_agents(&context), more);
        let case = context.root().join("suite/cases/one.json");
        let case_text = with(&json_of(&case), &json!({"evaluators": judge}));
        fs_err::write(case, case_text.to_string()).unwrap();
        let args = [&["--task", "one"], args].concat();
        let trials = run_suite(&context, &path, &args).join("trials");
        let workspace = |agent: &str| trials.join(agent).join("one/trial-1/src-modified");
        ["writer", "floor"]
            .map(|agent| workspace(agent).exists())
            .to_vec()
    };
    let none = json!({});
    assert_eq!(kept(&none, &[]), [false, false]);
    assert_eq!(kept(&json!({"keep_workspace": "all"}), &[]), [true, true]);
    assert_eq!(
        kept(&json!({"keep_workspace": "failed"}), &[]),
        [false, true]
    );
    assert_eq!(
        kept(&json!({"keep_workspace": "none"}), &[]),
        [false, false]
    );
    assert_eq!(
        kept(
            &json!({"keep_workspace": "none"}),
            &["--keep-workspace", "all"]
        ),
        [true, true]
    );
    assert_eq!(
        kept(&json!({"keep_workspace": "all"}), &["--delete-workspace"]),
        [false, false]
    );
    fs_err::write(
        context.root().join(".youbencharc"),
        "keep_workspace: failed\n",
    )
    .unwrap();
    assert_eq!(kept(&none, &[]), [false, true]);
    fs_err::write(
        context.root().join(".youbencharc"),
        "keep_workspace: true\n",
    )
    .unwrap();
    assert_eq!(kept(&none, &[]), [true, true]);
}

#[test]
fn a_test_case_keeps_its_workspace_unless_settings_say_otherwise() {
    let context = context();
    let case = json!({
        "name": "task", "description": "work", "repo": context.repo().path(), "evaluators": ["git-diff"],
        "agent": {"type": "command", "config": {"command": ["true"], "prompt": "work"}},
    });
    run_case(&context, &case).assert_code(0);
    let kept = |run: &Utf8PathBuf| run.join("src-modified").exists();
    assert!(context.run_dirs().iter().all(kept));
    fs_err::write(
        context.root().join(".youbencharc"),
        "keep_workspace: false\n",
    )
    .unwrap();
    run_case(&context, &case).assert_code(0);
    assert_eq!(context.run_dirs().iter().filter(|run| kept(run)).count(), 1);
}

#[test]
fn hooks_after_judging_see_the_workspace_that_is_not_kept() {
    let context = context();
    let saved = context.root().join("saved.txt");
    let hook = format!("cp \"$WORKSPACE_DIR/src-modified/new.txt\" {saved}");
    let more = json!({"post_evaluation": [{"name": "script", "config": {"command": hook}}]});
    let path = suite_of_script(&context, "echo new > new.txt", "true", &more);
    let run = run_suite(&context, &path, &[]);
    assert_eq!(fs_err::read_to_string(saved).unwrap(), "new\n");
    assert!(!run.join("trials/agent/task/trial-1/src-modified").exists());
}
