//! Failures of the work are failures with a score. Failures of the task or the machine are errors.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use super::{judged, judged_case, standing};
use crate::support::context;

const FAILED: (&str, Option<f64>) = ("failed", Some(0.0));
const ERROR: (&str, Option<f64>) = ("error", None);

fn project(context: &TestContext) {
    let run = "#!/bin/sh\nsh tool && echo 'TAP version 13\n1..1\nok 1 - a'\n";
    context
        .repo()
        .commit("base", &[("tool", "exit 0\n"), ("run.sh", run)]);
    context.repo().git(["update-index", "--chmod=+x", "run.sh"]);
    context.repo().git(["commit", "-qm", "a program"]);
}

fn evaluator(name: &str, config: &Value) -> Value {
    json!([{"name": name, "config": config}])
}

/// The same command, judged in each way that runs one.
fn each_way(command: &str) -> Vec<(&'static str, Value)> {
    let limit = 2_000;
    let with_command = json!({"command": command, "timeout_ms": limit});
    let coverage = json!({"command": command, "min": 0.5, "timeout_ms": limit});
    vec![
        ("command", evaluator("command", &with_command)),
        ("tests", evaluator("tests", &with_command)),
        ("build", evaluator("build", &with_command)),
        ("coverage", evaluator("coverage", &coverage)),
    ]
}

#[test]
fn a_command_that_hangs_or_is_killed_has_failed() {
    let context = context();
    project(&context);
    for end in [
        "sleep 60",
        "kill -9 $PPID; sleep 60",
        "kill -SEGV $PPID; sleep 60",
    ] {
        for (name, evaluators) in each_way("./run.sh") {
            let record = judged(&context, &format!("echo '{end}' > tool"), &evaluators);
            assert_eq!(standing(&record), FAILED, "{name}, {end}: {record:#}");
        }
    }
}

#[test]
fn a_program_that_the_work_took_away_is_the_works_failure() {
    let context = context();
    project(&context);
    for (name, evaluators) in each_way("./run.sh") {
        let record = judged(&context, "git rm -q run.sh", &evaluators);
        assert_eq!(standing(&record), FAILED, "{name}: {record:#}");
    }
}

#[test]
fn a_program_that_is_not_even_there_with_the_reference_is_the_tasks_mistake() {
    let context = context();
    project(&context);
    let patch = "diff --git a/made.sh b/made.sh\nnew file mode 100755\n--- /dev/null\n+++ b/made.sh\n@@ -0,0 +1,2 @@\n+#!/bin/sh\n+echo 'Ran 1 test in 0.1s'; echo; echo OK\n";
    fs_err::write(context.root().join("cases/solution.patch"), patch).unwrap();
    let reference = json!({"reference": "solution.patch"});
    for name in ["command", "tests"] {
        let made = evaluator(name, &json!({"command": "./made.sh"}));
        let record = judged_case(&context, "true", &made, &reference);
        assert_eq!(standing(&record), FAILED, "{name}: {record:#}");
        let solved = "printf '#!/bin/sh\\necho \"Ran 1 test in 0.1s\"; echo; echo OK\\n' > made.sh; chmod +x made.sh";
        let record = judged_case(&context, solved, &made, &reference);
        assert_eq!(
            standing(&record),
            ("passed", Some(1.0)),
            "{name}: {record:#}"
        );
        let record = judged_case(&context, "true", &made, &json!({}));
        assert_eq!(standing(&record), ERROR, "{name}: {record:#}");
        let nowhere = evaluator(name, &json!({"command": "no-such-program"}));
        let record = judged_case(&context, "true", &nowhere, &reference);
        assert_eq!(standing(&record), ERROR, "{name}: {record:#}");
    }
}

/// A sparse file takes no room on disk and hours to compare byte by byte.
#[test]
fn huge_file_is_recorded_by_size_and_the_rest_is_judged() {
    let context = context();
    context.repo().commit(
        "base",
        &[("data.bin", "small\n"), (".gitignore", "*.tmp\n")],
    );
    let evaluators = json!([
        "git-diff",
        {"name": "command", "config": {"command": "grep -q done answer && ! test -e big.bin && grep -q small data.bin"}},
    ]);
    let line = "echo done > answer; truncate -s 3G big.bin data.bin ignored.tmp";
    let record = judged(&context, line, &evaluators);
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    assert_eq!(record["errors"], json!([]), "{record:#}");
    assert_eq!(record["diff"]["files_changed"], 3, "{record:#}");
    let notes = record["notes"].to_string();
    for path in ["big.bin", "data.bin"] {
        assert!(
            notes.contains(&format!("{path} has 3221225472 bytes")),
            "{notes}"
        );
    }
    assert!(!notes.contains("ignored.tmp"), "{notes}");
    let record = judged(&context, "truncate -s 3G big.bin", &json!(["git-diff"]));
    assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
    assert_eq!(record["errors"], json!([]), "{record:#}");
}
