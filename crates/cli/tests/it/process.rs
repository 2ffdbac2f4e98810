//! Agents as processes: they end in time regardless of their descendants, signals and output, leave
//! nothing behind, and Proctor stays small. Numbers in comments are those of the project's list of
//! cases that harnesses get wrong.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Running, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    claude_case, claude_with, codes, command_case, context, init, install_claude, messages, print,
    proctor_run, result, run, saved, says, session, with, write, write_case,
};

/// How late the end of an agent may be on a machine that is busy; the promise is one second.
const LATE: Duration = Duration::from_secs(3);
/// More than Proctor needs in a debug build, far less than what agents print here.
const SMALL: u64 = 64 << 20;

/// Lets an agent do this before it hangs, and checks that its limit ends all of it in time.
#[track_caller]
fn check_ends_in_time(marker: &str, steps: &[Value]) -> TestContext {
    let context = context();
    let mut script = vec![init(), says("m-1", "working")];
    script.extend_from_slice(steps);
    script.push(json!({"sleep_ms": 300_000}));
    install_claude(&context, &script);
    let case = with(&claude_case(), &json!({"timeout": 1000}));
    run(&context, &case).assert_code(1);
    context.assert_nothing_left(marker);
    let record = context.record();
    assert_eq!(record["outcome"], "timeout");
    let took = Duration::from_millis(record["process"]["duration_ms"].as_u64().unwrap());
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert!(took < Duration::from_secs(1) + LATE, "{took:?}");
    assert!(codes(&context.log()).contains(&"CLAUDE_TIMEOUT"));
    context
}

fn child(fields: &Value) -> Value {
    let mut child = json!({"sleep_s": 300});
    child
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    json!({"spawn_child": child})
}

/// Case 11: a sleeping child does not keep the agent alive beyond its limit.
#[test]
fn a_child_ends_with_the_agent() {
    check_ends_in_time("mark-child", &[child(&json!({"marker": "mark-child"}))]);
}

/// Case 11: ignoring SIGTERM does not help.
#[test]
fn an_agent_that_ignores_sigterm_ends_in_time() {
    check_ends_in_time(
        "mark-deaf",
        &[
            json!("ignore_term"),
            child(&json!({"ignore_term": true, "marker": "mark-deaf"})),
        ],
    );
}

#[test]
fn child_in_its_own_session_ends_with_the_agent() {
    let child = child(&json!({"setsid": true, "ignore_term": true, "marker": "mark-setsid"}));
    check_ends_in_time("mark-setsid", &[child]);
}

#[test]
fn a_daemon_with_an_empty_environment_ends_with_the_agent() {
    let child = child(&json!({
        "setsid": true, "double_fork": true, "clear_env": true, "marker": "mark-daemon",
    }));
    check_ends_in_time("mark-daemon", &[child]);
}

/// Leftover processes of an agent that exits by itself are killed and recorded.
#[test]
fn leftover_processes_of_a_finished_agent_are_killed_and_recorded() {
    let context = context();
    let daemon = child(&json!({
        "setsid": true, "double_fork": true, "clear_env": true, "marker": "mark-left",
    }));
    install_claude(&context, &session(&[daemon]));
    run(&context, &claude_case()).assert_code(0);
    context.assert_nothing_left("mark-left");
    let record = context.record();
    assert_eq!(record["process"]["leaked"].as_array().unwrap().len(), 1);
    assert!(
        record["notes"]
            .to_string()
            .contains("left a process behind")
    );
}

/// A background process that holds stdout open does not hold up the end.
#[test]
fn held_stdout_does_not_hold_up_the_end() {
    let context = context();
    let mut steps = session(&[]);
    steps.push(json!({"hold_stdout": {"seconds": 300}}));
    install_claude(&context, &steps);
    let began = Instant::now();
    run(&context, &claude_case()).assert_code(0);
    assert!(began.elapsed() < Duration::from_secs(30));
    context.assert_nothing_left("hold-stdout");
}

