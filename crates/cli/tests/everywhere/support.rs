//! Test helpers: a fake agent, another one as judge, and a test case for both.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, Program, TestContext};
use serde_json::{Value, json};

/// A context for the binary under test.
pub fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_proctor"))
}

/// Puts an agent on the path that plays these steps.
#[track_caller]
pub fn install_agent(context: &TestContext, steps: &[Value]) {
    context.install_fake("agent", &json!(steps));
}

/// The step that writes a file into the workspace.
pub fn write(path: &str, text: &str) -> Value {
    json!({"write_file": {"path": path, "text": text}})
}

/// The step that writes text to standard output.
pub fn print(text: &str) -> Value {
    json!({"print": {"text": text}})
}

/// A test case for that agent on the context's repository.
pub fn case() -> Value {
    json!({
        "name": "case", "description": "a test case", "repo": "../repo",
        "agent": {"type": "command", "config": {"command": ["agent"], "prompt": "do it"}},
        "evaluators": ["git-diff"],
    })
}

/// The same, judged by a command that passes when this file is there.
#[track_caller]
pub fn case_that_wants(context: &TestContext, file: &str) -> Value {
    context.install_fake("judge", &json!([{"emit": {"path": file}}]));
    let mut case = case();
    case["evaluators"] = json!([{"name": "command", "config": {"command": ["judge"]}}]);
    case
}

/// Writes the test case and returns its path.
pub fn write_case(context: &TestContext, case: &Value) -> Utf8PathBuf {
    let path = context.root().join("cases").join("testcase.json");
    fs_err::write(&path, case.to_string()).unwrap();
    path
}

/// `proctor run` on this test case.
pub fn proctor_run(context: &TestContext, case: &Value) -> Program {
    let path = write_case(context, case);
    context.proctor(["run", "-c", path.as_str()])
}

/// Runs this test case to its end.
pub fn run(context: &TestContext, case: &Value) -> Output {
    proctor_run(context, case).run()
}

/// A file that a fake may save something in, outside its workspace.
pub fn saved(context: &TestContext, name: &str) -> Utf8PathBuf {
    context.root().join("output").join(name)
}

/// The content of a JSON file.
#[track_caller]
pub fn json_of(path: &Utf8PathBuf) -> Value {
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}
