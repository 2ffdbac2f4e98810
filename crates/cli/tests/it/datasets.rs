//! Datasets from git, and the lock file of a suite.

use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::context;

const TEST: &str = "if grep -qx hello greeting.txt; then echo 1; else echo 0; fi > \"$LOGS_DIR/verifier/reward.txt\"\n";

/// Commits a task directory below `sets` of the repository. The solution copies a symbolic link.
fn commit_task(context: &TestContext, name: &str, instruction: &str) -> String {
    let path = |file: &str| format!("sets/{name}/{file}");
    let files = [
        ("task.toml", "version = \"1.0\"\n"),
        ("instruction.md", instruction),
        (
            "environment/Dockerfile",
            "FROM a\nWORKDIR /app\nCOPY word ./\n",
        ),
        ("environment/word", "hello\n"),
        ("tests/test.sh", TEST),
        ("solution/solve.sh", "cp word greeting.txt\n"),
    ];
    let files = files.map(|(file, text)| (path(file), text));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
    context.repo().commit(name, &files)
}

fn suite(context: &TestContext, tasks: &Value) {
    let suite = json!({"agents": [{"type": "oracle"}], "sandbox": "local", "tasks": tasks});
    fs_err::write(context.root().join("suite.json"), suite.to_string()).unwrap();
}

fn proctor(context: &TestContext, args: &[&str]) -> Output {
    context.proctor(args.iter().copied()).run()
}

#[test]
fn dataset_is_pinned_and_its_changes_are_refused() {
    let context = context();
    commit_task(&context, "a", "Greet.\n");
    let first = commit_task(&context, "b", "Greet.\n");
    suite(
        &context,
        &json!([{"folder": "sets", "git": "./repo", "include": ["a", "b"]}]),
    );
    let output = proctor(&context, &["run", "suite.json"]);
    output.assert_code(2);
    assert!(
        output.stderr.contains("the commit of `HEAD` is not known"),
        "{output}"
    );
    assert!(output.stderr.contains("proctor task lock"), "{output}");

    let output = proctor(&context, &["task", "lock", "suite.json"]);
    output.assert_code(0);
    assert!(
        output.stdout.contains(&format!("./repo HEAD: {first}\n")),
        "{output}"
    );
    assert!(output.stdout.contains("a: new\nb: new\n"), "{output}");
    proctor(&context, &["run", "suite.json"]).assert_code(0);

    // A newer commit does not matter until the lock is updated.
    commit_task(&context, "a", "Greet again.\n");
    let second = commit_task(&context, "c", "Greet.\n");
    let output = proctor(&context, &["run", "suite.json"]);
    output.assert_code(0);
    let output = proctor(&context, &["task", "lock", "suite.json"]);
    output.assert_code(0);
    assert!(output.stdout.contains(&second), "{output}");
    assert!(output.stdout.contains("a: changed\n"), "{output}");
    assert!(
        output.stdout.contains("suite.lock: 2 tasks, 1 change\n"),
        "{output}"
    );

    // Files in the cache that were changed.
    let cached = context
        .root()
        .join("cache/proctor/datasets/*/*/sets/b/instruction.md");
    let found =
        proctor_record::fs::expand::expand(&cached, proctor_record::fs::expand::Hidden::Skipped);
    assert_eq!(found.len(), 2, "{found:?}");
    for path in found {
        fs_err::write(path, "Other.\n").unwrap();
    }
    let output = proctor(&context, &["run", "suite.json"]);
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("suite.lock: the tasks of the suite differ"),
        "{output}"
    );
    assert!(output.stderr.contains("b: changed"), "{output}");
    assert!(!output.stderr.contains("a: changed"), "{output}");
    context.assert_nothing_left("");
}