/// A wrapper that starts the real program as its child is covered too.
#[test]
fn a_wrapped_agent_ends_with_its_wrapper() {
    let context = context();
    context.install_fake(
        "wrapped",
        &json!(["ignore_term", {"print": {"text": "up\n"}}, {"sleep_ms": 300_000}]),
    );
    script(
        &context.bin().join("agent"),
        "#!/bin/sh\n\"$(dirname \"$0\")/wrapped\" mark-wrapped &\nwait\n",
    );
    let program = context.bin().join("agent");
    let case = with(&command_case(program.as_str()), &json!({"timeout": 1000}));
    run(&context, &case).assert_code(1);
    context.assert_nothing_left("mark-wrapped");
    assert_eq!(context.record()["outcome"], "timeout");
    assert_eq!(raw(&context, "stdout"), b"up\n");
}

fn script(path: &Utf8Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs_err::write(path, text).unwrap();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn raw(context: &TestContext, stream: &str) -> Vec<u8> {
    fs_err::read(context.artifact("raw").join(stream)).unwrap()
}

/// The terminal log of the only run, by this agent.
fn transcript(context: &TestContext, agent: &str) -> Utf8PathBuf {
    let folder = context.artifact(&format!("{agent}-logs"));
    let files: Vec<_> = folder.read_dir_utf8().unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    files[0].path().to_owned()
}

/// Runs a test case and returns the largest resident size of Proctor, in bytes.
#[track_caller]
fn peak_memory(context: &TestContext, case: &Value, exit: i32) -> u64 {
    let mut running = proctor_run(context, case).spawn();
    let mut peak = 0;
    while running.is_running() {
        peak = peak.max(resident_peak(&running));
        std::thread::sleep(Duration::from_millis(5));
    }
    running.wait().assert_code(exit);
    assert!(peak > 0, "it was never seen");
    peak
}

fn resident_peak(running: &Running) -> u64 {
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let status = fs_err::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Case 14: memory does not grow with the output, and the result behind it is still read.
#[test]
fn large_output_does_not_use_memory() {
    const FLOOD: u64 = 200 << 20;
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            json!({"flood": {"bytes": FLOOD, "line_len": 1 << 16}}),
            says("m-1", "done"),
            result(),
        ],
    );
    let peak = peak_memory(&context, &claude_case(), 0);
    assert!(peak < SMALL, "{peak}");
    let (record, log) = (context.record(), context.log());
    assert_eq!(record["outcome"], "completed");
    assert_eq!(record["usage"]["cost_usd"], 0.0153);
    assert_eq!(log["counts"]["malformed_lines"], FLOOD >> 16);
    let written = context.artifact("raw/stdout").metadata().unwrap().len();
    assert_eq!(record["process"]["output"]["stdout_bytes"], written);
    assert!(written > FLOOD);
}

/// A line of 100 MB is kept raw and counted; the events after it are read.
#[test]
fn a_line_of_100_mb_is_survived() {
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            json!({"long_line": {"bytes": 100_000_000}}),
            says("m-1", "done"),
            result(),
        ],
    );
    let peak = peak_memory(&context, &claude_case(), 0);
    assert!(peak < SMALL, "{peak}");
    let log = context.log();
    assert_eq!(log["counts"]["oversized_lines"], 1);
    assert_eq!(log["counts"]["malformed_lines"], 0);
    assert_eq!(log["usage"]["output_tokens"], 40);
    assert!(context.artifact("raw/stdout").metadata().unwrap().len() > 100_000_000);
}

