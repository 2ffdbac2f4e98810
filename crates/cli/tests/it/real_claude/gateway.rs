//! The real Claude Code through the gateway of a suite: metered twice, limited, and without the
//! real key.

use camino::Utf8PathBuf;
use proctor_testkit::{files_with, llm};
use serde_json::{Value, json};

use super::{LATEST, Trial, expect};

/// The real key. It must not be found anywhere.
pub(super) const CANARY: &str = "sk-ant-canary-0123456789";

/// The key of a LiteLLM that runs already. Neither must this one.
pub(super) const LITELLM: &str = "sk-litellm-canary-9876543210";

/// Runs Claude Code as the only agent of a suite with these settings; gives the trial's folder.
pub(super) fn run(trial: &Trial, more: &Value, args: &[&str], code: i32) -> Utf8PathBuf {
    let folder = trial.ctx.root().join("suite");
    fs_err::create_dir_all(&folder).unwrap();
    let case = json!({
        "name": "task",
        "description": "through the gateway",
        "repo": trial.ctx.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "do it"}},
        "evaluators": [{"name": "git-diff"}],
    });
    fs_err::write(folder.join("case.json"), case.to_string()).unwrap();
    let mut suite = json!({
        "agents": [{"type": "claude-code"}],
        "tasks": [{"testcase": "case.json"}],
    });
    let members = suite.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    let args = ["run", path.as_str()]
        .into_iter()
        .chain(args.iter().copied());
    let program = trial.ctx.proctor(args).model(&trial.model);
    program
        .deadline(std::time::Duration::from_mins(8))
        .env("ANTHROPIC_API_KEY", CANARY)
        .env("LITELLM_API_KEY", LITELLM)
        .run()
        .assert_code(code);
    trial.assert_tidy();
    trial
        .ctx
        .root()
        .join(".proctor/latest/trials/claude-code/task/trial-1")
}

pub(super) fn record(folder: &Utf8PathBuf) -> Value {
    let bytes = fs_err::read(folder.join("artifacts/record.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_trial_is_metered_by_the_gateway_and_never_sees_the_real_key() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let folder = run(&trial, &json!({"gateway": {}}), &[], 0);
    let record = record(&folder);
    expect(&record, "/outcome", "completed");
    expect(&record, "/agent/credentials", "gateway");
    expect(&record, "/gateway/calls", 2);
    for (part, tokens) in [
        ("input_tokens", llm::USAGE.input),
        ("output_tokens", llm::USAGE.output),
        ("cache_read_tokens", llm::USAGE.cache_read),
        ("cache_creation_tokens", llm::USAGE.cache_creation),
    ] {
        expect(&record, &format!("/gateway/{part}"), 2 * tokens);
        expect(&record, &format!("/usage/{part}"), 2 * tokens);
    }
    assert!(record["gateway"]["differences"].is_null(), "{record:#}");
    // Only the upstream got the API key.
    assert_eq!(trial.model.turns()[0].header("x-api-key"), Some(CANARY));
    let results = trial.ctx.root().join(".proctor");
    assert_eq!(files_with(&results, CANARY), Vec::<Utf8PathBuf>::new());
    let calls = fs_err::read_to_string(folder.join("artifacts/calls.ndjson")).unwrap();
    assert!(calls.lines().count() >= 2, "{calls}");
    // A trajectory tells what only the gateway saw.
    let args = ["log", "export", folder.as_str(), "--format", "atif"];
    let exported = trial.ctx.proctor(args).run();
    exported.assert_code(0);
    let trajectory: serde_json::Value = serde_json::from_str(&exported.stdout).unwrap();
    expect(&trajectory, "/steps/0/source", "system");
    let tools = trajectory["agent"]["tool_definitions"].as_array().unwrap();
    assert!(
        tools.iter().any(|tool| tool["function"]["name"] == "Write"),
        "{tools:#?}"
    );
}

#[test]
fn a_budget_ends_the_trial_with_an_outcome_of_its_own() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let folder = run(&trial, &json!({"gateway": {"budget_calls": 1}}), &[], 1);
    let record = record(&folder);
    expect(&record, "/outcome", "budget_exceeded");
    expect(&record, "/status", "failed");
    expect(&record, "/gateway/exhausted", "calls");
}

#[test]
fn a_script_answers_in_the_place_of_models() {
    let Some(trial) = Trial::of(LATEST, llm::says("not called")) else {
        return;
    };
    let script = trial.ctx.root().join("answers.yaml");
    fs_err::write(
        &script,
        r#"{"answers": [{"message": {"content": [{"write_file": {"path": "hello.txt", "content": "hi\n"}}]}}, {"message": {"content": [{"text": "written"}]}}]}"#,
    )
    .unwrap();
    let folder = run(&trial, &json!({}), &["--model-script", script.as_str()], 0);
    let record = record(&folder);
    expect(&record, "/outcome", "completed");
    expect(&record, "/diff/files_changed", 1);
    assert!(trial.model.turns().is_empty());
}

/// A recorded trial is played again with no model there, and comes to the same.
#[test]
fn a_recorded_trial_is_replayed_without_a_model() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let recordings = trial.ctx.root().join("recordings");
    let recorded = record(&run(
        &trial,
        &json!({}),
        &["--record-models", recordings.as_str()],
        0,
    ));
    let asked = trial.model.turns().len();
    assert_eq!(files_with(&recordings, CANARY), Vec::<Utf8PathBuf>::new());
    let replayed = record(&run(
        &trial,
        &json!({}),
        &["--replay-models", recordings.as_str()],
        0,
    ));
    assert_eq!(
        trial.model.turns().len(),
        asked,
        "the model was asked again"
    );
    for part in ["outcome", "turns", "usage", "diff"] {
        assert_eq!(recorded[part], replayed[part], "{part}");
    }
}

/// Seed 001's `temperature`: the CLI has no option for it, and the gateway sets it.
#[test]
fn gateway_sets_the_temperature() {
    let Some(trial) = Trial::of(LATEST, llm::says("done")) else {
        return;
    };
    let case = json!({
        "name": "task",
        "description": "through the gateway",
        "repo": trial.ctx.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "do it", "temperature": 0.25}},
        "evaluators": [{"name": "git-diff"}],
        "gateway": {},
    });
    let path = trial.ctx.root().join("warm.json");
    fs_err::write(&path, case.to_string()).unwrap();
    let program = trial.ctx.proctor(["run", "-c", path.as_str()]);
    let program = program.model(&trial.model).env("ANTHROPIC_API_KEY", CANARY);
    program.run().assert_code(0);
    trial.assert_tidy();
    let turns = trial.model.turns();
    assert!(!turns.is_empty());
    for turn in turns {
        assert_eq!(turn.body["temperature"], 0.25);
        assert_eq!(turn.header("x-api-key"), Some(CANARY));
    }
}
