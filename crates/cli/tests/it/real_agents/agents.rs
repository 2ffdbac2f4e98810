//! Each CLI by itself: it edits a file, it fails in every way that a model can make it fail, and it
//! is stopped while it works.

use std::time::Duration;

use proctor_testkit::{processes_with, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    AIDER, CODEX, COPILOT, Cli, GEMINI, OPENCODE, PATIENCE, Suite, assert_edited, edits, expect,
};

/// Longer than any of them takes to start, even when all start at once, and shorter than most of them
/// try again. Where much else runs everything takes longer.
pub(super) fn limit() -> Duration {
    let load = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split('.').next().and_then(|load| load.parse().ok());
    Duration::from_secs(40 + 6 * load.unwrap_or(0).min(35))
}

/// The outcome of an agent that gets no response. On a slow machine, where the limit is long, an
/// agent may stop with a network error first.
const SILENCE: &str = "timeout";

/// It starts, asks, and has its tool running by then.
const AT_WORK: Duration = Duration::from_mins(3);

macro_rules! real {
    ($($name:ident: $cli:expr;)*) => {$(
        mod $name {
            #[allow(clippy::wildcard_imports, reason = "a test of each CLI, not a module")]
            use super::*;

            #[test]
            fn edits_a_file_and_reports_the_gateways_usage() {
                an_edit(&$cli);
            }

            #[test]
            fn failure_has_the_class_of_its_cause() {
                faults(&$cli);
            }

            #[test]
            fn leaves_nothing_when_it_is_stopped_at_work() {
                stopped(&$cli);
            }
        }
    )*};
}

real! {
    codex: CODEX;
    gemini_cli: GEMINI;
    opencode: OPENCODE;
    copilot: COPILOT;
    aider: AIDER;
}

fn an_edit(cli: &Cli) {
    let Some(suite) = Suite::of(&[cli]) else {
        return;
    };
    let suite = suite.task("task", PATIENCE);
    let output = suite.finish(suite.scripted(&edits()));
    output.assert_code(0);
    let record = suite.record(cli, "task", 1);
    assert_edited(&record);
    // Only aider asks for something that its own figures leave out: the message of its commit.
    let side_calls = record["gateway"]["side_calls"].as_array();
    let expected = usize::from(cli.kind == "aider");
    assert_eq!(side_calls.map_or(0, Vec::len), expected, "{record:#}");
}

/// A failure of a call, and the resulting outcome.
fn failures_of(cli: &Cli) -> Vec<(&'static str, Value, &'static str)> {
    let text = json!([{"text": "one two three four five six seven"}]);
    // Codex reports high demand after its last attempt.
    let broken = if cli.kind == "codex" {
        "overloaded"
    } else {
        "network"
    };
    vec![
        ("a-401", json!({"error": {"status": 401}}), "auth"),
        ("a-429", json!({"error": {"status": 429}}), "rate_limit"),
        ("a-500", json!({"error": {"status": 500}}), broken),
        (
            "a-drop",
            json!({"message": {"content": text, "cut_after": 2}}),
            "network",
        ),
        (
            "an-empty-reply",
            json!({"message": {"content": []}}),
            "agent_error",
        ),
        ("a-silence", json!({"hang": true}), SILENCE),
    ]
}

/// A run for each, all at once: most of the time goes into waiting.
fn faults(cli: &Cli) {
    let mut runs = Vec::new();
    let limit = limit();
    for (name, mut answer, outcome) in failures_of(cli) {
        let Some(suite) = Suite::of(&[cli]) else {
            return;
        };
        let suite = suite.task(name, limit);
        answer["repeat"] = json!("forever");
        let running = suite.scripted(&json!([answer])).spawn();
        runs.push((name, outcome, suite, running));
    }
    for (name, outcome, suite, running) in runs {
        let output = running.wait();
        suite.assert_tidy();
        let record = suite.record(cli, name, 1);
        let seen = record["outcome"].as_str().unwrap();
        let is_right = seen == outcome || outcome == SILENCE && seen == "network";
        assert!(is_right, "{name} is not {outcome}: {record:#}");
        // The agent's own failures are judged; infrastructure failures are not.
        let is_judged = matches!(seen, "timeout" | "agent_error");
        output.assert_code(if is_judged { 1 } else { 3 });
        expect(&record, "/diff/files_changed", 0);
        // The limit, and what it takes to look at the CLI before and to clean up after it.
        let took = Duration::from_millis(record["duration_ms"].as_u64().unwrap());
        assert!(took < 3 * limit, "{name} took {took:?}");
    }
}

/// Stopped while its tool runs, or while it waits for the model where it has no tools.
fn stopped(cli: &Cli) {
    let Some(suite) = Suite::of(&[cli]) else {
        return;
    };
    let suite = suite.task("task", PATIENCE);
    // No other test sleeps for as long.
    let marker = format!("7{}.25", std::process::id());
    let has_tools = cli.kind != "aider";
    let answer = if has_tools {
        json!({"message": {"content": [{"run_command": format!("sleep {marker}")}]}})
    } else {
        json!({"hang": true})
    };
    let running = suite.scripted(&json!([answer])).spawn();
    let said = format!("trials/{}/task/trial-1/artifacts/raw/stdout", cli.kind);
    let said = suite.ctx.root().join("suite/results/latest").join(said);
    wait_until(AT_WORK, "it works", || {
        if has_tools {
            let found = processes_with(&marker);
            found.iter().any(|line| line.contains(": sleep "))
        } else {
            fs_err::read_to_string(&said).is_ok_and(|said| said.contains("Aider v"))
        }
    });
    running.signal(Signal::TERM);
    running.wait().assert_code(130);
    suite.assert_tidy();
    suite.ctx.assert_nothing_left(&marker);
    let record = suite.record(cli, "task", 1);
    expect(&record, "/outcome", "interrupted");
}
