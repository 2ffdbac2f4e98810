//! `proctor log normalize`: recorded sessions of the real CLI, text, a terminal's capture, any
//! bytes. The exact figures are those that the sessions themselves tell.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{codes, context, schema};

fn sessions() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/data/sessions")
}

/// Normalises a file; the log is checked against its schema.
#[track_caller]
fn normalize(context: &TestContext, file: &Utf8Path, more: &[&str]) -> Value {
    let args = ["log", "normalize", "--agent", "claude-code", file.as_str()];
    let output = context
        .proctor(args.into_iter().chain(more.iter().copied()))
        .run();
    output.assert_code(0);
    check(context, &output.stdout)
}

#[track_caller]
fn check(context: &TestContext, stdout: &str) -> Value {
    let log: Value = serde_json::from_str(stdout).unwrap();
    schema(context, "log").assert_valid(&log);
    log
}

#[track_caller]
fn recorded(name: &str) -> Value {
    normalize(&context(), &sessions().join(name), &[])
}

#[track_caller]
fn assert_usage(log: &Value, tokens: [u64; 5], cost: f64) {
    let usage = &log["usage"];
    let names = [
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
    ];
    for (name, expected) in names.into_iter().zip(tokens) {
        assert_eq!(usage[name], expected, "{name}: {usage:#}");
    }
    assert_eq!(usage["cost_usd"], cost);
    assert_eq!(usage["source"], "result_event");
    assert_eq!(usage["lower_bound"], false);
}

fn count(log: &Value, list: &str) -> usize {
    log[list].as_array().unwrap().len()
}

#[test]
fn a_small_session_is_exact() {
    let log = recorded("00-claude-2.1.197-hello.jsonl");
    assert_usage(&log, [2000, 100, 2100, 600, 400], 0.0153);
    assert_eq!(log["agent_info"]["version"], "2.1.197");
    assert_eq!(log["model_info"]["name"], "claude-opus-4-8[1m]");
    assert_eq!(log["tool_calls"][0]["name"], "Write");
    assert_eq!(log["tool_calls"][0]["is_error"], false);
    assert_eq!(log["execution"]["status"], "success");
    assert_eq!(log["execution"]["turns"], 2);
    assert_eq!(log["execution"]["duration_ms"], 1664);
}

/// Cases 22 and 24: totals over all models, the model that answered.
#[test]
fn a_clean_run_is_exact() {
    let log = recorded("01-claude-ok-simple.jsonl");
    assert_usage(&log, [8171, 2730, 10901, 265_178, 15_077], 0.299_685_25);
    let main = &log["usage"]["per_model"]["claude-sonnet-4-5-20250929"];
    assert_eq!(main["input_tokens"], 761);
    assert_eq!(main["output_tokens"], 2400);
    assert_eq!(log["model_info"]["name"], "claude-sonnet-4-5-20250929");
    assert_eq!(log["agent_info"]["version"], "2.1.39");
    assert_eq!(log["execution"]["turns"], 15);
    assert_eq!(count(&log, "tool_calls"), 14);
}

#[test]
fn a_session_with_subagents_and_hooks_is_exact() {
    let log = recorded("02-claude-ok-subagents-hooks.jsonl");
    assert_usage(
        &log,
        [42_583, 20_734, 63_317, 1_359_407, 75_975],
        1.332_948_25,
    );
    assert_eq!(count(&log, "tool_calls"), 137);
    assert_eq!(log["counts"]["subagent_tool_calls"], 100);
    assert_eq!(log["counts"]["hooks"], 2);
    assert_eq!(log["counts"]["unknown_events"], 0);
    assert_eq!(log["counts"]["malformed_lines"], 0);
    let calls = log["tool_calls"].as_array().unwrap();
    let of_subagents = calls.iter().filter(|call| call["parent"].is_string());
    assert_eq!(of_subagents.count(), 100);
}

/// `error_during_execution` with `is_error: false` and exit 0 is a failure, and its zeros are not
/// usage.
#[test]
fn an_error_during_execution_is_a_failure() {
    let context = context();
    let file = sessions().join("05-claude-error-during-exec-exit0.jsonl");
    let log = normalize(&context, &file, &["--exit-code", "0"]);
    assert_eq!(log["execution"]["status"], "failed");
    // In youBencha's format 0 is success.
    assert_eq!(log["execution"]["exit_code"], -1);
    assert_eq!(codes(&log)[0], "CLAUDE_EXECUTION_ERROR");
    assert!(log["errors"].to_string().contains("EACCES"));
    // The CLI reports that it called no model: a known zero, not an unknown.
    assert_eq!(log["usage"]["total_tokens"], 0);
    assert_eq!(log["usage"]["cost_usd"].as_f64(), Some(0.0));
}

