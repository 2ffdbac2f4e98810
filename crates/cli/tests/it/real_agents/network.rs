//! No response at all from the provider behind the gateway, or from the gateway itself.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CODEX, COPILOT, Suite, agents::limit, expect};

/// The discard port, which has no listener.
const CLOSED_PORT: &str = "http://127.0.0.1:9";

#[test]
fn a_provider_that_cannot_be_reached_is_the_networks_fault() {
    let Some(suite) = Suite::of(&[&COPILOT]) else {
        return;
    };
    let suite = suite.task("task", Duration::from_secs(90));
    let program = suite.program(&json!({"gateway": {}}));
    let program = program
        .env("ANTHROPIC_BASE_URL", CLOSED_PORT)
        .env("ANTHROPIC_API_KEY", "sk-ant-fake");
    suite.finish(program).assert_code(3);
    expect(&suite.record(&COPILOT, "task", 1), "/outcome", "network");
}

/// Runs Codex without a network for this long; returns its record and its output.
fn codex_without_a_network(limit: Duration) -> Option<(Value, String)> {
    let suite = Suite::of(&[&CODEX])?;
    let suite = suite.task("task", limit);
    let program = suite.program(&json!({}));
    let program = program
        .env("OPENAI_BASE_URL", format!("{CLOSED_PORT}/v1"))
        .env("CODEX_API_KEY", "sk-fake");
    suite.finish(program).assert_code(3);
    let record = suite.record(&CODEX, "task", 1);
    expect(&record, "/outcome", "network");
    Some((record, suite.raw_output(&CODEX, "task", 1)))
}

/// The real CLI says the words that the session counts. A unit test of the session has six of them end it.
#[test]
fn codex_without_a_connection_is_a_network_failure() {
    let Some((_, output)) = codex_without_a_network(limit() / 2) else {
        return;
    };
    assert!(output.contains("waiting for network"), "{output}");
}

/// By itself Codex waits without end. Its six notices take two and a half minutes.
#[test]
#[ignore = "scripts/test matrix runs it"]
fn codex_does_not_wait_forever_for_a_connection() {
    let Some((record, _)) = codex_without_a_network(Duration::from_mins(5)) else {
        return;
    };
    let took = record["duration_ms"].as_u64().unwrap();
    assert!(took < 240_000, "{record:#}");
}
