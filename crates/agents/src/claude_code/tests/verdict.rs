//! The verdict on a run, row by row, and what the session asks of its host.

use proctor_record::outcome::Outcome::{
    self, AgentError, Auth, Completed, GaveUp, Interrupted, Network, OutputLimit, Overloaded,
    Quota, RateLimit, Timeout,
};

use super::*;

const INIT: &str = r#"{"type":"system","subtype":"init","model":"m"}"#;
const GOOD: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;

/// The result of `output` and `ending`: the outcome and the code of the first error.
fn check(output: &str, ending: Ending, outcome: Outcome, code: &str) {
    let (conclusion, _) = conclude(Form::StreamJson, output, ending);
    assert_eq!(conclusion.outcome, outcome, "{output} {ending:?}");
    let first = conclusion
        .errors
        .first()
        .and_then(|error| error.code.as_deref());
    assert_eq!(first.unwrap_or_default(), code, "{output} {ending:?}");
}

/// An error result of the kind that says `success`.
fn failed(fields: &str) -> String {
    format!(r#"{{"type":"result","subtype":"success","is_error":true,{fields}}}"#)
}

fn retry(status: &str, word: &str) -> String {
    format!(
        r#"{{"type":"system","subtype":"api_retry","attempt":1,"error_status":{status},"error":"{word}"}}"#
    )
}

const KILLED: Ending = Ending {
    code: None,
    signal: Some(9),
    ended_by: None,
};

#[test]
fn a_good_result_needs_a_good_end() {
    check(GOOD, exited(0), Completed, "");
    check(GOOD, Ending::default(), Completed, "");
    check(GOOD, ended(EndedBy::Session), Completed, "");
    check(
        GOOD,
        ended(EndedBy::WallLimit),
        Completed,
        "CLAUDE_ENDED_AFTER_RESULT",
    );
    check(GOOD, exited(1), AgentError, "CLAUDE_EXIT");
    check(GOOD, KILLED, AgentError, "CLAUDE_KILLED");
}

#[test]
fn without_a_result_there_is_no_success() {
    check(INIT, exited(0), AgentError, "CLAUDE_NO_RESULT");
    check("", exited(0), AgentError, "CLAUDE_NO_RESULT");
    check(INIT, exited(3), AgentError, "CLAUDE_EXIT");
    check(INIT, exited(137), AgentError, "CLAUDE_KILLED");
    check(INIT, ended(EndedBy::WallLimit), Timeout, "CLAUDE_TIMEOUT");
    check(
        INIT,
        ended(EndedBy::Cancelled),
        Interrupted,
        "CLAUDE_INTERRUPTED",
    );
    check(
        INIT,
        ended(EndedBy::OutputLimit),
        OutputLimit,
        "CLAUDE_OUTPUT_LIMIT",
    );
    let exited_at_limit = Ending {
        code: Some(143),
        signal: None,
        ended_by: Some(EndedBy::IdleLimit),
    };
    check(INIT, exited_at_limit, Timeout, "CLAUDE_TIMEOUT");
}

#[test]
fn error_results_are_the_agents_or_the_infrastructures() {
    let max_turns = r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#;
    check(max_turns, exited(1), GaveUp, "CLAUDE_MAX_TURNS");
    let broken = r#"{"type":"result","subtype":"error_during_execution","is_error":false}"#;
    check(broken, exited(0), AgentError, "CLAUDE_EXECUTION_ERROR");
    for (status, outcome, code) in [
        (400, AgentError, "CLAUDE_API_ERROR"),
        (401, Auth, "CLAUDE_AUTH_FAILED"),
        (403, Auth, "CLAUDE_AUTH_FAILED"),
        (404, AgentError, "CLAUDE_API_ERROR"),
        (429, RateLimit, "CLAUDE_RATE_LIMIT"),
        (500, Network, "CLAUDE_NETWORK"),
        (503, Overloaded, "CLAUDE_OVERLOADED"),
        (529, Overloaded, "CLAUDE_OVERLOADED"),
    ] {
        let output = failed(&format!(r#""api_error_status":{status}"#));
        check(&output, exited(1), outcome, code);
    }
    let dropped = failed(r#""terminal_reason":"api_error""#);
    check(&dropped, exited(1), Network, "CLAUDE_NETWORK");
    let billing = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[]},"error":"billing_error"}"#;
    let output = format!("{billing}\n{}", failed(r#""api_error_status":400"#));
    check(&output, exited(1), Quota, "CLAUDE_QUOTA");
    let spent =
        r#""api_error_status":429,"result":"API Error: 429 {\"type\":\"insufficient_quota\"}""#;
    check(&failed(spent), exited(1), Quota, "CLAUDE_QUOTA");
    let busy = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[]},"error":"server_error"}"#;
    let output = format!("{busy}\n{}", failed(r#""api_error_status":503"#));
    check(&output, exited(1), Overloaded, "CLAUDE_OVERLOADED");
}

#[test]
fn sessions_of_versions_without_a_status_field_are_infrastructure() {
    check(AUTHENTICATION_FAILED, exited(1), Auth, "CLAUDE_AUTH_FAILED");
    check(RATE_LIMITED, exited(1), RateLimit, "CLAUDE_RATE_LIMIT");
    let said = |text: &str| failed(&format!(r#""result":"{text}""#));
    for (text, outcome, code) in [
        (
            r#"Failed to authenticate. API Error: 401 {\"type\":\"error\"}"#,
            Auth,
            "CLAUDE_AUTH_FAILED",
        ),
        (
            "Your account does not have access to Claude. Please login again",
            Auth,
            "CLAUDE_AUTH_FAILED",
        ),
        (
            "You've hit your limit · resets 9pm (UTC)",
            RateLimit,
            "CLAUDE_RATE_LIMIT",
        ),
        (
            "Claude AI usage limit reached|1763413200",
            RateLimit,
            "CLAUDE_RATE_LIMIT",
        ),
        ("API Error: terminated", Network, "CLAUDE_NETWORK"),
        (
            r#"API Error: Unexpected token '<', \"<html>\" is not valid JSON"#,
            Network,
            "CLAUDE_NETWORK",
        ),
        (
            "API Error: 503 upstream connect error",
            Overloaded,
            "CLAUDE_OVERLOADED",
        ),
        (
            "API Error: 400 too long",
            AgentError,
            "CLAUDE_EXECUTION_ERROR",
        ),
        ("Prompt is too long", AgentError, "CLAUDE_EXECUTION_ERROR"),
    ] {
        check(&said(text), exited(1), outcome, code);
    }
}

#[test]
fn success_without_a_model_call_is_not_completed() {
    let zero = r#""usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{},"total_cost_usd":0"#;
    let result = format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"Unknown skill: x",{zero}}}"#
    );
    check(&result, exited(0), AgentError, "CLAUDE_NO_MODEL_CALL");
    let answered = HELLO.lines().nth(1).unwrap();
    check(&format!("{answered}\n{result}"), exited(0), Completed, "");
    // Without figures nothing is known about calls.
    check(GOOD, exited(0), Completed, "");
}

#[test]
fn plain_text_of_a_failed_call_is_infrastructure_unless_the_cli_exits_with_0() {
    let check = |text: &str, ending, expect| {
        let (conclusion, _) = conclude(Form::Text, text, ending);
        assert_eq!(conclusion.outcome, expect, "{text}");
    };
    check("API Error: 529 busy", exited(1), Overloaded);
    check("API Error: Connection error.", exited(1), Network);
    check("Invalid API key · Fix external API key", exited(1), Auth);
    check("API Error: 400 no", exited(1), AgentError);
    check("I could not do it", exited(1), AgentError);
    check("API Error: 529 is what the log says", exited(0), Completed);
}

#[test]
fn a_text_counts_only_where_there_is_no_field_and_only_from_its_start() {
    let said = |text: &str| failed(&format!(r#""api_error_status":null,"result":"{text}""#));
    for (text, outcome, code) in [
        (
            "Not logged in · Please run /login",
            Auth,
            "CLAUDE_AUTH_FAILED",
        ),
        ("Credit balance is too low", Quota, "CLAUDE_QUOTA"),
        ("API Error: 529 busy", Overloaded, "CLAUDE_OVERLOADED"),
        ("API Error: Connection error.", Network, "CLAUDE_NETWORK"),
        (
            "There is a rate limit. Not logged in",
            AgentError,
            "CLAUDE_EXECUTION_ERROR",
        ),
    ] {
        check(&said(text), exited(1), outcome, code);
    }
    let refused = failed(r#""api_error_status":400,"result":"Not logged in""#);
    check(&refused, exited(1), AgentError, "CLAUDE_API_ERROR");
}

#[test]
fn a_limit_that_hits_while_the_cli_tries_again_is_the_infrastructures() {
    let wall = ended(EndedBy::WallLimit);
    check(
        &retry("429", "rate_limit"),
        wall,
        RateLimit,
        "CLAUDE_RATE_LIMIT",
    );
    check(
        &retry("529", "overloaded"),
        wall,
        Overloaded,
        "CLAUDE_OVERLOADED",
    );
    check(&retry("null", "unknown"), wall, Network, "CLAUDE_NETWORK");
    let refused = retry("401", "authentication_failed");
    check(
        &refused,
        ended(EndedBy::Session),
        Auth,
        "CLAUDE_AUTH_FAILED",
    );
    let overcome = format!(
        "{}\n{}",
        retry("429", "rate_limit"),
        HELLO.lines().nth(1).unwrap()
    );
    check(&overcome, wall, Timeout, "CLAUDE_TIMEOUT");
}

#[test]
fn refused_credentials_end_the_run_at_once_and_a_result_after_a_grace() {
    let refused = retry("401", "authentication_failed");
    let (_, host) = conclude(
        Form::StreamJson,
        &format!("{refused}\n{refused}"),
        exited(0),
    );
    assert_eq!(host.ends, [Duration::ZERO]);

    let busy = retry("529", "overloaded");
    let (conclusion, host) = conclude(Form::StreamJson, &format!("{busy}\n{HELLO}"), exited(0));
    assert_eq!(host.ends, [Duration::from_secs(2)]);
    assert_eq!(conclusion.outcome, Outcome::Completed);
    assert_eq!(conclusion.counts.retries, 1);

    let tasks = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}"#;
    let (_, host) = conclude(Form::StreamJson, &format!("{tasks}\n{HELLO}"), exited(0));
    assert!(
        host.ends.is_empty(),
        "background work goes on after this result"
    );
}

#[test]
fn stderr_is_no_event_and_explains_an_exit() {
    let mut host = Host::default();
    let mut session = Box::new(ClaudeSession::new(Form::StreamJson, AfterResult::EndSoon));
    session.on_line(Source::Stderr, b"error: unknown option '--x'", &mut host);
    session.on_oversized_line(Source::Stdout, 9_000_000);
    let conclusion = session.finish(&exited(1), &mut host);
    assert!(
        conclusion.errors[0]
            .message
            .ends_with("unknown option '--x'")
    );
    assert_eq!(conclusion.counts.malformed_lines, 0);
    assert_eq!(conclusion.counts.oversized_lines, 1);
}