/// CR-2.9, CR-3.11: at 10 MB the terminal log is cut with a marker and an error entry, while the
/// agent runs on, the raw log is whole, and result and usage are read.
#[test]
fn the_terminal_log_is_cut_at_10_mb_and_nothing_else_is() {
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            json!({"flood": {"bytes": 10_000_000, "line_len": 1 << 16}}),
            json!({"flood": {"bytes": 5_000_000, "line_len": 1 << 16, "stream": "stderr"}}),
            write("after.txt", "x\n"),
            says("m-1", "done"),
            result(),
        ],
    );
    run(&context, &claude_case()).assert_code(0);
    let log = context.log();
    assert!(codes(&log).contains(&"CLAUDE_OUTPUT_TRUNCATED"), "{log:#}");
    assert!(messages(&log).contains("truncated at 10485760 bytes (10 MB limit)"));
    assert_eq!(log["usage"]["cost_usd"], 0.0153);
    assert_eq!(context.record()["diff"]["files_changed"], 1);
    let text = fs_err::read(transcript(&context, "claude-code")).unwrap();
    let marker = String::from_utf8_lossy(&text[10_485_760..]).into_owned();
    assert!(marker.starts_with("\n[OUTPUT TRUNCATED"), "{marker}");
    assert!(marker.len() < 200, "nothing follows the marker");
    assert_eq!(raw(&context, "stderr").len(), 5_000_000);
    assert!(raw(&context, "stdout").len() > 10_000_000);
}

/// The limits of both logs are options.
#[test]
fn the_limits_of_the_logs_are_options() {
    let context = context();
    context.install_fake("agent", &json!([{"flood": {"bytes": 5000}}]));
    let limits = json!({"output": {"transcript_bytes": 100, "raw_bytes": 1000}});
    run(&context, &with(&command_case("agent"), &limits)).assert_code(0);
    assert_eq!(raw(&context, "stdout").len(), 1000);
    let text = fs_err::read_to_string(transcript(&context, "command")).unwrap();
    assert_eq!(text.find("\n[OUTPUT TRUNCATED"), Some(100));
    let record = context.record();
    assert_eq!(record["process"]["output"]["stdout_bytes"], 5000);
    assert_eq!(record["process"]["output"]["raw_truncated"], true);
    assert_eq!(codes(&record), ["OUTPUT_TRUNCATED", "RAW_OUTPUT_TRUNCATED"]);
}

/// Case 13, SC-002, CR-2.8: raw logs are byte-exact for any bytes and any chunk boundaries.
#[test]
fn raw_logs_are_byte_exact() {
    let context = context();
    let mut bytes: Vec<u8> = (0..200_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    bytes.extend_from_slice("no newline at the end: é".as_bytes());
    let file = saved(&context, "bytes");
    fs_err::write(&file, &bytes).unwrap();
    context.install_fake(
        "agent",
        &json!([
            {"emit": {"path": file}},
            {"split_utf8": {"text": "naïve 🎉", "pause_ms": 30}},
            "invalid_utf8",
            {"print": {"text": "wärning", "stream": "stderr"}},
        ]),
    );
    run(&context, &command_case("agent")).assert_code(0);
    let mut expected = bytes;
    expected.extend_from_slice("naïve 🎉".as_bytes());
    expected.extend_from_slice(b"\xff\xfe \xc3( invalid\n");
    assert!(raw(&context, "stdout") == expected, "stdout differs");
    assert_eq!(raw(&context, "stderr"), "wärning".as_bytes());
}

/// Case 13: a character that arrives in two pieces is one character in the log.
#[test]
fn a_character_in_two_pieces_is_one() {
    let context = context();
    let event = says("m-1", "naïve 🎉")["line"].to_string();
    let result = result()["line"].to_string();
    install_claude(
        &context,
        &[
            init(),
            json!({"split_utf8": {"text": format!("{event}\n"), "pause_ms": 50}}),
            json!("invalid_utf8"),
            // No newline at the end: the last line counts all the same.
            print(&result),
        ],
    );
    run(&context, &claude_case()).assert_code(0);
    let log = context.log();
    assert_eq!(log["messages"][0]["content"], "naïve 🎉");
    assert_eq!(log["counts"]["malformed_lines"], 1);
    assert_eq!(log["usage"]["output_tokens"], 40);
}

/// An agent that asks for input finds stdin closed, and silence ends it.
#[test]
fn an_agent_that_asks_for_input_is_ended_by_the_idle_limit() {
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            json!({"save_stdin": saved(&context, "stdin")}),
            json!({"ask": {
                "text": "Continue? [y/N] ",
                "answered": [{"exit": 9}],
                "closed": [{"sleep_ms": 300_000}],
            }}),
        ],
    );
    let case = with(
        &claude_case(),
        &json!({"idle_timeout": 1000, "timeout": 200_000}),
    );
    let began = Instant::now();
    run(&context, &case).assert_code(1);
    assert!(began.elapsed() < Duration::from_mins(1));
    let record = context.record();
    assert_eq!(record["outcome"], "timeout");
    assert_eq!(record["process"]["ended_by"], "idle_limit");
    assert!(messages(&context.log()).contains("idle timeout of 1000 ms"));
    context.assert_nothing_left("");
}

