//! `proctor rescore`: verdicts made again from the record, with the old ones beside.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use super::case_of;
use crate::support::{context, run, write_case};

fn rescore(context: &TestContext, args: &[&str]) -> Output {
    let run_dir = context.only_run_dir();
    let mut all = vec!["rescore", run_dir.as_str()];
    all.extend(args);
    context.proctor(all).run()
}

fn command(line: &str) -> Value {
    json!({"name": "command", "config": {"command": line}})
}

fn marker(context: &TestContext) -> Utf8PathBuf {
    context.root().join("there")
}

#[test]
fn an_evaluator_that_broke_is_run_again_and_the_rest_is_kept() {
    let context = context();
    let counted = context.root().join("counted");
    let broken = format!("{}/tool", context.root());
    let evaluators = json!([command(&format!("echo x >> {counted}")), command(&broken)]);
    let ran = run(
        &context,
        &case_of("echo 1 > new; printf '\\000\\001' > binary", &evaluators),
    );
    ran.assert_code(3);
    fs_err::write(&broken, "#!/bin/sh\ntest -f new && test -f binary\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&broken, mode).unwrap();
    rescore(&context, &["--errors-only"]).assert_code(0);
    let record = context.record();
    assert_eq!(record["status"], "passed");
    assert_eq!(record["score"]["value"], 1.0);
    assert_eq!(record["history"][0]["status"], "error");
    assert_eq!(record["history"][0]["verdicts"][1]["status"], "error");
    assert_eq!(context.results()["summary"]["overall_status"], "passed");
    assert_eq!(fs_err::read_to_string(&counted).unwrap(), "x\n");
    // Nothing is broken any more, so nothing is done; without the flag all is judged again.
    rescore(&context, &["--errors-only"]).assert_code(0);
    assert_eq!(context.record()["history"].as_array().unwrap().len(), 1);
    rescore(&context, &[]).assert_code(0);
    assert_eq!(fs_err::read_to_string(&counted).unwrap(), "x\nx\n");
    assert_eq!(context.record()["history"].as_array().unwrap().len(), 2);
}

#[test]
fn a_task_that_has_changed_is_judged_only_when_that_is_wished() {
    let context = context();
    let agent = format!("echo 1 > new; echo x >> {}", marker(&context));
    run(&context, &case_of(&agent, &json!([command("false")]))).assert_code(1);
    write_case(&context, &case_of(&agent, &json!([command("test -f new")])));
    let output = rescore(&context, &[]);
    output.assert_code(3);
    assert!(
        output.stdout.contains("the task has changed since"),
        "{output}"
    );
    assert_eq!(context.record()["status"], "failed");
    let output = rescore(&context, &["--current", "--json"]);
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let trial = &summary[0]["trials"][0];
    assert_eq!(trial["before"], json!({"status": "failed", "score": 0.0}));
    assert_eq!(trial["after"], json!({"status": "passed", "score": 1.0}));
    let record = context.record();
    assert!(record["judged_by"].is_string(), "{record:#}");
    let runs = fs_err::read_to_string(marker(&context)).unwrap();
    assert_eq!(runs, "x\n", "the agent ran once");
}

#[test]
fn a_patch_that_is_not_the_recorded_one_is_not_judged() {
    let context = context();
    run(
        &context,
        &case_of("echo 1 > new", &json!([command("true")])),
    )
    .assert_code(0);
    let patch = context.only_run_dir().join("artifacts/git-diff.patch");
    let text = fs_err::read_to_string(&patch).unwrap();
    fs_err::write(&patch, text.replace("+1", "+2")).unwrap();
    let output = rescore(&context, &[]);
    output.assert_code(3);
    assert!(output.stdout.contains("not rescored"), "{output}");
    assert_eq!(context.record()["history"], Value::Null);
}

#[test]
fn trials_with_infrastructure_failures_are_not_rescored() {
    let context = context();
    let case = crate::support::claude_case();
    crate::support::run_without_key(&context, &case).assert_code(3);
    let output = rescore(&context, &[]);
    output.assert_code(3);
    assert!(
        output.stdout.contains("the outcome is not_installed"),
        "{output}"
    );
}
