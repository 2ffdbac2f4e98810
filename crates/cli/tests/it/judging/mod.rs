//! Judging: scores, what is protected, tests by their reports, runs judged again. Numbers in
//! comments are those of the project's list of cases that harnesses get wrong.

mod assertions;
mod failures;
mod features;
mod repo_tasks;
mod rescore;
mod results;
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
pub fn judged_case(context: &TestContext, line: &str, evaluators: &Value, more: &Value) -> Value {
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

/// Write the patch of a solution, which is made in the repository and taken back.
pub fn write_patch(context: &TestContext, good: &str) {
    let repo = context.repo();
    let script = context.root().join("solve.sh");
    fs_err::write(&script, good).unwrap();
    repo.git(["-c", &format!("alias.solve=!sh -e '{script}'"), "solve"]);
    repo.git(["add", "--all"]);
    let patch = repo.git(["diff", "--cached", "--binary"]);
    repo.git(["reset", "--quiet", "--hard"]);
    let cases = context.root().join("cases");
    fs_err::create_dir_all(&cases).unwrap();
    fs_err::write(cases.join("solution.patch"), format!("{patch}\n")).unwrap();
}