/// An agent that keeps printing is not idle, and `timeout: 0` means no limit.
#[test]
fn an_agent_that_keeps_talking_is_not_idle() {
    let context = context();
    let talk: Vec<Value> = (0..8)
        .flat_map(|n| [print(&format!("{n}\n")), json!({"sleep_ms": 300})])
        .collect();
    context.install_fake("agent", &Value::Array(talk));
    let limits = json!({"idle_timeout": 2000, "timeout": 0});
    run(&context, &with(&command_case("agent"), &limits)).assert_code(0);
}

/// A fake that says by a file that it is at work, with a child that is hard to end.
fn install_busy(context: &TestContext) {
    install_claude(
        context,
        &[
            init(),
            says("m-1", "working"),
            write("half-done.txt", "x\n"),
            child(
                &json!({"setsid": true, "double_fork": true, "clear_env": true, "marker": "mark-busy"}),
            ),
            write(saved(context, "busy").as_str(), ""),
            json!({"sleep_ms": 300_000}),
        ],
    );
}

#[track_caller]
fn wait_for_busy(context: &TestContext) {
    let busy = saved(context, "busy");
    wait_until(Duration::from_secs(30), "the agent at work", || {
        busy.exists()
    });
}

/// Case 17: a signal ends the agent and leaves a record.
#[test]
fn a_signal_to_proctor_ends_the_agent_and_leaves_a_record() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let context = context();
        install_busy(&context);
        let running = proctor_run(&context, &claude_case()).spawn();
        wait_for_busy(&context);
        let began = Instant::now();
        running.signal(signal);
        running.wait().assert_code(130);
        assert!(began.elapsed() < Duration::from_secs(10));
        context.assert_nothing_left("mark-busy");
        let (record, log) = (context.record(), context.log());
        assert_eq!(record["outcome"], "interrupted");
        assert_eq!(record["status"], "interrupted");
        assert_eq!(record["usage"]["lower_bound"], true);
        assert!(record["completed_at"].is_string());
        assert_eq!(log["messages"][0]["content"], "working");
        assert_eq!(record["diff"]["files_changed"], 1, "what it did is kept");
        assert_no_area(&context);
    }
}

/// A run that is interrupted while it judges is interrupted, not judged.
#[test]
fn a_signal_while_judging_interrupts_the_run() {
    let context = context();
    install_claude(&context, &session(&[]));
    let busy = saved(&context, "busy");
    let line = format!("touch {busy}; sleep 300");
    let evaluator = json!({"name": "command", "config": {"command": line}});
    let case = with(
        &claude_case(),
        &json!({"evaluators": [evaluator, "git-diff"]}),
    );
    let running = proctor_run(&context, &case).spawn();
    wait_for_busy(&context);
    running.signal(Signal::INT);
    running.wait().assert_code(130);
    assert_eq!(context.record()["status"], "interrupted");
    context.assert_nothing_left("");
}