#[test]
fn every_message_shape_is_understood_or_counted() {
    let log = recorded("message-shapes.ndjson");
    assert_eq!(log["counts"]["malformed_lines"], 0);
    assert_eq!(log["counts"]["unknown_events"], 0);
    assert_eq!(log["counts"]["compactions"], 1);
    assert_eq!(
        log["execution"]["status"], "failed",
        "its last result is an error"
    );
}

/// Every recorded session gives a log that fits the schema.
#[test]
fn every_recorded_session_fits_the_schema() {
    let context = context();
    let mut seen = 0;
    for entry in sessions().read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        // The other files are of other agents.
        if !entry.file_name().starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let log = normalize(&context, entry.path(), &[]);
        assert_eq!(log["agent_info"]["name"], "claude-code");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn standard_input_is_read() {
    let context = context();
    let text = fs_err::read_to_string(sessions().join("00-claude-2.1.197-hello.jsonl")).unwrap();
    let output = context
        .proctor(["log", "normalize", "-"])
        .stdin(&text)
        .run();
    output.assert_code(0);
    let log = check(&context, &output.stdout);
    assert_usage(&log, [2000, 100, 2100, 600, 400], 0.0153);
}

/// CR-3.7 to CR-3.9: text that is not JSON is read in the text formats of seed 002.
#[test]
fn plain_text_with_colours_is_read() {
    let context = context();
    let file = context.root().join("plain.txt");
    let text = "\u{1b}[2mClaude Code v2.1.30\u{1b}[0m\nModel: claude-sonnet-4\nInput tokens: 100\nOutput tokens: 200\n[TOOL: read_file] test.ts\n\u{1b}[31mred\u{1b}[0m words\n";
    fs_err::write(&file, text).unwrap();
    let log = normalize(&context, &file, &["--exit-code", "0"]);
    assert_eq!(log["agent_info"]["version"], "2.1.30");
    assert_eq!(log["model_info"]["name"], "claude-sonnet-4");
    assert_eq!(log["model_info"]["provider"], "anthropic");
    assert_eq!(log["usage"]["total_tokens"], 300);
    assert_eq!(log["usage"]["source"], "text");
    let call = &log["tool_calls"][0];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("read_file"), &json!("test.ts"))
    );
    assert!(log["messages"].to_string().contains("red words"));
}

#[test]
fn failing_exit_code_is_a_failure() {
    let context = context();
    let file = sessions().join("01-claude-ok-simple.jsonl");
    let log = normalize(&context, &file, &["--exit-code", "143"]);
    assert_eq!(log["execution"]["exit_code"], 143);
    assert_eq!(log["execution"]["status"], "failed");
    assert_eq!(log["usage"]["cost_usd"], 0.299_685_25);
}

/// Any bytes with a session in them give a log that fits the schema.
#[test]
fn bytes_around_a_session_give_a_log_and_others_an_error() {
    let context = context();
    let session = fs_err::read(sessions().join("00-claude-2.1.197-hello.jsonl")).unwrap();
    let noise: Vec<u8> = (0..50_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let mut mixed = noise.clone();
    mixed.push(b'\n');
    mixed.extend_from_slice(&session);
    let inputs: [&[u8]; 8] = [
        b"",
        b"\n\n\n",
        b"\0\0\0",
        b"{",
        b"[[[[[[[[",
        b"{\"type\":\"result\"}",
        b"{\"type\":\"assistant\",\"message\":7}\nnull\n[]\n\"text\"\n",
        &noise,
    ];
    for (number, bytes) in inputs.into_iter().enumerate() {
        let file = context.root().join(format!("input-{number}"));
        fs_err::write(&file, bytes).unwrap();
        let output = context.proctor(["log", "normalize", file.as_str()]).run();
        output.assert_code(2);
        assert!(output.stdout.is_empty(), "{output}");
        let problem = "does not contain a session of `claude-code`";
        assert!(output.stderr.contains(problem), "{output}");
    }
    let file = context.root().join("mixed");
    fs_err::write(&file, &mixed).unwrap();
    normalize(&context, &file, &[]);
    // Cut in the middle of a line.
    let file = context.root().join("cut");
    fs_err::write(&file, &session[..session.len() / 2]).unwrap();
    let log = normalize(&context, &file, &[]);
    assert_eq!(log["execution"]["status"], "failed");
}

#[test]
fn an_agent_without_output_is_refused_with_those_that_have_some() {
    let context = context();
    for agent in ["unknown", "null"] {
        let output = context
            .proctor(["log", "normalize", "--agent", agent, "x"])
            .run();
        output.assert_code(2);
        assert!(output.stderr.contains("claude-code"), "{output}");
    }
    let output = context.proctor(["log", "normalize", "no-such-file"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("no-such-file"), "{output}");
}
