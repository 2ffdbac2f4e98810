//! Failures of the API and the network, and signals: the right class, in time, with a record, and
//! no leftover process.

use std::time::Duration;

use proctor_scripted_model::{Answer, Script};
use proctor_testkit::{Running, llm, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{LATEST, Trial, codes, expect, timed};

/// Long enough for the CLI to start and to be refused, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// The trial of the latest version with this API and this time limit.
fn outcome_of(script: Script, limit: Duration, code: i32) -> Option<(Value, Duration)> {
    let trial = Trial::of(LATEST, script)?;
    let (output, took) = timed(|| trial.program_within(limit, json!({})).run());
    output.assert_code(code);
    trial.assert_tidy();
    Some((trial.record(), took))
}

#[test]
fn refused_credentials_end_the_trial_at_the_first_refusal() {
    let limit = Duration::from_mins(3);
    let Some((record, took)) = outcome_of(llm::always_fails(401), limit, 3) else {
        return;
    };
    // The CLI itself tries for minutes.
    assert!(took < SOON, "{took:?}");
    expect(&record, "/outcome", "auth");
    expect(&record, "/status", "error");
    expect(&record, "/counts/retries", 1);
    assert_eq!(codes(&record), ["CLAUDE_AUTH_FAILED"]);
    // Nothing was judged.
    expect(&record, "/verdicts/0/status", "skipped");
    expect(&record, "/usage", Value::Null);
}

#[test]
fn missing_credentials_are_found_before_the_first_call() {
    // The older one has no way to ask for them, and is run.
    for version in [LATEST, "2.1.30"] {
        let Some(trial) = Trial::of(version, llm::says("never")) else {
            continue;
        };
        let output = trial.program(json!({})).env("ANTHROPIC_API_KEY", "").run();
        output.assert_code(3);
        trial.assert_tidy();
        let record = trial.record();
        expect(&record, "/outcome", "auth");
        assert_eq!(codes(&record), ["CLAUDE_AUTH_FAILED"]);
        assert!(trial.model.turns().is_empty());
    }
}

/// The CLI goes on trying for minutes, and the trial's limit ends that: still no timeout of the
/// agent, because it never had an answer.
#[track_caller]
fn is_still_trying(script: Script, outcome: &str, code: &str) {
    let limit = Duration::from_secs(8);
    let Some((record, took)) = outcome_of(script, limit, 3) else {
        return;
    };
    expect(&record, "/outcome", outcome);
    expect(&record, "/status", "error");
    expect(&record, "/process/ended_by", "wall_limit");
    assert_eq!(codes(&record), [code]);
    assert!(
        record["counts"]["retries"].as_u64() >= Some(1),
        "{record:#}"
    );
    assert!(took < limit + SOON, "{took:?}");
}

#[test]
fn rate_limit_is_not_the_agents_failure() {
    is_still_trying(llm::always_fails(429), "rate_limit", "CLAUDE_RATE_LIMIT");
}

#[test]
fn overloaded_api_is_not_the_agents_failure() {
    is_still_trying(llm::always_fails(529), "overloaded", "CLAUDE_OVERLOADED");
}

#[test]
fn broken_connections_are_not_the_agents_failure() {
    let cut = Answer::text("half a word").cut_after(3).forever();
    is_still_trying(Script::new([cut]), "network", "CLAUDE_NETWORK");
}

#[test]
fn single_broken_connection_is_retried() {
    let script = Script::new([
        Answer::text("half a word").cut_after(3),
        Answer::text("whole").usage(llm::USAGE),
    ]);
    let Some((record, _)) = outcome_of(script, Duration::from_mins(1), 0) else {
        return;
    };
    expect(&record, "/outcome", "completed");
}

#[test]
fn a_request_that_the_api_refuses_is_an_error_of_the_agent() {
    let Some((record, took)) = outcome_of(llm::always_fails(400), Duration::from_mins(1), 1) else {
        return;
    };
    expect(&record, "/outcome", "agent_error");
    expect(&record, "/status", "failed");
    expect(&record, "/process/exit_code", 1);
    assert_eq!(codes(&record), ["CLAUDE_API_ERROR"]);
    assert!(took < SOON, "{took:?}");
}

#[test]
fn an_api_that_never_answers_is_a_timeout_at_the_limit() {
    let limit = Duration::from_secs(6);
    let script = Script::new([Answer::hang().forever()]);
    let Some((record, _)) = outcome_of(script, limit, 1) else {
        return;
    };
    expect(&record, "/outcome", "timeout");
    expect(&record, "/status", "failed");
    assert_eq!(codes(&record), ["CLAUDE_TIMEOUT"]);
    let ran = record["process"]["duration_ms"].as_u64().unwrap();
    assert!(
        (6000..7000).contains(&ran),
        "within a second of the limit: {ran} ms"
    );
}

/// Starts a trial whose API never answers, and waits until the CLI has asked.
fn asked_and_waits(transport: &str) -> Option<(Trial, Running)> {
    let trial = Trial::of(LATEST, Script::new([Answer::hang().forever()]))?;
    let running = trial.program(json!({"transport": transport})).spawn();
    wait_until(Duration::from_mins(1), "the CLI asks the model", || {
        !trial.model.turns().is_empty()
    });
    Some((trial, running))
}

#[test]
fn interrupted_run_stops_the_agent_and_writes_its_record() {
    for (signal, transport) in [(Signal::TERM, "print"), (Signal::INT, "control")] {
        let Some((trial, running)) = asked_and_waits(transport) else {
            return;
        };
        running.signal(signal);
        let (output, took) = timed(|| running.wait());
        output.assert_code(130);
        assert!(took < SOON, "{took:?}");
        trial.assert_tidy();
        let record = trial.record();
        expect(&record, "/outcome", "interrupted");
        expect(&record, "/status", "interrupted");
        assert!(record["completed_at"].is_string(), "{record:#}");
        expect(&trial.ctx.log(), "/execution/outcome", "interrupted");
    }
}

#[test]
fn killing_proctor_kills_the_agent_and_leaves_a_record() {
    let Some((trial, running)) = asked_and_waits("print") else {
        return;
    };
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    trial.ctx.assert_nothing_left("");
    let record = trial.record();
    expect(&record, "/outcome", "interrupted");
    expect(&record, "/completed_at", Value::Null);
}
