//! Each CLI by itself: it edits a file, it fails in every way that a model can make it fail, and it
//! is stopped while it works.

use std::time::Duration;

use proctor_testkit::{Output, Running, processes_with, wait_until};
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

/// Failures of a call, each with the outcome that it leads to.
fn failures_of(cli: &Cli) -> Vec<Fault> {
    let text = json!([{"text": "one two three four five six seven"}]);
    // Codex reports high demand after its last attempt.
    let broken = if cli.kind == "codex" {
        "overloaded"
    } else {
        "network"
    };
    let fault = |name, answer, outcome| Fault {
        name,
        answer,
        outcome,
    };
    let cut = json!({"message": {"content": text, "cut_after": 2}});
    let empty = json!({"message": {"content": []}});
    vec![
        fault("a-401", json!({"error": {"status": 401}}), "auth"),
        fault("a-429", json!({"error": {"status": 429}}), "rate_limit"),
        fault("a-500", json!({"error": {"status": 500}}), broken),
        fault("a-drop", cut, "network"),
        fault("an-empty-reply", empty, "agent_error"),
        fault("a-silence", json!({"hang": true}), SILENCE),
    ]
}

/// A trial whose calls to the model fail in one way.
struct Fault {
    name: &'static str,
    answer: Value,
    outcome: &'static str,
}

impl Fault {
    fn start(&self, cli: &Cli, limit: Duration) -> Option<(Suite, Running)> {
        let suite = Suite::of(&[cli])?.task(self.name, limit);
        let mut answer = self.answer.clone();
        answer["repeat"] = json!("forever");
        let running = suite.scripted(&json!([answer])).spawn();
        Some((suite, running))
    }

    /// The end of the trial, or nothing if the CLI did not reach the model within its limit.
    fn finish(&self, cli: &Cli, suite: &Suite, running: Running) -> Option<(Value, Output)> {
        let output = running.wait();
        suite.assert_tidy();
        let record = suite.record(cli, self.name, 1);
        let is_counted = |key| record["gateway"][key].as_u64() > Some(0);
        let has_called = ["calls", "calls_failed", "calls_cut"]
            .into_iter()
            .any(is_counted);
        has_called.then_some((record, output))
    }

    fn assert_class(&self, record: &Value, output: &Output) {
        let seen = record["outcome"].as_str().unwrap();
        let is_right = seen == self.outcome || self.outcome == SILENCE && seen == "network";
        assert!(
            is_right,
            "{} is not {}: {record:#}",
            self.name, self.outcome
        );
        // The agent's own failures are judged; infrastructure failures are not.
        let is_judged = matches!(seen, "timeout" | "agent_error");
        output.assert_code(if is_judged { 1 } else { 3 });
        expect(record, "/diff/files_changed", 0);
    }
}

/// A run for each, all at once: most of the time goes into waiting. On a busy machine a CLI may take
/// longer than the limit to start; it then runs once more, by itself and with a long limit.
fn faults(cli: &Cli) {
    let limit = limit();
    let mut runs = Vec::new();
    for fault in failures_of(cli) {
        let Some((suite, running)) = fault.start(cli, limit) else {
            return;
        };
        runs.push((fault, suite, running));
    }
    for (fault, suite, running) in runs {
        let (record, output) = fault.finish(cli, &suite, running).unwrap_or_else(|| {
            let (suite, running) = fault.start(cli, 3 * limit).unwrap();
            let end = fault.finish(cli, &suite, running);
            end.unwrap_or_else(|| panic!("{} did not reach the model", fault.name))
        });
        fault.assert_class(&record, &output);
        // The limit, and what it takes to look at the CLI before and to clean up after it.
        let took = Duration::from_millis(record["duration_ms"].as_u64().unwrap());
        assert!(took < 5 * limit, "{} took {took:?}", fault.name);
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
    let said = suite.ctx.root().join(".proctor/latest").join(said);
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
