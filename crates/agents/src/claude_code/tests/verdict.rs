//! Tests of the outcome of a run, and of the session's requests to its host.

use proctor_record::outcome::Outcome::{
    self, AgentError, Auth, Completed, GaveUp, Interrupted, Network, OutputLimit, Overloaded,
    Quota, RateLimit, Timeout,
};

use super::*;

const INIT: &str = r#"{"type":"system","subtype":"init","model":"m"}"#;
const GOOD: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;

/// Checks the outcome and the code of the first error.
fn check(output: &str, ending: Ending, outcome: Outcome, code: &str) {
    let (conclusion, _) = conclude(StreamFormat::StreamJson, output, ending);
    assert_eq!(conclusion.outcome, outcome, "{output} {ending:?}");
    let first = conclusion
        .errors
        .first()
        .and_then(|error| error.code.as_deref());
    assert_eq!(first.unwrap_or_default(), code, "{output} {ending:?}");
}

/// An error result with the subtype `success`.
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
fn successful_result_requires_a_successful_exit() {
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
fn run_without_a_result_is_not_a_success() {
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
fn error_results_are_classified() {
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
fn errors_without_a_status_field_are_classified_by_text() {
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
    // Without figures the number of calls is unknown.
    check(GOOD, exited(0), Completed, "");
}

#[test]
fn failed_call_in_plain_text_is_infrastructure_unless_exit_0() {
    let check = |text: &str, ending, expect| {
        let (conclusion, _) = conclude(StreamFormat::Text, text, ending);
        assert_eq!(conclusion.outcome, expect, "{text}");
    };
    check("API Error: 529 busy", exited(1), Overloaded);
    check("API Error: Connection error.", exited(1), Network);
    check("Invalid API key · Fix external API key", exited(1), Auth);
    check("API Error: 400 no", exited(1), AgentError);
    check("I could not do it", exited(1), AgentError);
    check("API Error: 529 is what the log says", exited(0), Completed);
    for (text, expect) in [
        (
            "Failed to authenticate. API Error: 403 Your account is disabled.",
            Auth,
        ),
        (
            "API Error: Request rejected (429) · This request would exceed your rate limit.",
            RateLimit,
        ),
        (
            "API Error: Request rejected (429) · You exceeded your current quota",
            Quota,
        ),
        (
            "API Error: 500 Internal server error. Try again in a moment.",
            Network,
        ),
        (
            "API Error: 503 Service temporarily unavailable.",
            Overloaded,
        ),
        ("Credit balance is too low", Quota),
        (
            "API Error: JSON Parse error: Unrecognized token '<'",
            Network,
        ),
        ("Error: Reached max turns (3)", GaveUp),
    ] {
        check(text, exited(1), expect);
    }
    check("Execution error", exited(0), AgentError);
}

/// Versions before 2.1.200 report an unreadable answer on standard error, and exit with 0 or an error of their own.
#[test]
fn an_answer_that_is_not_json_is_infrastructure() {
    let broken =
        r#"{"type":"result","subtype":"error_during_execution","is_error":false,"errors":[]}"#;
    let undefined =
        failed(r#""result":"API Error: Cannot read properties of undefined (reading 'map')""#);
    for (form, output, code) in [
        (StreamFormat::StreamJson, broken, 0),
        (StreamFormat::StreamJson, undefined.as_str(), 1),
        (StreamFormat::Text, "Execution error", 0),
    ] {
        let outcome = |stderr: &[u8]| {
            let mut host = Host::default();
            let mut session = Box::new(ClaudeSession::new(form, AfterResult::EndSoon));
            session.on_line(LineSource::Stderr, stderr, &mut host);
            session.on_line(LineSource::Stdout, output.as_bytes(), &mut host);
            session.finish(&exited(code), &mut host).outcome
        };
        let unreadable = b"Could not parse message into JSON: {not json";
        assert_eq!(outcome(unreadable), Network, "{output}");
        assert_eq!(outcome(b""), AgentError, "{output}");
    }
}

#[test]
fn the_time_at_which_a_limit_is_lifted_is_in_the_message() {
    let event = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1763413200}}"#;
    let limit = failed(r#""result":"You've hit your limit · resets 9pm""#);
    let (conclusion, _) = conclude(
        StreamFormat::StreamJson,
        &format!("{event}\n{limit}"),
        exited(1),
    );
    assert_eq!(conclusion.outcome, RateLimit);
    let message = &conclusion.errors[0].message;
    assert!(message.contains("resets at 1763413200"), "{message}");
}

#[test]
fn states_of_mcp_servers_are_reported() {
    let init = r#"{"type":"system","subtype":"init","model":"m","mcp_servers":[{"name":"db","status":"failed"},{"name":"web","status":"connected","source":"dynamic"}]}"#;
    let (_, host) = conclude(StreamFormat::StreamJson, init, exited(0));
    let event = host
        .events
        .iter()
        .find(|event| event.starts_with("McpServers"));
    let event = event.unwrap();
    assert!(event.contains(r#"name: "db", status: "failed""#), "{event}");
    assert!(
        event.contains(r#"name: "web", status: "connected""#),
        "{event}"
    );
}

#[test]
fn error_text_is_used_without_a_field_and_at_its_start_only() {
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
fn limit_during_retries_is_an_infrastructure_failure() {
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

/// Versions around 2.1.235 write an error result when they get SIGTERM.
#[test]
fn a_result_of_an_ended_cli_does_not_hide_why_it_was_ended() {
    let aborted = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"}"#;
    let after = |before: &str| format!("{before}\n{aborted}");
    for (output, by, outcome, code) in [
        (
            after(&retry("401", "authentication_failed")),
            EndedBy::Session,
            Auth,
            "CLAUDE_AUTH_FAILED",
        ),
        (
            after(&retry("529", "overloaded")),
            EndedBy::WallLimit,
            Overloaded,
            "CLAUDE_OVERLOADED",
        ),
        (after(INIT), EndedBy::WallLimit, Timeout, "CLAUDE_TIMEOUT"),
        (
            after(INIT),
            EndedBy::Cancelled,
            Interrupted,
            "CLAUDE_INTERRUPTED",
        ),
        (
            after(GOOD),
            EndedBy::WallLimit,
            Completed,
            "CLAUDE_ENDED_AFTER_RESULT",
        ),
        (after(GOOD), EndedBy::Session, Completed, ""),
    ] {
        check(&output, ended(by), outcome, code);
    }
    // An abort of its own is an error of its own.
    check(aborted, exited(1), AgentError, "CLAUDE_EXECUTION_ERROR");
}

#[test]
fn refused_credentials_end_the_run_at_once() {
    let refused = retry("401", "authentication_failed");
    let (_, host) = conclude(
        StreamFormat::StreamJson,
        &format!("{refused}\n{refused}"),
        exited(0),
    );
    assert_eq!(host.ends, [Duration::ZERO]);

    let busy = retry("529", "overloaded");
    let (conclusion, host) = conclude(
        StreamFormat::StreamJson,
        &format!("{busy}\n{HELLO}"),
        exited(0),
    );
    assert_eq!(host.ends, [Duration::from_secs(2)]);
    assert_eq!(conclusion.outcome, Outcome::Completed);
    assert_eq!(conclusion.counts.retries, 1);

    let tasks = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}"#;
    let (_, host) = conclude(
        StreamFormat::StreamJson,
        &format!("{tasks}\n{HELLO}"),
        exited(0),
    );
    assert!(
        host.ends.is_empty(),
        "background tasks continue after this result"
    );
}

#[test]
fn stderr_explains_a_failed_exit() {
    let mut host = Host::default();
    let mut session = Box::new(ClaudeSession::new(
        StreamFormat::StreamJson,
        AfterResult::EndSoon,
    ));
    session.on_line(
        LineSource::Stderr,
        b"error: unknown option '--x'",
        &mut host,
    );
    session.on_oversized_line(LineSource::Stdout, 9_000_000);
    let conclusion = session.finish(&exited(1), &mut host);
    assert!(
        conclusion.errors[0]
            .message
            .ends_with("unknown option '--x'")
    );
    assert_eq!(conclusion.counts.malformed_lines, 0);
    assert_eq!(conclusion.counts.oversized_lines, 1);
}
