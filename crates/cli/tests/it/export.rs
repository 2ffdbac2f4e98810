//! `proctor log export`: trials in the formats of others.

use camino::Utf8PathBuf;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{claude_case, context, init, install_claude, proctor_run, result, says, with};

/// A finished trial of an agent that edits a file, in vain, and then speaks.
fn trial(context: &TestContext) -> Utf8PathBuf {
    let call = json!({"line": {
        "type": "assistant", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {"id": "m-1", "role": "assistant", "model": "m", "content": [
            {"type": "tool_use", "id": "t-1", "name": "Edit", "input": {"file_path": "a.rs"}},
        ]},
    }});
    let answer = json!({"line": {
        "type": "user", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t-1", "content": "no such file", "is_error": true},
        ]},
    }});
    let steps = [
        init(),
        call,
        answer,
        says("m-2", "It is not there."),
        result(),
    ];
    install_claude(context, &steps);
    run(context, &claude_case())
}

fn run(context: &TestContext, case: &Value) -> Utf8PathBuf {
    let output = proctor_run(context, case).arg("--json").run();
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    Utf8PathBuf::from(summary["run_dir"].as_str().unwrap())
}

fn export(context: &TestContext, trial: &Utf8PathBuf, format: &str) -> Value {
    let args = ["log", "export", trial.as_str(), "--format", format];
    let output = context.proctor(args).run();
    output.assert_code(0);
    let again = context.proctor(args).run();
    assert_eq!(
        output.stdout, again.stdout,
        "the same record, the same bytes"
    );
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn atif_export_covers_prompt_to_last_message() {
    let context = context();
    let trial = trial(&context);
    let trajectory = export(&context, &trial, "atif");
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    assert_eq!(trajectory["session_id"], "s-1");
    let prompt = fs_err::read_to_string(trial.join("artifacts/prompt.md")).unwrap();
    let steps = trajectory["steps"].as_array().unwrap();
    let said: Vec<_> = steps
        .iter()
        .map(|step| (&step["source"], &step["message"]))
        .collect();
    assert_eq!(
        said,
        [
            (&json!("user"), &json!(prompt)),
            (&json!("agent"), &json!("")),
            (&json!("agent"), &json!("It is not there.")),
        ]
    );
    assert_eq!(
        steps[1]["observation"]["results"],
        json!([{"source_call_id": "t-1", "content": "no such file", "extra": {"is_error": true}}])
    );
    assert_eq!(trajectory["final_metrics"]["total_cost_usd"], 0.0153);
}

#[test]
fn otlp_export_is_a_tree_of_spans() {
    let context = context();
    let trial = trial(&context);
    let request = export(&context, &trial, "otlp-json");
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    let names: Vec<_> = spans
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["invoke_agent claude-code", "execute_tool Edit"]);
    assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    assert_eq!(spans[1]["status"]["code"], 2);
    let nanos = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    for span in spans {
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
        assert!(nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"));
        assert!(nanos(span, "startTimeUnixNano") >= nanos(&spans[0], "startTimeUnixNano"));
    }
    let attributes = spans[0]["attributes"].as_array().unwrap();
    let cost = attributes
        .iter()
        .find(|one| one["key"] == "proctor.cost_usd")
        .unwrap();
    assert_eq!(cost["value"]["doubleValue"], 0.0153);
}

#[test]
fn export_is_written_atomically() {
    let context = context();
    let trial = trial(&context);
    let file = context.root().join("trajectory.json");
    let args = [
        "log",
        "export",
        trial.as_str(),
        "--format",
        "atif",
        "--output",
        file.as_str(),
    ];
    context.proctor(args).run().assert_code(0);
    let written: Value = serde_json::from_slice(&fs_err::read(&file).unwrap()).unwrap();
    assert_eq!(written, export(&context, &trial, "atif"));
}

#[test]
fn unsupported_export_is_refused_with_alternatives() {
    let context = context();
    let null = run(
        &context,
        &with(&claude_case(), &json!({"agent": {"type": "null"}})),
    );
    let output = context
        .proctor(["log", "export", null.as_str(), "--format", "atif"])
        .run();
    output.assert_code(2);
    assert!(output.stderr.contains("otlp-json"), "{}", output.stderr);
    export(&context, &null, "otlp-json");

    let nowhere = context.root().join("nowhere");
    let output = context
        .proctor(["log", "export", nowhere.as_str(), "--format", "atif"])
        .run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("no trial record in"),
        "{}",
        output.stderr
    );
}