#[test]
fn lock_covers_tasks_of_folders() {
    let context = context();
    commit_task(&context, "a", "Greet.\n");
    suite(&context, &json!([{"folder": "repo/sets/*"}]));
    proctor(&context, &["task", "lock", "suite.json"]).assert_code(0);
    proctor(&context, &["validate", "suite.json"]).assert_code(0);
    commit_task(&context, "b", "Greet.\n");
    for command in ["validate", "run"] {
        let output = proctor(&context, &[command, "suite.json"]);
        output.assert_code(2);
        assert!(output.stderr.contains("b: new"), "{output}");
    }
}

#[test]
fn dataset_of_the_command_line_is_fetched() {
    let context = context();
    let first = commit_task(&context, "a", "Greet.\n");
    context.repo().git(["tag", "v1"]);
    commit_task(&context, "b", "Greet.\n");
    let url = format!("git+file://{}", context.repo().path());
    let run = |source: &str| {
        let args = ["run", source, "--agent", "oracle", "--sandbox", "local"];
        proctor(&context, &args)
    };
    run(&format!("{url}@v1#sets")).assert_code(0);
    let trials = context.root().join(".proctor/latest/trials/oracle");
    let names: Vec<String> = fs_err::read_dir(&trials)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["a"]);
    let suite = fs_err::read_to_string(context.root().join(".proctor/latest/suite.yaml"));
    assert!(suite.unwrap().contains(&first));
    let output = run(&format!("{url}@v2#sets"));
    output.assert_code(2);
    assert!(output.stderr.contains("`v2`"), "{output}");
    let output = run("git+file:///nowhere/at/all");
    output.assert_code(2);
    assert!(output.stderr.contains("does not exist"), "{output}");
}

#[test]
fn invalid_git_entries_are_refused_at_their_key() {
    let context = context();
    commit_task(&context, "a", "Greet.\n");
    for (entry, message) in [
        (
            json!({"folder": "sets", "ref": "v1"}),
            "`ref` has no effect without `git`",
        ),
        (
            json!({"folder": "sets", "git": "ftp://host/a"}),
            "not supported",
        ),
        (
            json!({"folder": "sets", "git": "https://a:b@host/a"}),
            "contains a password",
        ),
        (
            json!({"folder": "../sets", "git": "./repo"}),
            "must be a path in the repository",
        ),
        (
            json!({"folder": "sets", "git": "./repo", "ref": "-x"}),
            "must not start with `-`",
        ),
        (
            json!({"folder": "sets", "git": "./repo", "ref": "none"}),
            "no branch, tag or commit `none`",
        ),
        (
            json!({"folder": "other", "git": "./repo"}),
            "no tasks found in other",
        ),
    ] {
        suite(&context, &json!([entry]));
        let output = proctor(&context, &["task", "lock", "suite.json"]);
        output.assert_code(2);
        assert!(output.stderr.contains(message), "{entry}: {output}");
    }
}

#[test]
fn task_that_needs_other_hardware_does_not_affect_the_others() {
    let context = context();
    for name in ["gpu", "plain", "tpu", "windows"] {
        commit_task(&context, name, "Greet.\n");
    }
    for (name, line) in [
        ("gpu", "gpus = 1"),
        ("tpu", "tpu = {type = \"v4\", topology = \"2x2\"}"),
        ("windows", "os = \"windows\""),
    ] {
        let file = context.repo().path().join(format!("sets/{name}/task.toml"));
        fs_err::write(file, format!("[environment]\n{line}\n")).unwrap();
    }
    let sets = context.repo().path().join("sets");
    let run = ["run", sets.as_str(), "--agent", "oracle"];
    let output = proctor(&context, &[&run[..], &["--sandbox", "local"]].concat());
    output.assert_code(2);
    for message in ["`gpus`", "`tpu`", "Windows"] {
        assert!(output.stderr.contains(message), "{message}: {output}");
    }
    let record = ".proctor/latest/trials/oracle/plain/trial-1/artifacts/record.json";
    let record: Value =
        serde_json::from_slice(&fs_err::read(context.root().join(record)).unwrap()).unwrap();
    assert_eq!(record["status"], "passed", "{record:#}");
}
