//! The report of a runner is the runner's, and nothing of the test case's folder is in sight of the work but what the
//! command needs.

use proctor_testkit::test_runner;
use serde_json::json;

use super::{Fails, Passes, Tampered, check, write};
use crate::support::{context, with, write_case};

#[test]
fn the_path_of_the_report_is_not_in_the_environment() {
    let context = context();
    let run = "out=${1:-/dev/stdout}\n{ sh answer.sh && echo 'ok 1 - one' || echo 'not ok 1 - one'; echo '1..1'; } > $out\n";
    let files = [("tests/run.sh", run), ("answer.sh", "exit 1\n")];
    context.repo().commit("base", &files);
    let forge = "test -n \"$PROCTOR_REPORT\" && printf '1..1\\nok 1 - one\\n' > \"$PROCTOR_REPORT\"; exit 1";
    for command in ["sh tests/run.sh", "sh tests/run.sh \"$PROCTOR_REPORT\""] {
        let evaluators = json!([{"name": "tests", "config": {"command": command}}]);
        check(
            &context,
            &evaluators,
            &[
                ("honest work", "echo exit 0 > answer.sh", Passes),
                ("a report by the work", &write("answer.sh", forge), Fails),
            ],
        );
    }
}

#[test]
fn a_report_that_is_rewritten_after_the_runner_closed_it_is_tampering() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let context = context();
    let test = "from calc import add\n\ndef test_one(): assert add(1, 2) == 3\n";
    let files = [
        ("calc.py", "def add(a, b):\n    return 0\n"),
        ("tests/test_calc.py", test),
    ];
    context.repo().commit("base", &files);
    let config = json!({"runner": "pytest", "env": {"PYTHONPATH": folder}, "timeout_ms": 60_000});
    let evaluators = json!([{"name": "tests", "config": config}]);
    let forged = "<testsuite><testcase classname=\\\"tests.test_calc\\\" name=\\\"test_one\\\"/></testsuite>";
    let at_exit = format!(
        "import atexit, os, sys\nreport = sys.argv[-1]\n@atexit.register\ndef forge():\n    open(report, 'w').write(\"{forged}\")\n    os._exit(0)\ndef add(a, b):\n    return 0"
    );
    let by_child = format!(
        "import os, sys, time\nreport = sys.argv[-1]\nif os.fork() == 0:\n    while not (os.path.exists(report) and os.path.getsize(report)):\n        time.sleep(0.001)\n    time.sleep(0.05)\n    open(report + '.new', 'w').write(\"{forged}\")\n    os.rename(report + '.new', report)\n    os._exit(0)\nimport atexit\natexit.register(lambda: (time.sleep(0.3), os._exit(0)))\ndef add(a, b):\n    return 0"
    );
    check(
        &context,
        &evaluators,
        &[
            (
                "a report that is forged at exit",
                &write("calc.py", &at_exit),
                Tampered,
            ),
            (
                "one that another process replaces",
                &write("calc.py", &by_child),
                Tampered,
            ),
        ],
    );
}

/// A runner that fails while it reports success says nothing good, and neither does one test more that failed.
#[test]
fn a_failing_exit_code_needs_a_failing_test_of_the_task() {
    let context = context();
    let run = "n=1; sh answer.sh; code=$?; test -f more && { echo 'not ok 2 - mine'; n=2; }; echo 'ok 1 - one'; echo 1..$n; exit $code\n";
    context
        .repo()
        .commit("base", &[("tests/run.sh", run), ("answer.sh", "exit 0\n")]);
    let evaluators = json!([{"name": "tests", "config": {"command": "sh tests/run.sh"}}]);
    check(
        &context,
        &evaluators,
        &[
            (
                "success with a failing exit code",
                "echo exit 1 > answer.sh",
                Fails,
            ),
            (
                "a failing test that the task does not have",
                "touch more; echo exit 1 > answer.sh",
                Fails,
            ),
        ],
    );
}

#[test]
fn the_reference_is_out_of_sight_when_the_work_is_judged() {
    let context = context();
    context.repo().commit("base", &[("answer.sh", "echo 0\n")]);
    let solution = "--- a/answer.sh\n+++ b/answer.sh\n@@ -1 +1 @@\n-echo 0\n+echo 42\n";
    fs_err::write(context.root().join("cases/solution.patch"), solution).unwrap();
    fs_err::write(
        context.root().join("cases/check.sh"),
        "test \"$(sh answer.sh)\" = 42\n",
    )
    .unwrap();
    let steal = write(
        "answer.sh",
        "grep -rhs '^+echo 42' \"$PROCTOR_CASE_DIR\" /proctor/case | sed 's/+echo //'",
    );
    let run = |config: &serde_json::Value, line: &str| {
        let evaluators = json!([{"name": "command", "config": config}]);
        let reference = json!({"reference": "./solution.patch"});
        let path = write_case(
            &context,
            &with(&crate::judging::case_of(line, &evaluators), &reference),
        );
        context.proctor(["run", "-c", path.as_str()]).run()
    };
    let good = "echo 'echo 42' > answer.sh";
    for config in [
        json!({"command": "sh \"$PROCTOR_CASE_DIR/check.sh\""}),
        json!({"command": "cd .; sh $PROCTOR_CASE_DIR/*.sh", "files": ["check.sh"]}),
        json!({"command": ["sh", "-c", "sh \"$${PROCTOR_CASE_DIR}\"/check.sh"], "files": ["check.sh", "solution.patch"]}),
    ] {
        run(&config, good).assert_code(0);
        run(&config, &steal).assert_code(1);
    }
    let refused = run(&json!({"command": "ls $PROCTOR_CASE_DIR"}), good);
    refused.assert_code(2);
    assert!(
        refused.stderr.contains("files: [hidden-test.sh]"),
        "{refused}"
    );
    let refused = run(&json!({"command": "true", "files": ["../x"]}), good);
    refused.assert_code(2);
    let refused = run(&json!({"command": "true", "files": ["nowhere"]}), good);
    refused.assert_code(2);
}
