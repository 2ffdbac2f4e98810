//! `test_cmd` of repos as tasks: the results of the runner that it starts, test by test, with the exit code
//! as the floor of truth. Cases 4 and 5.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{context, with};

/// A runner that writes TAP: it checks each line of `expected` against the same line of `answer`.
const RUNNER: &str = r#"n=0; bad=0
while read -r line; do
  n=$((n + 1))
  if [ "$(sed -n ${n}p answer)" = "$line" ]; then echo "ok $n - line $n"; else echo "not ok $n - line $n"; bad=1; fi
done < tests/expected
echo "1..$n"
exit $bad
"#;

fn repo(context: &TestContext, runner: &str) {
    let repo = context.repo();
    let files = [
        ("TASK.md", "Count to four.\n"),
        ("answer", "\n"),
        ("tests/run.sh", runner),
        ("tests/expected", "1\n2\n3\n4\n"),
    ];
    repo.commit("v1", &files);
    repo.git(["tag", "v1"]);
}

fn trial(context: &TestContext, agent: &str, more: &Value) -> Value {
    let task = json!({
        "id": "count", "repo": "./repo", "tag": "v1", "test_cmd": "sh tests/run.sh", "time_limit_minutes": 5,
    });
    let suite = json!({
        "agents": [{"name": "one", "type": "command", "config": {"command": ["sh", "-ec", agent]}}],
        "tasks": [with(&task, more)],
    });
    let path = context.root().join("suite.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    let output = context.proctor(["run", path.as_str()]).run();
    assert!(!output.stderr.contains("error:"), "{output}");
    let trial = context
        .root()
        .join(".proctor/latest/trials/one/count/trial-1");
    let read = |file: &str| -> Value {
        serde_json::from_slice(&fs_err::read(trial.join(file)).unwrap()).unwrap()
    };
    let record = read("artifacts/record.json");
    let verdict = record["verdicts"].as_array().unwrap().last().unwrap();
    let tests = trial.join(format!(
        "artifacts/evaluators/{}-{}/tests.json",
        verdict["evaluator"].as_str().unwrap(),
        record["verdicts"].as_array().unwrap().len()
    ));
    let tests = fs_err::read(tests).ok();
    json!({
        "status": verdict["status"], "score": verdict["score"], "message": verdict["message"],
        "restored": verdict["restored"], "metrics": verdict["metrics"],
        "composite": read("meta.json")["composite_score"], "scores": read("meta.json")["scores"],
        "tests": tests.map(|it| serde_json::from_slice::<Value>(&it).unwrap()),
    })
}

/// Lines 3 and 4 fail, and so does the command.
#[test]
fn only_named_tests_of_a_repo_task_count() {
    let context = context();
    repo(&context, RUNNER);
    let named = json!({"fail_to_pass": ["line 1"], "pass_to_pass": ["line 2"]});
    let found = trial(&context, "printf '1\\n2\\n' > answer", &named);
    assert_eq!(found["status"], "passed", "{found:#}");
    assert_eq!(found["metrics"]["counted"], 2);
    let found = trial(&context, "printf '1\\n' > answer", &named);
    assert_eq!(found["status"], "failed", "{found:#}");
    assert_eq!(found["score"], 0.5);
}

#[test]
fn report_of_a_known_runner_gives_partial_credit() {
    let context = context();
    repo(&context, RUNNER);
    let verdict = trial(&context, "seq 4 > answer", &json!({}));
    assert_eq!(verdict["status"], "passed", "{verdict:#}");
    assert_eq!(verdict["scores"], json!({"tests": 1.0}));
    let verdict = trial(&context, "printf '1\\n2\\n3\\nx\\n' > answer", &json!({}));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["score"], 0.75);
    let composite = verdict["composite"].as_f64().unwrap();
    assert!((composite - 0.75).abs() < 1e-9, "{verdict:#}");
    assert_eq!(verdict["scores"], json!({"tests": 0.75}));
    let tests = verdict["tests"]["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 4);
    assert_eq!(tests[3]["name"], "line 4");
    assert_eq!(tests[3]["status"], "failed");
}

#[test]
fn tests_are_those_of_the_task_unless_it_says_otherwise() {
    let context = context();
    repo(&context, RUNNER);
    let lie = "printf 'echo ok 1 - all\\necho 1..1\\n' > tests/run.sh";
    let verdict = trial(&context, lie, &json!({}));
    assert_eq!(verdict["score"], 0.0, "{verdict:#}");
    assert_eq!(verdict["restored"], json!(["tests/run.sh"]));
    // Not protected, but whom the untouched task has is missed.
    let verdict = trial(&context, lie, &json!({"protect": []}));
    assert_eq!(verdict["score"], 0.0, "{verdict:#}");
    let message = verdict["message"].as_str().unwrap();
    assert!(message.contains("missing: line 1 and 3 more"), "{message}");
    let output = {
        let bad = json!({"protect": ["[z-a]"]});
        let path = context.root().join("suite.json");
        let suite = json!({
            "agents": [{"name": "one", "type": "null"}],
            "tasks": [with(&json!({"repo": "./repo", "tag": "v1", "test_cmd": "true", "time_limit_minutes": 5}), &bad)],
        });
        fs_err::write(&path, suite.to_string()).unwrap();
        context.proctor(["validate", path.as_str()]).run()
    };
    output.assert_code(2);
    assert!(output.stderr.contains("invalid pattern"), "{output}");
}

#[test]
fn a_summary_that_the_exit_code_denies_is_a_failure_and_skipped_is_not_passed() {
    let context = context();
    let prints = |text: &str, code: u8| {
        format!("printf '{text}\\n'; exit $(({code} * $(wc -l < answer)))\n")
    };
    repo(&context, &prints("      Tests  4 passed (4)", 1));
    let verdict = trial(&context, "seq 1 > answer", &json!({}));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["score"], 0.0);
    let context = crate::support::context();
    repo(
        &context,
        &prints("      Tests  15 passed | 60 skipped (75)", 0),
    );
    let verdict = trial(&context, "seq 4 > answer", &json!({}));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["score"], 0.0);
    assert_eq!(verdict["metrics"]["is_fallback"], true);
}

