//! Results of real runners: which tests count, and results that cannot be read. Cases 4 to 6.

use proctor_testkit::{TestContext, test_runner};
use serde_json::{Value, json};

use super::{judged, standing};
use crate::support::context;

const GOOD: &str = "printf 'def add(a, b):\\n    return a + b\\n' > calc.py";

fn python_project(context: &TestContext) {
    let tests = "import os, sys\nsys.path.insert(0, os.getcwd())\nfrom calc import add\n\ndef test_one(): assert add(1, 2) == 3\ndef test_two(): assert add(2, 2) == 4\n";
    let calc = "def add(a, b):\n    return 0\n";
    let files = [("calc.py", calc), ("tests/test_calc.py", tests)];
    context.repo().commit("base", &files);
}

fn pytest(folder: &str, more: &Value) -> Value {
    let config = json!({"runner": "pytest", "env": {"PYTHONPATH": folder}, "timeout_ms": 60_000});
    json!([{"name": "tests", "config": crate::support::with(&config, more)}])
}

#[test]
fn pytest_results_are_recorded_test_by_test() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let context = context();
    python_project(&context);
    let record = judged(&context, GOOD, &pytest(&folder, &json!({})));
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    let half = "printf 'def add(a, b):\\n    return 4\\n' > calc.py";
    let record = judged(&context, half, &pytest(&folder, &json!({})));
    assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
    let weights = json!({"weights": {"*test_two": 3}});
    let record = judged(&context, half, &pytest(&folder, &weights));
    assert_eq!(standing(&record).1, Some(0.75));
    let wanted = json!({"fail_to_pass": ["tests/test_calc.py::test_two"]});
    let record = judged(&context, half, &pytest(&folder, &wanted));
    assert_eq!(standing(&record), ("passed", Some(1.0)));
    let wanted = json!({"fail_to_pass": ["tests/test_calc.py::test_gone"]});
    let record = judged(&context, GOOD, &pytest(&folder, &wanted));
    assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
}

#[test]
fn restored_files_are_listed_in_the_verdict() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let context = context();
    python_project(&context);
    let line = format!("{GOOD}; rm tests/test_calc.py; touch conftest.py");
    let record = judged(&context, &line, &pytest(&folder, &json!({})));
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    let restored = json!(["conftest.py", "tests/test_calc.py"]);
    assert_eq!(record["verdicts"][0]["restored"], restored);
}

/// Case 6: a runner that is not there says nothing about the agent.
#[test]
fn a_runner_that_is_missing_is_an_error() {
    let context = context();
    python_project(&context);
    let evaluators = pytest(
        "/nowhere",
        &json!({"env": {"PYTHONNOUSERSITE": "1"}, "command": ["python3", "-S", "-m", "pytest"], "runner": null}),
    );
    let record = judged(&context, GOOD, &evaluators);
    assert_eq!(standing(&record), ("error", None), "{record:#}");
    let evaluators = json!([{"name": "tests", "config": {"command": "no-such-runner"}}]);
    let record = judged(&context, GOOD, &evaluators);
    assert_eq!(standing(&record), ("error", None), "{record:#}");
}

/// Case 4: unreadable results give no score, and skipped is not passed.
#[test]
fn output_that_cannot_be_read_is_an_error_and_a_summary_is_marked() {
    let context = context();
    python_project(&context);
    let tests = |line: &str| json!([{"name": "tests", "config": {"command": line}}]);
    let record = judged(&context, "true", &tests("echo all is well"));
    assert_eq!(standing(&record), ("error", None), "{record:#}");
    let text = "printf '      Tests  15 passed | 60 skipped (75)\\n'";
    let record = judged(&context, "true", &tests(text));
    assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    assert_eq!(record["verdicts"][0]["metrics"]["is_fallback"], true);
    let text = "printf '      Tests  15 passed (15)\\n'; exit 1";
    let record = judged(&context, "true", &tests(text));
    assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    let tap = "printf '1..2\\nok 1 - a\\nok 2 - b # SKIP no\\n'";
    let record = judged(&context, "true", &tests(tap));
    assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
}

#[test]
fn jest_counts_the_tests_that_a_task_names() {
    let Some(folder) = test_runner("node") else {
        return;
    };
    let context = context();
    context.repo().commit(
        "base",
        &[
            (
                "package.json",
                r#"{"name": "p", "scripts": {"test": "jest"}}"#,
            ),
            ("add.js", "module.exports = () => 0;\n"),
            (
                "add.test.js",
                "const add = require('./add');\ntest('one', () => expect(add(1, 2)).toBe(3));\n",
            ),
        ],
    );
    let path = format!("{folder}/node_modules/.bin:/usr/bin:/bin");
    let line = "npm test --silent -- --ci --json --outputFile=\"$PROCTOR_REPORT\"";
    let config = json!({"command": line, "env": {"PATH": path}, "timeout_ms": 120_000});
    let good = "echo 'module.exports = (a, b) => a + b;' > add.js";
    let wanted = json!({"fail_to_pass": ["add.test.js::one"]});
    let named = json!([{"name": "tests", "config": crate::support::with(&config, &wanted)}]);
    let record = judged(&context, good, &named);
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
}

/// A finding that was there before is not the agent's; a linter that always fails tells nothing.
#[test]
fn only_new_findings_count() {
    let context = context();
    let lint = "#!/bin/sh\nprintf '['\nfirst=1\nfor f in *.js; do grep -q bad $f || continue; [ $first ] || printf ','; first=; printf '{\"filePath\":\"%s/%s\",\"messages\":[{\"ruleId\":\"r\",\"severity\":2,\"message\":\"bad\",\"line\":1}],\"errorCount\":1,\"warningCount\":0}' $PWD $f; done\nprintf ']'\nexit 1\n";
    let files = [("lint.sh", lint), ("old.js", "bad\n")];
    context.repo().commit("base", &files);
    let evaluators = json!([{"name": "lint", "config": {"command": "sh lint.sh"}}]);
    let record = judged(&context, "echo good > new.js", &evaluators);
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    let record = judged(&context, "echo bad > new.js", &evaluators);
    assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    assert_eq!(record["verdicts"][0]["metrics"]["findings"]["new"], 1);
    let evaluators = json!([{"name": "build", "config": {"command": "false"}}]);
    let record = judged(&context, "true", &evaluators);
    assert_eq!(standing(&record), ("error", None), "{record:#}");
}
