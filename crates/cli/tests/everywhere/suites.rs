//! Suites: trials side by side, and a run that goes on where it was left.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{case, context, install_agent, json_of, write};

fn suite(context: &TestContext, more: &Value) -> Utf8PathBuf {
    let folder = context.root().join("suite");
    fs_err::create_dir_all(folder.join("cases")).unwrap();
    for task in ["one", "two"] {
        let mut case = case();
        case["name"] = json!(task);
        case["repo"] = json!("../../repo");
        fs_err::write(folder.join(format!("cases/{task}.json")), case.to_string()).unwrap();
    }
    let mut suite = json!({
        "agents": [
            {"name": "writer", "type": "command", "config": {"command": ["agent"]}},
            {"name": "floor", "type": "null"},
        ],
        "tasks": [{"testcase": "cases/*.json"}],
    });
    let fields = more.as_object().unwrap().clone();
    suite.as_object_mut().unwrap().extend(fields);
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

fn run(context: &TestContext, suite: &Utf8PathBuf, args: &[&str]) -> Output {
    let all = ["run", suite.as_str()];
    let all = all.into_iter().chain(args.iter().copied());
    context.proctor(all).run()
}

/// The folder of the only run of the suite.
fn run_folder(context: &TestContext) -> Utf8PathBuf {
    let runs = context.root().join(".proctor/runs");
    let mut runs = runs
        .read_dir_utf8()
        .unwrap()
        .map(|run| run.unwrap().into_path());
    let run = runs.next().unwrap();
    assert_eq!(runs.next(), None);
    run
}

#[test]
fn trials_run_in_parallel_and_resume_continues() {
    let context = context();
    install_agent(
        &context,
        &[write("new.txt", "x\n"), json!({"sleep_ms": 100})],
    );
    let path = suite(&context, &json!({"trials": 2, "parallel": 4}));
    run(&context, &path, &[]).assert_code(0);
    let folder = run_folder(&context);
    let summary = json_of(&folder.join("summary.json"));
    assert_eq!(summary["trials"].as_array().unwrap().len(), 8);
    let trial = folder.join("trials/writer/two/trial-2");
    let record = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed");

    // Finished trials are kept; missing ones run.
    let kept = folder.join("trials/writer/one/trial-1/artifacts/record.json");
    let before = fs_err::read(&kept).unwrap();
    // Out of the way; git's files in it are read-only, which not every system lets one remove.
    fs_err::rename(&trial, context.root().join("aside")).unwrap();
    run(&context, &path, &["--resume", folder.as_str()]).assert_code(0);
    let again = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(again["outcome"], "completed");
    assert_eq!(fs_err::read(&kept).unwrap(), before);
    context.assert_nothing_left("");
}

#[test]
fn report_and_list_show_a_finished_run() {
    let context = context();
    install_agent(&context, &[write("new.txt", "x\n")]);
    let path = suite(&context, &json!({"trials": 1}));
    run(&context, &path, &[]).assert_code(0);
    let folder = run_folder(&context);
    let in_suite = |args: &[&str]| {
        let program = context.proctor(args.iter().copied());
        program.current_dir(context.root().join("suite")).run()
    };
    // The newest run, found by itself; and by its folder.
    let report = in_suite(&["report"]);
    assert!(report.assert_code(0).stdout.contains("writer"), "{report}");
    let named = in_suite(&["report", folder.as_str(), "--format", "json"]);
    let named: Value = serde_json::from_str(&named.assert_code(0).stdout).unwrap();
    assert!(named.to_string().contains("floor"), "{named:#}");
    let name = folder.file_name().unwrap();
    let listed = in_suite(&["list", "runs"]);
    assert!(listed.assert_code(0).stdout.contains(name), "{listed}");
    let status = in_suite(&["status", folder.as_str()]);
    assert!(status.assert_code(0).stdout.contains("writer"), "{status}");
}
