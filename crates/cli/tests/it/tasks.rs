//! `proctor task check`: a task is proved by who does nothing and by its reference solution.

use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{claude_case, context, with};

const SOLUTION: &str = "diff --git a/answer.txt b/answer.txt\nnew file mode 100644\n--- /dev/null\n+++ b/answer.txt\n@@ -0,0 +1 @@\n+42\n";

/// A task that asks for a file, judged by this command.
fn check(context: &TestContext, command: &str, more: &Value) -> Output {
    let evaluators = json!([{"name": "command", "config": {"command": command}}]);
    let case = json!({"name": "task", "reference": "solution.patch", "evaluators": evaluators});
    let file = context.testcase(&with(&with(&claude_case(), &case), more).to_string());
    let folder = file.parent().unwrap();
    fs_err::write(folder.join("solution.patch"), SOLUTION).unwrap();
    context
        .proctor(["task", "check", file.as_str(), "--times", "4"])
        .run()
}

#[test]
fn valid_task_passes_the_check() {
    let context = context();
    let output = check(&context, "grep -q 42 answer.txt", &json!({}));
    output.assert_code(0);
    assert_eq!(
        output.stdout,
        "task: ok (the null agent failed 4 of 4, the reference solution passed 4 of 4)\n"
    );
    assert!(
        context.run_dirs().is_empty(),
        "a check leaves nothing behind"
    );
    context.assert_nothing_left("");
}

/// Case 3: a task that is passed by doing nothing says nothing about agents.
#[test]
fn a_task_that_nothing_passes_is_broken() {
    let context = context();
    let output = check(&context, "true", &json!({}));
    output.assert_code(1);
    assert!(
        output
            .stdout
            .contains("the null agent does not fail the task: command: `sh -c true` passed"),
        "{output}"
    );
}

#[test]
fn a_task_whose_solution_fails_is_broken() {
    let context = context();
    let output = check(&context, "grep -q 43 answer.txt", &json!({}));
    output.assert_code(1);
    assert!(
        output
            .stdout
            .contains("the reference solution does not pass the task"),
        "{output}"
    );
}

#[test]
fn a_task_that_passes_only_now_and_then_is_flaky() {
    let context = context();
    let count = context.root().join("count");
    let now_and_then =
        format!("test -e answer.txt && echo x >> {count} && test $(wc -l < {count}) -ne 2");
    let output = check(&context, &now_and_then, &json!({}));
    output.assert_code(1);
    assert!(
        output
            .stdout
            .contains("flaky: 1 of 4 trials of the reference solution"),
        "{output}"
    );
}

#[test]
fn a_task_without_a_solution_is_not_proved() {
    let context = context();
    let output = check(
        &context,
        "grep -q 42 answer.txt",
        &json!({"reference": null}),
    );
    output.assert_code(1);
    assert!(
        output.stdout.contains("the task has no reference solution"),
        "{output}"
    );
}

/// Doing nothing fails every example, and the reference solution passes it. The example of Thunderdome has a test of
/// its own.
#[test]
fn examples_are_sound() {
    let context = context();
    let examples = camino::Utf8Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let copy = ["-r", examples.as_str(), context.root().as_str()];
    context.program("/bin/cp".into(), copy).run().assert_code(0);
    // The limits of `git-diff` are gates. The tasks of the quickstart have no reference solution.
    for (example, floor, ceiling) in [
        ("quickstart/proctor.yaml", 0.0, None),
        ("suite/proctor.yaml", 0.0, Some(1.0)),
        ("bench/proctor.yaml", 0.0, Some(1.0)),
    ] {
        let path = context.root().join("examples").join(example);
        let check = ["task", "check", path.as_str(), "--times", "1", "--json"];
        let output = context.proctor(check).run();
        output.assert_code(i32::from(ceiling.is_none()));
        let checked: Value = serde_json::from_str(&output.stdout).unwrap();
        let tasks = checked.as_array().unwrap();
        assert!(!tasks.is_empty(), "{output}");
        for task in tasks {
            assert_eq!(
                task["ceiling_score"].as_f64(),
                ceiling,
                "{example}: {task:#}"
            );
            assert_eq!(task["floor_score"], floor, "{example}: {task:#}");
        }
    }
}
