//! Answers of judges that no gateway saw.

use serde_json::{Value, json};

use crate::{
    judges::{FAILS, case},
    support::{context, init, install_claude, result, says, shell},
};

/// The step that asks the gateway for an answer of a model.
fn call(path: &str) -> Value {
    let line = format!(
        "curl -s -o /dev/null -X POST \"$ANTHROPIC_BASE_URL{path}\" -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'content-type: application/json' -d '{{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [{{\"role\": \"user\", \"content\": \"x\"}}]}}'"
    );
    shell(&line)
}

#[track_caller]
fn assert_refused(verdict: &Value) {
    let said = verdict["error"]["message"].as_str().unwrap_or_default();
    let reasons = [
        "the judge answered without a successful model call through the gateway",
        "the gateway saw no model call",
    ];
    assert!(reasons.iter().any(|it| said.contains(it)), "{verdict:#}");
}

/// A judge that is a CLI asks a model for every answer. With a gateway that has to be seen there; without one, with a
/// login, the verdict is marked.
#[test]
fn an_answer_of_a_cli_counts_only_with_a_model_call_at_the_gateway() {
    let context = context();
    let models = [
        (
            "good.json",
            json!({"message": {"content": [{"text": "x"}], "usage": {"input": 10, "output": 2}}, "repeat": "forever"}),
        ),
        (
            "bad.json",
            json!({"error": {"status": 400, "message": "no"}, "repeat": "forever"}),
        ),
    ];
    for (name, answer) in models {
        let script = json!({"answers": [answer]});
        fs_err::write(context.root().join("cases").join(name), script.to_string()).unwrap();
    }
    let judge = |calls: &[Value]| {
        let mut steps = vec![init()];
        steps.extend_from_slice(calls);
        steps.extend([says("m-1", FAILS), result()]);
        install_claude(&context, &steps);
    };
    let run = |script: Option<&str>| {
        let config = json!({"type": "claude-code", "criteria": {"works": "The work is done"}});
        let mut case = case(&context, "hardly\n", &json!({}));
        case["evaluators"][0]["config"] = config;
        let folder = context.root().join("cases");
        fs_err::write(folder.join("case.json"), case.to_string()).unwrap();
        let mut suite = json!({
            "agents": [{"type": "command", "config": {"command": ["worker"]}}],
            "tasks": [{"testcase": "case.json"}],
        });
        if let Some(script) = script {
            suite["gateway"] = json!({"script": script});
        }
        let path = folder.join("proctor.json");
        fs_err::write(&path, suite.to_string()).unwrap();
        context.proctor(["run", path.as_str()]).run();
        let record = context
            .root()
            .join(".proctor/latest/trials/command/case/trial-1/artifacts/record.json");
        let record: Value = serde_json::from_slice(&fs_err::read(record).unwrap()).unwrap();
        record["verdicts"][0].clone()
    };
    judge(&[]);
    // Nothing is kept of an answer that was refused.
    for _ in 0..2 {
        let verdict = run(Some("good.json"));
        assert_refused(&verdict);
    }
    judge(&[call("/v1/messages")]);
    let verdict = run(Some("bad.json"));
    assert_refused(&verdict);
    // Without a gateway, and with a login.
    judge(&[]);
    let verdict = run(None);
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["metrics"]["unverified"], true, "{verdict:#}");
    let message = verdict["message"].as_str().unwrap();
    assert!(
        message.contains("; unverified: no gateway observed the judge's model calls"),
        "{message}"
    );
    let report = context.root().join(".proctor/latest");
    let report = context.proctor(["report", report.as_str()]).run();
    assert!(
        report
            .stdout
            .contains("`agentic-judge` is unverified in 1 trial"),
        "{report}"
    );
    // An answer that was kept from there is asked for again where it can be verified.
    judge(&[call("/v1/messages")]);
    let verdict = run(Some("good.json"));
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["metrics"]["unverified"], false, "{verdict:#}");
    assert_eq!(
        verdict["metrics"]["judge_usage"]["cached"], 0,
        "{verdict:#}"
    );
    let verdict = run(Some("good.json"));
    assert_eq!(verdict["metrics"]["judge_usage"]["asked"], 0, "{verdict:#}");
    assert_eq!(verdict["metrics"]["unverified"], false, "{verdict:#}");
}
