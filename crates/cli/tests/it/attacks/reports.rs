//! The report of a runner is the runner's, and nothing of the test case's folder is in sight of the work but what the
//! command needs.

use serde_json::json;

use super::{check, clear};
use crate::{
    support::{context, with, write_case},
    table::{
        Expect::{Fails, Passes},
        row, write,
    },
};

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
                row("honest work", Passes, "echo exit 0 > answer.sh"),
                row("a report by the work", Fails, write("answer.sh", forge)),
            ],
        );
    }
}

/// Code under test that prints to the same output as the runner can begin the runner's lines.
#[test]
fn the_beginning_of_a_line_hides_no_failed_test() {
    let context = context();
    let run = "sh answer.sh && echo 'ok 1 - one' || echo 'not ok 1 - one'; echo 1..1\n";
    let files = [("tests/run.sh", run), ("answer.sh", "exit 1\n")];
    context.repo().commit("base", &files);
    let evaluators = json!([{"name": "tests", "config": {"command": "sh tests/run.sh"}}]);
    let prints = |text: &str| write("answer.sh", &format!("printf '{text}'; exit 1"));
    check(
        &context,
        &evaluators,
        &[
            row("honest work", Passes, "echo exit 0 > answer.sh"),
            row("a comment", Fails, prints("ok 1 - one\\n# ")),
            row("other text", Fails, prints("ok 1 - one\\nx ")),
            row("a block", Fails, prints("1..1\\nok 1 - one\\n  ---\\n")),
        ],
    );
}

/// The folder of a report that is a link: the files behind it are neither removed nor read.
#[test]
fn the_folder_of_a_report_is_not_followed_out_of_the_copy() {
    let context = context();
    let host = context.root().join("host");
    fs_err::create_dir(&host).unwrap();
    let report = "TN:\nSF:a.js\nDA:1,1\nLF:1\nLH:1\nend_of_record\n";
    let passing = "1..1\nok 1 - one\n";
    fs_err::write(host.join("report"), passing).unwrap();
    fs_err::write(host.join("lcov.info"), report).unwrap();
    context.repo().commit("base", &[("a.js", "x\n")]);
    let tests = json!([{"name": "tests", "config": {"command": "true", "report": "out/report"}}]);
    let coverage = json!([{"name": "coverage", "config": {"command": "true", "report": "out/lcov.info", "min": 0.5}}]);
    for evaluators in [tests, coverage] {
        let line = format!("ln -s {host} out");
        clear(&context);
        crate::support::run(&context, &crate::judging::case_of(&line, &evaluators));
        let record = context.record();
        assert_ne!(record["status"], "passed", "{record:#}");
        assert_eq!(
            fs_err::read_to_string(host.join("report")).unwrap(),
            passing
        );
        assert_eq!(
            fs_err::read_to_string(host.join("lcov.info")).unwrap(),
            report
        );
    }
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
            row(
                "success with a failing exit code",
                Fails,
                "echo exit 1 > answer.sh",
            ),
            row(
                "a failing test that the task does not have",
                Fails,
                "touch more; echo exit 1 > answer.sh",
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
