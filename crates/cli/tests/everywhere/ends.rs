//! How trials end: well, badly, too late, with a crash, with too much output, and when the user stops them.

use std::time::Duration;

use proctor_testkit::{TestContext, wait_until};
use serde_json::json;

use crate::support::{
    case, case_that_wants, context, install_agent, print, proctor_run, run, saved, write,
};

/// How late the end of an agent may be on a machine that is busy; the promise is one second.
const LATE: Duration = Duration::from_secs(10);

#[test]
fn agent_that_solves_the_task_passes() {
    let context = context();
    install_agent(&context, &[write("new.txt", "x\n"), print("done\n")]);
    let output = run(&context, &case_that_wants(&context, "new.txt"));
    output.assert_code(0);
    let record = context.record();
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["status"], "passed");
    assert_eq!(record["diff"]["files_changed"], 1);
    assert_eq!(context.results()["summary"]["overall_status"], "passed");
    let raw = fs_err::read(context.artifact("raw").join("stdout")).unwrap();
    assert_eq!(raw, b"done\n");
    context.assert_nothing_left("");
}

#[test]
fn an_agent_that_does_something_else_fails() {
    let context = context();
    install_agent(&context, &[write("other.txt", "x\n")]);
    run(&context, &case_that_wants(&context, "new.txt")).assert_code(1);
    let record = context.record();
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["verdicts"][0]["status"], "failed");
}

#[test]
fn exit_code_is_reported_unchanged() {
    let context = context();
    install_agent(&context, &[json!({"exit": 3})]);
    run(&context, &case()).assert_code(1);
    let record = context.record();
    assert_eq!(record["outcome"], "agent_error");
    assert_eq!(record["process"]["exit_code"], 3);
    assert_eq!(record["process"]["signal"], serde_json::Value::Null);
}

/// Children of children, deaf ones and ones that know nothing of their parents: all are gone in time.
#[test]
fn a_limit_ends_an_agent_and_all_that_it_started() {
    let context = context();
    let child = |more: serde_json::Value| {
        let mut child = json!({"sleep_s": 300, "marker": "mark-tree"});
        let fields = more.as_object().unwrap().clone();
        child.as_object_mut().unwrap().extend(fields);
        json!({"spawn_child": child})
    };
    install_agent(
        &context,
        &[
            child(json!({})),
            child(json!({"double_fork": true, "clear_env": true})),
            child(json!({"ignore_term": true})),
            json!("ignore_term"),
            print("working\n"),
            json!({"sleep_ms": 300_000}),
        ],
    );
    let mut case = case();
    case["timeout"] = json!(3000);
    run(&context, &case).assert_code(1);
    context.assert_nothing_left("mark-tree");
    let record = context.record();
    assert_eq!(record["outcome"], "timeout", "{record:#}");
    let took = Duration::from_millis(record["process"]["duration_ms"].as_u64().unwrap());
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(3) + LATE, "{took:?}");
    let raw = fs_err::read(context.artifact("raw").join("stdout")).unwrap();
    assert_eq!(raw, b"working\n");
}

/// Leftover processes of an ended agent are killed and recorded.
#[test]
fn leftover_processes_of_a_finished_agent_are_killed_and_recorded() {
    let context = context();
    let child = json!({"sleep_s": 300, "marker": "mark-left", "double_fork": true});
    install_agent(&context, &[json!({"spawn_child": child})]);
    run(&context, &case()).assert_code(0);
    context.assert_nothing_left("mark-left");
    let record = context.record();
    assert_eq!(record["process"]["leaked"].as_array().unwrap().len(), 1);
}

/// A crash is described with the system's name for it.
#[test]
fn a_crash_is_named() {
    let context = context();
    install_agent(&context, &["crash".into()]);
    run(&context, &case()).assert_code(1);
    let record = context.record();
    assert_eq!(record["outcome"], "agent_error", "{record:#}");
    let reported = record["errors"].to_string();
    assert_crash(&record["process"], &reported);
}

#[cfg(unix)]
fn assert_crash(process: &serde_json::Value, reported: &str) {
    assert_eq!(process["signal"], 11, "{process:#}");
    assert!(reported.contains("signal 11"), "{reported}");
}

#[cfg(windows)]
fn assert_crash(process: &serde_json::Value, reported: &str) {
    assert_eq!(process["signal"], serde_json::Value::Null);
    assert!(reported.contains("access violation"), "{reported}");
}

#[test]
fn a_flood_of_output_is_ended_at_its_limit() {
    let context = context();
    let flood = json!({"flood": {"bytes": 50_000_000}});
    install_agent(&context, &[flood, json!({"sleep_ms": 300_000})]);
    let mut case = case();
    case["output"] = json!({"max_bytes": 1_000_000, "raw_bytes": 100_000});
    run(&context, &case).assert_code(1);
    let record = context.record();
    assert_eq!(record["outcome"], "output_limit", "{record:#}");
    let raw = fs_err::read(context.artifact("raw").join("stdout")).unwrap();
    assert_eq!(raw.len(), 100_000);
    context.assert_nothing_left("");
}

/// Bytes are kept, including line endings and binary data.
#[test]
fn output_is_kept_byte_for_byte() {
    let context = context();
    let steps = [
        print("one\r\ntwo\n"),
        json!("invalid_utf8"),
        json!({"print": {"base64": "AAEN"}}),
    ];
    install_agent(&context, &steps);
    run(&context, &case()).assert_code(0);
    let raw = fs_err::read(context.artifact("raw").join("stdout")).unwrap();
    assert_eq!(raw, b"one\r\ntwo\n\xff\xfe \xc3( invalid\n\x00\x01\x0d");
}

fn busy_agent() -> (TestContext, camino::Utf8PathBuf) {
    let context = context();
    let busy = saved(&context, "busy");
    let child = json!({"spawn_child": {"sleep_s": 300, "marker": "mark-busy"}});
    install_agent(
        &context,
        &[
            child,
            write(busy.as_str(), ""),
            json!({"sleep_ms": 300_000}),
        ],
    );
    (context, busy)
}

/// Ctrl-C, or Ctrl-Break on Windows.
#[test]
fn a_console_that_interrupts_ends_agents_and_records_are_written() {
    let (context, busy) = busy_agent();
    let running = proctor_run(&context, &case()).spawn();
    wait_until(Duration::from_mins(1), "the agent", || busy.exists());
    running.interrupt();
    running.wait().assert_code(130);
    context.assert_nothing_left("mark-busy");
    assert_eq!(context.record()["outcome"], "interrupted");
    assert!(context.record()["completed_at"].is_string());
}

/// Killed without a chance to do anything: agents die with it, and there is a record.
#[test]
fn agents_die_with_a_proctor_that_is_killed() {
    let (context, busy) = busy_agent();
    let mut running = proctor_run(&context, &case()).spawn();
    wait_until(Duration::from_mins(1), "the agent", || busy.exists());
    running.kill();
    running.wait();
    context.assert_nothing_left("mark-busy");
    assert_eq!(context.record()["outcome"], "interrupted");
}