fn areas(context: &TestContext) -> Vec<String> {
    let entries = context
        .root()
        .join("tmp")
        .read_dir_utf8()
        .unwrap()
        .flatten();
    entries.map(|entry| entry.file_name().to_owned()).collect()
}

#[track_caller]
fn assert_no_area(context: &TestContext) {
    assert_eq!(areas(context), Vec::<String>::new());
}

/// Promise 1: Proctor killed without warning takes the agent along, the record that was written
/// at the start says so, and the next run sweeps what is left.
#[test]
fn killing_proctor_kills_the_agent() {
    let context = context();
    install_busy(&context);
    let running = proctor_run(&context, &claude_case()).spawn();
    wait_for_busy(&context);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    wait_until(Duration::from_secs(10), "the end of the agent", || {
        proctor_testkit::processes_with(context.root().as_str()).is_empty()
    });
    context.assert_nothing_left("mark-busy");
    let record = context.record();
    assert_eq!(record["outcome"], "interrupted");
    assert_eq!(record["status"], "interrupted");
    assert!(record.get("completed_at").is_none());
    assert_eq!(
        areas(&context).len(),
        4,
        "two folders, the trial's and the base's, and their locks"
    );
    install_claude(&context, &session(&[]));
    run(&context, &claude_case()).assert_code(0);
    assert_no_area(&context);
    assert_eq!(context.run_dirs().len(), 2);
}

/// Case 18: runs that start in the same second have folders of their own.
#[test]
fn runs_started_at_once_do_not_meet() {
    let context = context();
    install_claude(
        &context,
        &session(&[json!({"sleep_ms": 300}), write("new.txt", "x\n")]),
    );
    let path = write_case(&context, &claude_case());
    let running: Vec<Running> = (0..3)
        .map(|_| {
            let program = context.proctor(["run", "-c", path.as_str()]);
            program.env("ANTHROPIC_API_KEY", "sk-ant-fake").spawn()
        })
        .collect();
    for one in running {
        one.wait().assert_code(0);
    }
    assert_eq!(context.run_dirs().len(), 3);
    assert_no_area(&context);
}

/// An agent that floods is ended at its output limit, and what it wrote up to then is kept.
#[test]
fn an_output_limit_ends_a_flood() {
    let context = context();
    context.install_fake(
        "agent",
        &json!([{"flood": {"bytes": 50_000_000}}, {"sleep_ms": 60_000}]),
    );
    let limit = json!({"output": {"max_bytes": 1_000_000}});
    run(&context, &with(&command_case("agent"), &limit)).assert_code(1);
    assert_eq!(context.record()["outcome"], "output_limit");
    assert_eq!(raw(&context, "stdout").len(), 1_000_000);
    context.assert_nothing_left("");
}

/// Seed 004: a CLI that says nothing on the WebSocket for the message deadline is stuck.
#[test]
fn a_silent_websocket_is_ended_at_the_message_deadline() {
    let context = context();
    let version = json!({"when_args": ["--version"], "steps": [print("2.1.30 (Claude Code)\n")]});
    let help = json!({"when_args": ["--help"], "steps": [print("Usage: claude\n")]});
    context.install_fake("claude", &json!([version, help, {"sleep_ms": 60_000}]));
    let config = json!({"transport": "websocket", "message_timeout": 1000});
    run(&context, &claude_with(&config)).assert_code(1);
    assert_eq!(context.record()["outcome"], "timeout");
    assert_eq!(context.record()["process"]["ended_by"], "idle_limit");
    context.assert_nothing_left("");
}

#[test]
fn a_setting_that_the_transport_does_not_use_is_refused() {
    let context = context();
    install_claude(&context, &session(&[]));
    for config in [
        json!({"message_timeout": 1000}),
        json!({"transport": "text", "include_partial_messages": true}),
    ] {
        let output = run(&context, &claude_with(&config));
        output.assert_code(2);
        assert!(output.stderr.contains("has no effect"), "{}", output.stderr);
    }
}
