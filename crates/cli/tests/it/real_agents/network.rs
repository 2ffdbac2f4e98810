//! Nobody answers at all: the provider behind the gateway, or the gateway itself.

use std::time::Duration;

use serde_json::json;

use super::{CODEX, COPILOT, Suite, expect};

/// The discard port, on which nobody listens.
const NOBODY: &str = "http://127.0.0.1:9";

#[test]
fn a_provider_that_cannot_be_reached_is_the_networks_fault() {
    let Some(suite) = Suite::of(&[&COPILOT]) else {
        return;
    };
    let suite = suite.task("task", Duration::from_secs(90));
    let program = suite.program(&json!({"gateway": {}}));
    let program = program
        .env("ANTHROPIC_BASE_URL", NOBODY)
        .env("ANTHROPIC_API_KEY", "sk-ant-fake");
    suite.finish(program).assert_code(3);
    expect(&suite.record(&COPILOT, "task", 1), "/outcome", "network");
}

/// By itself it waits without end.
#[test]
fn codex_does_not_wait_for_ever_for_a_connection() {
    let Some(suite) = Suite::of(&[&CODEX]) else {
        return;
    };
    let suite = suite.task("task", Duration::from_mins(5));
    let program = suite.program(&json!({}));
    let program = program
        .env("OPENAI_BASE_URL", format!("{NOBODY}/v1"))
        .env("CODEX_API_KEY", "sk-fake");
    suite.finish(program).assert_code(3);
    let record = suite.record(&CODEX, "task", 1);
    expect(&record, "/outcome", "network");
    assert!(
        record["duration_ms"].as_u64().unwrap() < 240_000,
        "{record:#}"
    );
}
