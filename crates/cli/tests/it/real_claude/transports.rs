//! Every way to talk to Claude Code, with the versions that take it: it edits a file, and the
//! record tells exactly what it did, used and cost.

use proctor_testkit::llm;
use serde_json::json;

use super::{LATEST, Trial, codes, expect};

/// The cost of the two messages of the script.
const TWICE: [(&str, u64); 4] = [
    ("/usage/input_tokens", 2 * llm::USAGE.input),
    ("/usage/output_tokens", 2 * llm::USAGE.output),
    ("/usage/cache_read_tokens", 2 * llm::USAGE.cache_read),
    (
        "/usage/cache_creation_tokens",
        2 * llm::USAGE.cache_creation,
    ),
];

/// A trial in which a file was written, if this version is there.
#[track_caller]
fn wrote_a_file(version: &str, transport: &str) -> Option<Trial> {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let trial = Trial::of(version, script)?;
    // That root may skip permissions here is for Proctor to say.
    trial.rewrap(|script| script.replace("export IS_SANDBOX=1", ""));
    let output = trial.run(json!({"transport": transport}));
    output.assert_code(0);
    let record = trial.record();
    expect(&record, "/outcome", "completed");
    expect(&record, "/status", "passed");
    expect(&record, "/diff/files_changed", 1);
    expect(&record, "/diff/lines_added", 1);
    assert!(codes(&record).is_empty(), "{record:#}");
    let patch = trial.patch();
    assert!(
        patch.contains("+++ b/hello.txt") && patch.contains("+hi"),
        "{patch}"
    );
    assert_eq!(trial.model.turns().len(), 2);
    Some(trial)
}

/// The same, and everything that the events of the CLI tell is in the record and in the log.
#[track_caller]
pub(super) fn reports_all_processes(version: &str, transport: &str) -> Option<Trial> {
    let trial = wrote_a_file(version, transport)?;
    let record = trial.record();
    for (part, tokens) in TWICE {
        expect(&record, part, tokens);
    }
    // Versions up to 2.0.0 count messages.
    if !version.starts_with("1.") && version != "2.0.0" {
        expect(&record, "/turns", 2);
    }
    let asked = trial.model.turns();
    // Some versions report the model with its context window, such as `[1m]`, which is not sent.
    let reported = record["agent"]["model"].as_str().unwrap();
    assert_eq!(reported.split('[').next(), asked[0].model());
    let result = trial.last_event("result");
    let cost = record["usage"]["cost_usd"].as_f64().unwrap();
    let reported = result["total_cost_usd"].as_f64().unwrap();
    assert!(
        cost > 0.0 && (cost - reported).abs() < 1e-9,
        "{cost} is not {reported}"
    );
    expect(&record, "/session_id", result["session_id"].clone());
    let agent = format!(
        "claude-cli/{} ",
        record["agent"]["version"].as_str().unwrap()
    );
    let reported = asked[0].header("user-agent").unwrap();
    assert!(reported.starts_with(&agent), "{reported}");
    for count in [
        "malformed_lines",
        "unknown_events",
        "unmatched_results",
        "permission_denials",
    ] {
        expect(&record, &format!("/counts/{count}"), 0);
    }
    logs_the_call(&trial);
    Some(trial)
}

#[track_caller]
fn logs_the_call(trial: &Trial) {
    let log = trial.ctx.log();
    expect(&log, "/execution/status", "success");
    let calls = log["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{log:#}");
    expect(&log, "/tool_calls/0/name", "Write");
    expect(&log, "/tool_calls/0/is_error", false);
    let result = calls[0]["result"].as_str().unwrap();
    assert!(result.contains("hello.txt"), "{result}");
    let messages = log["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "written");
}

#[test]
fn pipes() {
    reports_all_processes(LATEST, "print");
}

#[test]
fn pipes_with_an_older_version() {
    if let Some(trial) = reports_all_processes("2.1.30", "print") {
        expect(&trial.record(), "/agent/version", "2.1.30");
    }
}

#[test]
fn a_terminal() {
    reports_all_processes(LATEST, "pty");
}

#[test]
fn a_terminal_with_an_older_version() {
    reports_all_processes("2.1.30", "pty");
}

#[test]
fn the_control_protocol_on_pipes() {
    let Some(trial) = reports_all_processes(LATEST, "control") else {
        return;
    };
    let raw = fs_err::read_to_string(trial.ctx.artifact("raw/stdout")).unwrap();
    assert!(
        raw.contains("\"can_use_tool\""),
        "it was asked for permission"
    );
    expect(&trial.record(), "/process/exit_code", 0);
}

#[test]
fn the_control_protocol_on_pipes_with_an_older_version() {
    reports_all_processes("2.1.30", "control");
}

#[test]
fn the_control_protocol_on_a_websocket() {
    reports_all_processes("2.1.30", "websocket");
}

#[test]
fn the_control_protocol_on_a_websocket_with_a_version_that_miscounts() {
    let Some(trial) = wrote_a_file("2.0.30", "websocket") else {
        return;
    };
    // By its own account by model it read nothing at all.
    let record = trial.record();
    for (part, tokens) in TWICE {
        expect(&record, part, tokens);
    }
    expect(&record, "/usage/lower_bound", true);
}

#[test]
fn a_websocket_that_the_version_refuses_is_an_error_before_anything_runs() {
    let Some(trial) = Trial::of(LATEST, llm::says("never")) else {
        return;
    };
    let output = trial.run(json!({"transport": "websocket"}));
    output.assert_code(2);
    assert!(
        output.stderr.contains("use `transport: control`"),
        "{output}"
    );
    assert!(trial.model.requests().is_empty());
}

#[test]
fn plain_text_has_messages_and_no_usage() {
    for version in [LATEST, "2.1.30"] {
        let Some(trial) = wrote_a_file(version, "text") else {
            continue;
        };
        expect(&trial.record(), "/usage", json!(null));
        expect(&trial.ctx.log(), "/messages/0/content", "written");
    }
}

#[test]
fn default_transport_depends_on_the_version() {
    let Some(trial) = reports_all_processes(LATEST, "auto") else {
        return;
    };
    let argv = trial.record()["process"]["argv"].to_string();
    assert!(argv.contains("--dangerously-skip-permissions"), "{argv}");
}
