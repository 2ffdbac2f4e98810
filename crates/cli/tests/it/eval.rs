//! `proctor eval`: work that is done already is judged, and nothing of it is touched.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use camino::Utf8Path;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use super::support::{context, last_record};

/// Every file below a folder: its bytes, its mode and when it was changed.
fn snapshot(folder: &Utf8Path) -> BTreeMap<String, (Vec<u8>, u32, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let path = entry.path();
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            all.extend(snapshot(path));
            all.insert(
                path.to_string(),
                (Vec::new(), about.mode(), about.mtime(), about.mtime_nsec()),
            );
        } else {
            let bytes = fs_err::read(path).unwrap();
            all.insert(
                path.to_string(),
                (bytes, about.mode(), about.mtime(), about.mtime_nsec()),
            );
        }
    }
    all
}

fn write_eval(context: &TestContext, more: &Value) -> String {
    let mut eval = json!({
        "name": "done", "description": "work that is done", "directory": "../repo",
        "evaluators": [
            {"name": "git-diff", "config": {"assertions": {"max_files_changed": 3}}},
            {"name": "command", "config": {"command": "grep -q good staged.txt && echo x > README.md"}},
        ],
    });
    let members = eval.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let path = context.root().join("cases/eval.json");
    fs_err::write(&path, eval.to_string()).unwrap();
    path.into_string()
}

/// Staged, changed, untracked, ignored, and a repository within: all that can be moved by accident.
fn make_work(context: &TestContext) {
    let repo = context.repo();
    repo.commit(
        "more",
        &[(".gitignore", "ignored\n"), ("code.txt", "old\n")],
    );
    let path = repo.path();
    fs_err::write(path.join("staged.txt"), "good\n").unwrap();
    repo.git(["add", "staged.txt"]);
    fs_err::write(path.join("code.txt"), "new\n").unwrap();
    fs_err::write(path.join("untracked.txt"), "mine\n").unwrap();
    fs_err::write(path.join("ignored"), "junk\n").unwrap();
    let inner = path.join("inner");
    fs_err::create_dir(&inner).unwrap();
    proctor_testkit::Repo::init(&inner);
}

#[test]
fn eval_does_not_change_tree_or_index() {
    let context = context();
    make_work(&context);
    let repo = context.repo().path().to_owned();
    let status = context
        .repo()
        .git(["--no-optional-locks", "status", "--porcelain"]);
    let before = snapshot(&repo);
    let more = json!({"evaluators": [
        {"name": "git-diff", "config": {"assertions": {"max_files_changed": 4}}},
        {"name": "command", "config": {"command": "grep -q good staged.txt && echo x > README.md"}},
    ]});
    let file = write_eval(&context, &more);
    let output = context.proctor(["eval", "-c", &file]).run();
    output.assert_code(0);
    let after = snapshot(&repo);
    let changed: Vec<_> = after
        .iter()
        .filter(|(path, what)| before.get(*path) != Some(what))
        .collect();
    assert!(
        changed.is_empty() && before.len() == after.len(),
        "{changed:?}"
    );
    let again = context
        .repo()
        .git(["--no-optional-locks", "status", "--porcelain"]);
    assert_eq!(status, again);
    let record = last_record(&context);
    assert_eq!(record["status"], "passed", "{record:#}");
    // code.txt, staged.txt, untracked.txt and the file of the repository within.
    assert_eq!(record["diff"]["files_changed"], 4, "{record:#}");
    let names = &record["verdicts"][0]["metrics"]["changed_files"];
    assert!(!names.to_string().contains("ignored"), "{names}");
    context.assert_nothing_left("");
}

#[test]
fn dir_option_takes_precedence_over_the_file() {
    let context = context();
    let file = write_eval(&context, &json!({}));
    context.proctor(["eval", "-c", &file]).run().assert_code(1);
    let other = context.root().join("other");
    fs_err::create_dir(&other).unwrap();
    fs_err::write(other.join("staged.txt"), "good\n").unwrap();
    context
        .proctor(["eval", "-c", &file, "--dir", "other"])
        .run()
        .assert_code(0);
    // Without a repository everything in it is new.
    assert_eq!(last_record(&context)["diff"]["files_changed"], 1);
    let nowhere = context
        .proctor(["eval", "-c", &file, "--dir", "nowhere"])
        .run();
    nowhere.assert_code(2);
    assert!(
        nowhere.stderr.contains("is not a directory"),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn work_is_compared_with_a_base_and_with_a_directory_that_is_as_it_should_be() {
    let context = context();
    let base = context.repo().head();
    context
        .repo()
        .commit("work", &[("staged.txt", "good\n"), ("b.txt", "b\n")]);
    let expected = context.root().join("expected");
    fs_err::create_dir(&expected).unwrap();
    for (name, text) in [
        ("README.md", "# Fixture\n"),
        ("staged.txt", "good\n"),
        ("b.txt", "b\n"),
    ] {
        fs_err::write(expected.join(name), text).unwrap();
    }
    let more =
        json!({"base": base, "expected_directory": "../expected", "evaluators": ["expected-diff"]});
    let file = write_eval(&context, &more);
    context.proctor(["eval", "-c", &file]).run().assert_code(0);
    let record = last_record(&context);
    assert_eq!(record["diff"]["files_changed"], 2);
    assert_eq!(
        record["verdicts"][0]["metrics"]["aggregate_similarity"],
        1.0
    );
}

#[test]
fn results_do_not_go_into_the_directory_that_is_judged() {
    let context = context();
    let file = write_eval(
        &context,
        &json!({"directory": "..", "evaluators": ["git-diff"], "output_dir": "out"}),
    );
    let refused = context.proctor(["eval", "-c", &file]).run();
    refused.assert_code(2);
    assert!(
        refused
            .stderr
            .contains("`output_dir` is inside the directory to judge"),
        "{}",
        refused.stderr
    );
    // Where it would be the usual place, another is found.
    let repo = context.repo().path().to_owned();
    let before = snapshot(&repo);
    let eval = write_eval(
        &context,
        &json!({"evaluators": ["git-diff"], "post_evaluation": [
            {"name": "database", "config": {"type": "json-file", "output_path": "../all.json"}},
        ]}),
    );
    let line = format!(
        "cd {repo} && {} eval -c {eval}",
        env!("CARGO_BIN_EXE_proctor")
    );
    context
        .program("/bin/sh".into(), ["-c", &line])
        .run()
        .assert_code(0);
    assert_eq!(snapshot(&repo), before);
    assert!(context.root().join("cache/proctor/evals").is_dir());
    assert!(context.root().join("all.json").is_file(), "hooks run too");
}
