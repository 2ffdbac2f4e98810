//! `init`, `doctor --fix` and `self check`.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{command_case, context, install_claude, write_case};

const TEST: &str =
    "import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        pass\n";

/// Reads a file of the repository.
fn text(context: &TestContext, name: &str) -> String {
    fs_err::read_to_string(context.repo().path().join(name)).unwrap()
}

#[test]
fn init_detects_the_agent_and_the_tests() {
    let context = context();
    context.repo().commit("Start", &[("test_one.py", TEST)]);
    context.install_fake("codex", &json!([]));
    let init = |args: &[&str]| {
        let args = ["init"].iter().chain(args).copied();
        context
            .proctor(args)
            .current_dir(context.repo().path())
            .run()
    };
    let output = init(&[]);
    output.assert_code(0);
    assert!(output.stdout.contains("agent: codex\n"), "{output}");
    let case = text(&context, "testcase.yaml");
    assert!(case.contains("  type: codex\n"), "{case}");
    assert!(case.contains("  - name: tests\n"), "{case}");
    assert!(case.contains("        import sys, unittest\n"), "{case}");
    assert!(text(&context, "proctor.yaml").contains("  - type: codex\n"));
    init(&["--agent", "aider", "--test-cmd", "make", "--force"]).assert_code(0);
    let case = text(&context, "testcase.yaml");
    assert!(case.contains("  type: aider\n"), "{case}");
    assert!(case.contains("      command: |\n        make\n"), "{case}");
    let without = init(&["--test-cmd", "", "--force"]);
    assert!(without.stdout.contains("tests: none"), "{without}");
    assert!(!text(&context, "testcase.yaml").contains("- name: tests"));
    let refused = init(&["--agent", "aidre", "--force"]);
    refused.assert_code(2);
    let message = "`aidre` is not an agent with a CLI\nhint: use one of: claude-code, ";
    assert!(refused.stderr.contains(message), "{refused}");
}

#[test]
fn doctor_removes_leftovers_of_killed_runs() {
    let context = context();
    install_claude(&context, &[]);
    let fixed = context.proctor(["doctor", "--fix"]).run();
    let line = "removed 0 leftovers of killed runs\n";
    assert!(fixed.stdout.starts_with(line), "{fixed}");
}

#[test]
fn self_check_runs_a_trial() {
    let context = context();
    let checked = context.proctor(["self", "check"]).run();
    checked.assert_code(0);
    assert!(checked.stdout.contains("ok      trial"), "{checked}");
    let checked = context.proctor(["self", "check", "--json"]).run();
    let checks: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checks[2]["state"], "ok", "{checked}");
}

/// Without git no workspace can be created.
#[test]
fn self_check_reports_what_is_missing() {
    let context = context();
    let bin = context.root().join("few");
    fs_err::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/bash", bin.join("bash")).unwrap();
    let checked = context.proctor(["self", "check"]).env("PATH", &bin).run();
    checked.assert_code(3);
    assert!(checked.stdout.contains("FAILED  git"), "{checked}");
    let trial = "FAILED  trial       not started: it needs git";
    assert!(checked.stdout.contains(trial), "{checked}");
    // A run names the same cause, and not a revision that the repository lacks.
    let path = write_case(&context, &command_case("/bin/true"));
    let run = context
        .proctor(["run", "-c", path.as_str()])
        .env("PATH", &bin);
    let run = run.run();
    run.assert_code(3);
    assert!(
        run.stdout
            .contains("cannot run git: program \"git\" not found"),
        "{run}"
    );
}
