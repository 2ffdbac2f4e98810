//! Agents that are started more than once in one trial: after something that went wrong, and until a
//! command succeeds.

use std::{
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite},
    support::{
        claude_case, command_case, context, init, install_claude, print, result, result_with, run,
        saved, says, shell, with, write,
    },
};

/// A file outside the workspace that counts how often the agent was started.
fn count(context: &TestContext) -> String {
    let file = saved(context, "starts");
    format!("echo x >> {file}")
}

fn starts(context: &TestContext) -> usize {
    let text = fs_err::read_to_string(saved(context, "starts")).unwrap_or_default();
    text.lines().count()
}

/// An artifact of the only run.
fn artifact(context: &TestContext, path: &str) -> String {
    let file = context.only_run_dir().join("artifacts").join(path);
    fs_err::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn loop_restarts_the_agent_with_the_checks_output() {
    let context = context();
    let agent = shell(&format!("echo line >> work.txt; {}", count(&context)));
    let steps = [
        json!({"save_stdin": saved(&context, "prompt")}),
        agent,
        init(),
        says("m-1", "done"),
        result(),
    ];
    install_claude(&context, &steps);
    let check = "echo have $(wc -l < work.txt) of 3; test $(wc -l < work.txt) = 3";
    let case = with(
        &claude_case(),
        &json!({"agent": {"loop": {"iterations": 5, "check": check}}}),
    );
    let output = run(&context, &case);
    output.assert_code(0);
    let shown = "iteration   2: claude-code completed, $0.0153, check failed";
    assert!(output.stdout.contains(shown), "{output}");
    assert_eq!(starts(&context), 3);
    let record = context.record();
    let iterations = record["iterations"].as_array().unwrap();
    let reported: Vec<(&str, bool, i64)> = iterations
        .iter()
        .map(|it| {
            let check = &it["check"];
            let code = check["exit_code"].as_i64().unwrap();
            (
                it["reason"].as_str().unwrap(),
                check["passed"] == true,
                code,
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("first", false, 1),
            ("check_failed", false, 1),
            ("check_failed", true, 0)
        ]
    );
    // Each costs $0.0153 and takes one turn.
    assert_eq!(record["usage"]["cost_usd"], 0.0459);
    assert_eq!(record["usage"]["output_tokens"], 120);
    assert_eq!(record["turns"], 3);
    assert_eq!(record["usage"]["per_model"].as_object().unwrap().len(), 1);
    assert_eq!(iterations[0]["usage"]["cost_usd"], 0.0153);
    assert_eq!(record["status"], "passed");
    // The last one's files lie where they always do, those of the others in folders of their own.
    let first = artifact(&context, "iterations/1/prompt.md");
    assert!(!first.contains("have"), "{first}");
    assert_eq!(iterations[0]["folder"], "iterations/1");
    assert_eq!(iterations[2]["folder"], Value::Null);
    let last = artifact(&context, "prompt.md");
    assert!(
        last.starts_with(&first) && last.contains("have 2 of 3"),
        "{last}"
    );
    assert!(last.contains("exited with code 1"), "{last}");
    let stdin = fs_err::read_to_string(saved(&context, "prompt")).unwrap();
    assert!(stdin.contains("have 2 of 3"), "the agent got it: {stdin}");
    for file in ["youbencha-log.json", "raw/stdout", "check/output.log"] {
        assert!(!artifact(&context, &format!("iterations/2/{file}")).is_empty());
    }
    let log: Value = serde_json::from_str(&artifact(&context, "youbencha-log.json")).unwrap();
    assert_eq!(log["usage"]["cost_usd"], 0.0153, "a log is of one session");
    let events = artifact(&context, "events.ndjson");
    assert!(
        events.contains(
            r#""event":"iteration","number":2,"agent":"claude-code","reason":"check_failed""#
        ),
        "{events}"
    );
}

#[test]
fn loop_ends_at_its_limit_with_a_note() {
    let context = context();
    context.install_fake("agent", &json!([shell(&count(&context)), print("done\n")]));
    let case = with(
        &command_case("agent"),
        &json!({"agent": {"loop": {"iterations": 2, "check": "false"}}}),
    );
    // The evaluators judge, not the check.
    run(&context, &case).assert_code(0);
    assert_eq!(starts(&context), 2);
    let record = context.record();
    assert_eq!(
        record["usage"],
        Value::Null,
        "unknown of one is unknown of all"
    );
    let notes = record["notes"].to_string();
    assert!(notes.contains("`false` did not succeed"), "{notes}");
}

/// The context is fresh: nothing that an iteration left in HOME is there in the next.
#[test]
fn an_agent_that_failed_is_started_again_in_the_same_workspace_with_a_home_of_its_own() {
    let context = context();
    let work = format!(
        "{}; test ! -e $HOME/memory; touch $HOME/memory; if [ -e begun.txt ]; then exit 0; fi; echo x > begun.txt; exit 1",
        count(&context)
    );
    context.install_fake("agent", &json!([shell(&work), print("done\n")]));
    let case = with(
        &command_case("agent"),
        &json!({"agent": {"retry": {"times": 3}}}),
    );
    run(&context, &case).assert_code(0);
    assert_eq!(starts(&context), 2);
    let record = context.record();
    assert_eq!(record["outcome"], "completed");
    assert_eq!(record["iterations"][0]["outcome"], "agent_error");
    assert_eq!(record["iterations"][1]["reason"], "error");
    assert_eq!(record["diff"]["files_changed"], 1);
    assert_eq!(
        record["errors"],
        json!([]),
        "those of the first are with the first"
    );
    assert_ne!(record["iterations"][0]["errors"], json!([]));
}

#[test]
fn outcomes_outside_the_retry_policy_are_not_retried() {
    let context = context();
    context.install_fake("agent", &json!([shell(&count(&context)), {"exit": 1}]));
    let retry = json!({"agent": {"retry": {"on": ["infrastructure", "no_change"], "times": 3}}});
    run(&context, &with(&command_case("agent"), &retry)).assert_code(1);
    assert_eq!(starts(&context), 1);
    assert_eq!(context.record()["iterations"].as_array().unwrap().len(), 1);
}

#[test]
fn agent_without_a_change_is_retried_with_the_fallback() {
    let context = context();
    let fails = [init(), says("m-1", "nothing to do"), result()];
    let works = [
        write("new.txt", "x\n"),
        init(),
        says("m-1", "done"),
        result_with(&json!({"total_cost_usd": 0.1})),
    ];
    let mut steps = vec![json!({"when_args": ["--model", "opus"], "steps": works})];
    steps.extend([shell(&count(&context))]);
    steps.extend(fails);
    install_claude(&context, &steps);
    let retry = json!({"on": ["no_change"], "times": 2, "fallback": {"model": "opus"}});
    let case = with(
        &claude_case(),
        &json!({"agent": {"model": "sonnet", "retry": retry}}),
    );
    run(&context, &case).assert_code(0);
    assert_eq!(starts(&context), 2, "then the other model");
    let record = context.record();
    let models: Vec<&Value> = record["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["model_requested"])
        .collect();
    assert_eq!(models, ["sonnet", "sonnet", "opus"]);
    assert_eq!(record["iterations"][2]["reason"], "no_change");
    assert_eq!(record["diff"]["files_changed"], 1);
    assert_eq!(
        record["agent"]["model_requested"], "sonnet",
        "the contender stays the same"
    );
}

/// In a suite, with an agent of another kind, after infrastructure.
#[test]
fn fallback_runs_after_an_infrastructure_failure() {
    let context = context();
    let overloaded = result_with(&json!({
        "is_error": true, "api_error_status": 529, "result": "API Error: 529 overloaded_error",
    }));
    install_claude(&context, &[init(), overloaded]);
    context.install_fake("agent", &json!([write("new.txt", "x\n"), print("done\n")]));
    let fallback = json!({"type": "command", "config": {"command": ["agent"]}});
    let agents = json!([
        {"type": "claude-code", "retry": {"on": ["infrastructure"], "fallback": fallback}},
    ]);
    let path = suite(&context, &agents, &json!({}));
    let program = context.proctor(["run", path.as_str(), "--json"]);
    let output = program.env("ANTHROPIC_API_KEY", "sk-ant-fake").run();
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"][0]["iterations"], 2);
    let run = context.root().join(".proctor/latest");
    let status = context.proctor(["status", run.as_str()]).run();
    let reported = "claude-code on one, trial 1: started 2 times";
    assert!(status.stdout.contains(reported), "{status}");
    let trial = run.join("trials/claude-code/one/trial-1");
    let record = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed");
    assert_eq!(record["agent"]["type"], "claude-code");
    let kinds: Vec<&Value> = record["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["type"])
        .collect();
    assert_eq!(kinds, ["claude-code", "command"]);
    assert_eq!(record["iterations"][0]["outcome"], "overloaded");
    assert!(
        trial
            .join("artifacts/iterations/1/claude-code-logs")
            .is_dir()
    );
    assert!(trial.join("artifacts/command-logs").is_dir());
}

/// The time of the trial is one for all iterations.
#[test]
fn a_loop_ends_when_the_time_of_the_trial_is_over() {
    let context = context();
    let work = format!("{}; sleep 1.5", count(&context));
    context.install_fake("agent", &json!([shell(&work), print("done\n")]));
    let case = with(
        &command_case("agent"),
        &json!({"timeout": 4000, "agent": {"loop": {"iterations": 50, "check": "false"}}}),
    );
    let began = Instant::now();
    run(&context, &case);
    assert!(began.elapsed() < Duration::from_secs(40));
    assert!(starts(&context) <= 3, "{} starts", starts(&context));
}

#[test]
fn a_policy_that_would_do_nothing_is_refused() {
    let context = context();
    let case = with(
        &claude_case(),
        &json!({"agent": {"type": "null", "retry": {"times": 2}}}),
    );
    let output = run(&context, &case);
    output.assert_code(2);
    assert!(output.stderr.contains("does not read a prompt"), "{output}");
}

/// One call to the model, in a shell.
const ASKS: &str = r#"url=${ANTHROPIC_BASE_URL#http://}
body='{"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}'
exec 3<>"/dev/tcp/${url%:*}/${url##*:}"
printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: %s\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: %s\r\n\r\n%s' "$ANTHROPIC_API_KEY" "${#body}" "$body" >&3
head -n 1 <&3 | grep ' 200 '"#;

/// The budget of a trial does not grow with the number of iterations.
#[test]
fn the_budget_of_a_trial_is_one_for_all_iterations() {
    let context = context();
    let usage = json!({"input": 100, "output": 10});
    let answer =
        json!({"message": {"content": [{"text": "hello"}], "usage": usage}, "repeat": "forever"});
    let script = json!({"answers": [answer]}).to_string();
    fs_err::write(context.root().join("cases/answers.json"), script).unwrap();
    let program = context.bin().join("asks");
    fs_err::write(&program, format!("#!/bin/bash\n{ASKS}\n")).unwrap();
    fs_err::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let case = command_case("asks");
    let more = json!({
        "gateway": {"script": "answers.json", "budget_calls": 2},
        "agent": {"loop": {"iterations": 5, "check": "false"}},
    });
    run(&context, &with(&case, &more)).assert_code(1);
    let record = context.record();
    let iterations = record["iterations"].as_array().unwrap();
    let outcomes: Vec<&Value> = iterations.iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["completed", "completed", "budget_exceeded"]);
    assert_eq!(record["outcome"], "budget_exceeded");
    assert_eq!(iterations[0]["usage"]["source"], "gateway");
    assert_eq!(iterations[0]["gateway"]["calls"], 1);
    assert_eq!(record["gateway"]["calls"], 2);
    assert_eq!(record["gateway"]["calls_refused"], 1);
    assert_eq!(record["gateway"]["output_tokens"], 20);
}