#[test]
fn unknown_runner_is_judged_by_exit_code_and_missing_output_gains_nothing() {
    let context = context();
    repo(&context, "grep -qx 4 answer && echo fine\n");
    let verdict = trial(&context, "seq 4 > answer", &json!({}));
    assert_eq!(verdict["status"], "passed", "{verdict:#}");
    assert_eq!(verdict["score"], Value::Null);
    assert_eq!(verdict["metrics"]["source"], "exit_code");
    assert_eq!(verdict["scores"], json!({"tests": 1.0}));
    let verdict = trial(&context, "seq 3 > answer", &json!({}));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    // A runner that speaks on the untouched task and falls silent on the work was silenced.
    let context = crate::support::context();
    repo(
        &context,
        &format!("grep -q quiet answer && exit 0\n{RUNNER}"),
    );
    let verdict = trial(&context, "echo quiet > answer", &json!({}));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["score"], 0.0);
    let message = verdict["message"].as_str().unwrap();
    assert!(
        message.contains("the untouched task has results"),
        "{message}"
    );
}

/// The agent's own tests are its own: none is taken out, none is missed, and none at all is a failure.
#[test]
fn own_tests_of_a_new_project_are_read_too() {
    let context = context();
    repo(&context, RUNNER);
    let repo = context.repo();
    repo.commit("hidden", &[("tests/expected", "1\n2\n")]);
    repo.git(["tag", "v1-validation"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
    let green = json!({
        "greenfield": true, "validation_tag": "v1-validation",
        "green_weights": {"hidden_tests": 0.5, "agent_tests": 0.5},
    });
    let agent = "seq 2 > answer; printf '1\\n2\\n3\\n' > tests/expected";
    let verdict = trial(&context, agent, &green);
    let scores = &verdict["scores"];
    assert_eq!(scores["hidden_tests"], 1.0, "{verdict:#}");
    let own = scores["agent_tests"].as_f64().unwrap();
    assert!((own - 2.0 / 3.0).abs() < 1e-9, "{verdict:#}");
    let verdict = trial(&context, "seq 2 > answer; : > tests/expected", &green);
    assert_eq!(verdict["scores"]["agent_tests"], 0.0, "{verdict:#}");
}

/// A feature whose tests lie in the validation tag, and also in the reference: on the base they do not load.
#[test]
fn a_feature_is_judged_by_hidden_tests_that_do_not_load_without_it() {
    let Some(_) = proctor_testkit::program("node") else {
        return;
    };
    let context = context();
    let repo = context.repo();
    let test = "const { test } = require('node:test');\nconst { equal } = require('node:assert');\nconst mul = require('../mul');\ntest('one', () => equal(mul(1, 2), 2));\ntest('two', () => equal(mul(2, 2), 4));\n";
    let module = "module.exports = (a, b) => a * b;\n";
    repo.commit("v1", &[("TASK.md", "Multiply.\n")]);
    repo.git(["tag", "v1"]);
    repo.commit("hidden", &[("test/mul.test.js", test)]);
    repo.git(["tag", "v1-validation"]);
    repo.commit("solution", &[("mul.js", module)]);
    repo.git(["tag", "v1-solution"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
    let more = "mkdir -p test; for i in $(seq 198); do echo \"require('node:test').test('more $i', () => {});\"; done > test/more.test.js";
    for reference in [json!({}), json!({"reference_tag": "v1-solution"})] {
        let command = json!({
            "validation_tag": "v1-validation", "test_cmd": "node --test --test-reporter=tap",
        });
        let task = with(&command, &reference);
        for (agent, score) in [
            (format!("echo '{}' > mul.js", module.trim()), 1.0),
            (
                format!("echo 'module.exports = () => 4;' > mul.js; {more}"),
                0.5,
            ),
            (format!("echo 'process.exit(0);' > mul.js; {more}"), 0.0),
            ("true".to_owned(), 0.0),
        ] {
            let verdict = trial(&context, &agent, &task);
            assert_eq!(verdict["score"], score, "{agent}: {verdict:#}");
        }
        // The expected value, from the caller's source.
        let forges = "cat > mul.js <<'EOF'\nconst fs = require('fs');\nmodule.exports = () => {\n  const [, file, line] = new Error().stack.split('\\n')[2].match(/\\(?([^()\\s]+):(\\d+):\\d+/);\n  const text = fs.readFileSync(file, 'utf8').split('\\n')[line - 1];\n  return Number(text.match(/\\), (\\d+)\\)/)[1]);\n};\nEOF";
        let verdict = trial(&context, forges, &task);
        let sentinels = &verdict["metrics"]["sentinels"];
        if reference == json!({}) {
            assert_eq!(verdict["score"], 1.0, "{verdict:#}");
            assert_eq!(*sentinels, "unavailable", "{verdict:#}");
        } else {
            assert_eq!(verdict["score"], 0.0, "{verdict:#}");
            assert_eq!(*sentinels, json!({"tests": 2}), "{verdict:#}");
        }
    }
}
