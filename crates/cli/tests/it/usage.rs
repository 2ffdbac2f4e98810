//! Usage in records and logs: exact, a lower bound, or absent. Numbers in comments are those of the
//! project's list of cases that harnesses get wrong.

use serde_json::json;

use crate::{
    support::{MODEL, command_case, context, init, print, result_event, run, says, session},
    verdicts::{check, play},
};

/// Case 21: unknown usage is absent, never 0 and never estimated from the output's length.
#[test]
fn unknown_usage_is_absent() {
    let context = context();
    context.install_fake(
        "agent",
        &json!([{"flood": {"bytes": 300_000}}, print("cost nothing\n")]),
    );
    run(&context, &command_case("agent")).assert_code(0);
    assert!(context.record().get("usage").is_none());
    assert_eq!(context.log()["usage"]["source"], "unknown");
    let context = check(&[init()], 1, "agent_error", Some("CLAUDE_NO_RESULT"));
    assert!(context.record().get("usage").is_none());
}

/// Case 22: the result's own account is the truth, however often a message repeats its usage.
#[test]
fn usage_is_the_results_own_account() {
    let (context, output) = play(&session(&[
        says("m-1", "a"),
        says("m-1", "b"),
        says("m-2", "c"),
    ]));
    output.assert_code(0);
    let usage = &context.record()["usage"];
    assert_eq!(usage["input_tokens"], 10);
    assert_eq!(usage["output_tokens"], 40);
    assert_eq!(usage["total_tokens"], 50);
    assert_eq!(usage["cache_read_tokens"], 100);
    assert_eq!(usage["cache_creation_tokens"], 30);
    assert_eq!(usage["cost_usd"], 0.0153);
    assert_eq!(usage["source"], "result_event");
    assert_eq!(usage["lower_bound"], false);
    assert_eq!(usage["per_model"][MODEL]["output_tokens"], 40);
}

/// Case 22: sub-agents count; the totals are those over all models.
#[test]
fn usage_covers_subagents() {
    let mut event = result_event();
    event["modelUsage"]["claude-haiku-4-5"] = json!({
        "inputTokens": 5, "outputTokens": 7, "cacheReadInputTokens": 1,
        "cacheCreationInputTokens": 2, "costUSD": 0.001,
    });
    event["total_cost_usd"] = json!(0.0163);
    let (context, output) = play(&[init(), says("m-1", "a"), json!({"line": event})]);
    output.assert_code(0);
    let usage = &context.log()["usage"];
    assert_eq!(usage["input_tokens"], 15);
    assert_eq!(usage["output_tokens"], 47);
    assert_eq!(usage["cost_usd"], 0.0163);
    assert_eq!(usage["per_model"]["claude-haiku-4-5"]["cost_usd"], 0.001);
}

/// Case 22: without a result each message counts once, and the figures say that they are a
/// lower bound.
#[test]
fn usage_of_a_run_that_was_cut_off_is_a_lower_bound() {
    let context = check(
        &[
            init(),
            says("m-1", "a"),
            says("m-1", "b"),
            says("m-2", "c"),
            json!({"exit": 1}),
        ],
        1,
        "agent_error",
        Some("CLAUDE_EXIT"),
    );
    let usage = &context.record()["usage"];
    assert_eq!(usage["input_tokens"], 20);
    assert_eq!(usage["output_tokens"], 4);
    assert_eq!(usage["source"], "messages");
    assert_eq!(usage["lower_bound"], true);
    assert!(usage.get("cost_usd").is_none());
}
