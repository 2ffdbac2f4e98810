//! `file`, `output`, `trajectory` and `coverage`: what must hold of what was left, said and done.

use serde_json::{Value, json};

use super::{case_of, judged, standing};
use crate::support::{claude_case, context, init, install_claude, result, run, says, with, write};

#[test]
fn file_evaluator_checks_existence_and_content() {
    let context = context();
    let line = "echo '{\"version\": \"2.0\", \"list\": [1]}' > p.json";
    for (config, status) in [
        (json!({"path": "p.json"}), "passed"),
        (json!({"path": "gone"}), "failed"),
        (json!({"path": "gone", "exists": false}), "passed"),
        (json!({"path": "p.json", "exists": false}), "failed"),
        (json!({"path": "p.json", "matches": "ver.ion"}), "passed"),
        (json!({"path": "p.json", "not_matches": "list"}), "failed"),
        (
            json!({"path": "p.json", "json_path": "/version", "equals": "2.0"}),
            "passed",
        ),
        (
            json!({"path": "p.json", "json_path": "/list/0", "equals": 2}),
            "failed",
        ),
        (json!({"path": "p.json", "json_path": "/none"}), "failed"),
    ] {
        let evaluators = json!([{"name": "file", "config": config}]);
        let record = judged(&context, line, &evaluators);
        assert_eq!(standing(&record).0, status, "{config}: {record:#}");
    }
}

/// Case 7: an assertion with a typo is refused, not disarmed.
#[test]
fn evaluator_without_a_condition_is_refused() {
    let context = context();
    for (name, config, reported) in [
        ("file", json!({"path": "a", "match": "x"}), "match"),
        (
            "file",
            json!({"path": "a", "matches": "("}),
            "invalid regular expression",
        ),
        (
            "file",
            json!({"path": "../a"}),
            "is outside of the workspace",
        ),
        ("output", json!({}), "has no condition"),
        ("trajectory", json!({}), "has no condition"),
        ("trajectory", json!({"max_turn": 1}), "max_turn"),
        ("tests", json!({}), "missing key `runner` or `command`"),
        (
            "tests",
            json!({"runner": "pytest", "report": "x"}),
            "`report` has no effect",
        ),
        (
            "tests",
            json!({"command": "x", "threshold": 2}),
            "from 0 to 1",
        ),
        (
            "tests",
            json!({"command": "x", "protect": ["["]}),
            "invalid pattern",
        ),
        (
            "coverage",
            json!({"command": "x", "min": 80}),
            "from 0 to 1",
        ),
    ] {
        let case = case_of("true", &json!([{"name": name, "config": config}]));
        let output = run(&context, &case);
        output.assert_code(2);
        assert!(
            output.stderr.contains(reported),
            "{name} {config}: {output}"
        );
    }
}

fn call(name: &str, input: &Value) -> Value {
    json!({"line": {
        "type": "assistant", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {
            "id": "m-2", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "t-1", "name": name, "input": input}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    }})
}

#[test]
fn trajectory_and_output_are_checked_against_limits() {
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            call("Bash", &json!({"command": "git push --force"})),
            says("m-3", "all tests pass"),
            write("new", "1\n"),
            result(),
        ],
    );
    for (evaluator, status) in [
        (
            json!({"name": "trajectory", "config": {"max_turns": 1, "max_cost_usd": 0.1}}),
            "passed",
        ),
        (
            json!({"name": "trajectory", "config": {"max_cost_usd": 0.001}}),
            "failed",
        ),
        (
            json!({"name": "trajectory", "config": {"forbidden_tools": ["Bash"]}}),
            "failed",
        ),
        (
            json!({"name": "trajectory", "config": {"required_tools": ["Edit"]}}),
            "failed",
        ),
        (
            json!({"name": "trajectory", "config": {"forbidden_commands": ["git push"]}}),
            "failed",
        ),
        (
            json!({"name": "trajectory", "config": {"required_commands": ["git push"]}}),
            "passed",
        ),
        (
            json!({"name": "output", "config": {"matches": "tests pass"}}),
            "passed",
        ),
        (
            json!({"name": "output", "config": {"not_matches": "tests pass"}}),
            "failed",
        ),
    ] {
        for earlier in context.run_dirs() {
            fs_err::remove_dir_all(earlier).unwrap();
        }
        let case = with(&claude_case(), &json!({"evaluators": [evaluator]}));
        run(&context, &case);
        assert_eq!(
            context.record()["status"],
            status,
            "{evaluator}: {:#}",
            context.record()
        );
    }
}

#[test]
fn a_limit_on_a_figure_that_is_not_known_is_an_error() {
    let context = context();
    let evaluators = json!([{"name": "trajectory", "config": {"max_tokens": 5}}]);
    let record = judged(&context, "true", &evaluators);
    assert_eq!(standing(&record), ("error", None), "{record:#}");
}

#[test]
fn the_share_of_lines_that_tests_reach_is_the_score() {
    let context = context();
    let lcov = "SF:a.c\\nDA:1,1\\nDA:2,1\\nDA:3,1\\nDA:4,0\\nLF:4\\nLH:3\\nend_of_record\\n";
    let config = |line: &str, min: f64| json!([{"name": "coverage", "config": {"command": line, "report": "lcov.info", "min": min}}]);
    let line = format!("printf '{lcov}' > lcov.info");
    let record = judged(&context, "true", &config(&line, 0.7));
    assert_eq!(standing(&record), ("passed", Some(0.75)), "{record:#}");
    let record = judged(&context, "true", &config(&line, 0.8));
    assert_eq!(standing(&record), ("failed", Some(0.75)));
    // A report that came with the work is not one of this run.
    let record = judged(&context, &line, &config("true", 0.1));
    assert_eq!(standing(&record), ("error", None), "{record:#}");
}
