//! Judging: scores, what is protected, tests by their reports, runs judged again. Numbers in
//! comments are those of the project's list of cases that harnesses get wrong.

mod assertions;
mod failures;
mod features;
mod liars;
mod repo_tasks;
mod rescore;
mod runners;
mod scores;

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{command_case, run, with};

/// A case whose agent is this line for the shell.
pub fn case_of(line: &str, evaluators: &Value) -> Value {
    let agent =
        json!({"agent": {"config": {"command": ["sh", "-ec", line]}}, "evaluators": evaluators});
    with(&command_case("sh"), &agent)
}

/// Runs an agent that is this line for the shell, and gives the trial's record.
#[track_caller]
pub fn judged(context: &TestContext, line: &str, evaluators: &Value) -> Value {
    judged_case(context, line, evaluators, &json!({}))
}

/// The same with more fields of the test case.
#[track_caller]
fn judged_case(context: &TestContext, line: &str, evaluators: &Value, more: &Value) -> Value {
    for earlier in context.run_dirs() {
        fs_err::remove_dir_all(earlier).unwrap();
    }
    let output = run(context, &with(&case_of(line, evaluators), more));
    assert!(!output.stderr.contains("error:"), "{output}");
    context.record()
}

/// The status and the score of a record.
pub fn standing(record: &Value) -> (&str, Option<f64>) {
    let status = record["status"].as_str().unwrap();
    (status, record["score"]["value"].as_f64())
}
