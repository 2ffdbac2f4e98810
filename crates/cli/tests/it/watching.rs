//! Seeing runs: the event stream, watching, playing back, listing, cleaning; and the live view on
//! a real terminal, that of tmux.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Terminal, TestContext, processes_with, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    claude_case, context, init, install_claude, print, proctor_run, result, says, with, write,
};

/// Generous: the machine may be busy.
const SOON: Duration = Duration::from_mins(1);

/// A suite of these agents on one task.
fn suite(context: &TestContext, agents: &Value, more: &Value) -> Utf8PathBuf {
    let case = with(&claude_case(), &json!({"name": "task", "repo": "../repo"}));
    fs_err::write(context.root().join("cases/case.json"), case.to_string()).unwrap();
    let suite = json!({
        "agents": agents, "tasks": [{"testcase": "cases/case.json"}],
        "results": {"dir": "results"},
    });
    let path = context.root().join("suite.json");
    fs_err::write(&path, with(&suite, more).to_string()).unwrap();
    path
}

/// An agent that says something, waits for so long, and changes a file.
fn slow(context: &TestContext, ms: u64) -> Value {
    let steps = json!([print("working 日本語\n"), {"sleep_ms": ms}, write("new.txt", "x\n")]);
    context.install_fake("slow", &steps);
    json!({"name": "slow", "type": "command", "config": {"command": ["slow"]}})
}

fn finished_run(context: &TestContext) -> Utf8PathBuf {
    let agents = json!([slow(context, 0), {"name": "floor", "type": "null"}]);
    let path = suite(
        context,
        &agents,
        &json!({"trials": 2, "keep_workspace": "all"}),
    );
    context.proctor(["run", path.as_str()]).run().assert_code(0);
    context.root().join("results/latest")
}

fn events(trial: &Utf8Path) -> Vec<Value> {
    let text = fs_err::read_to_string(trial.join("artifacts/events.ndjson")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn events_are_stored_next_to_the_record() {
    let context = context();
    let long = "word ".repeat(2000);
    let tool = |id: &str, content: Value| {
        json!({"line": {
            "type": "assistant", "session_id": "s-1", "parent_tool_use_id": null,
            "message": {"id": id, "role": "assistant", "model": "m", "content": [content]},
        }})
    };
    let answer = json!({"line": {
        "type": "user", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t-1", "content": "no such file", "is_error": true},
        ]},
    }});
    let call =
        json!({"type": "tool_use", "id": "t-1", "name": "Edit", "input": {"file_path": "a.rs"}});
    let steps = [
        init(),
        tool("m-1", call),
        answer,
        says("m-2", &long),
        result(),
    ];
    install_claude(&context, &steps);
    let output = proctor_run(&context, &claude_case()).arg("--json").run();
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let events = events(Utf8Path::new(summary["run_dir"].as_str().unwrap()));
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"started"));
    assert_eq!(names.last(), Some(&"ended"));
    let find = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(find("session")["session_id"], "s-1");
    assert_eq!(
        (&find("tool")["tool"], &find("tool")["target"]),
        (&json!("Edit"), &json!("a.rs"))
    );
    assert_eq!(find("tool_result")["is_error"], true);
    let said = find("said");
    let kept = said["text"].as_str().unwrap().len();
    assert_eq!(kept, 4096, "a long text is cut");
    assert_eq!(said["cut_bytes"], 10_000 - kept);
    assert!(find("usage")["output_tokens"].as_u64().is_some());
    assert_eq!(find("judged")["evaluator"], "git-diff");
    assert_eq!(find("ended")["cost_usd"], 0.0153);
    let times: Vec<u64> = events
        .iter()
        .map(|event| event["t"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_session_is_played_back_in_lines() {
    let context = context();
    let trial = finished_run(&context).join("trials/slow/task/trial-1");
    let named = [
        trial.clone(),
        trial.join("artifacts"),
        trial.join("artifacts/events.ndjson"),
    ];
    for named in &named {
        let output = context
            .proctor(["replay", named.as_str(), "--speed", "100"])
            .run();
        output.assert_code(0);
        let lines: Vec<&str> = output.stdout.lines().map(|line| &line[8..]).collect();
        assert_eq!(
            lines,
            [
                "slow on task, trial 1",
                "preparing the workspace",
                "running the agent",
                "“working 日本語”",
                "judging",
                "git-diff passed: 1 file changed (+1/-0 lines)",
                "passed (completed), 1 file changed",
            ]
        );
    }
    let output = context.proctor(["replay", "cases"]).run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("no events.ndjson found in cases"),
        "{output}"
    );
}

#[test]
fn a_run_is_watched_in_lines_until_it_ends() {
    let context = context();
    let path = suite(
        &context,
        &json!([slow(&context, 3000)]),
        &json!({"trials": 2}),
    );
    let running = context.proctor(["run", path.as_str()]).spawn();
    let record = context
        .root()
        .join("results/latest/trials/slow/task/trial-1/artifacts/record.json");
    wait_until(SOON, "the first trial begins", || record.exists());
    let listed = context.proctor(["list", "runs", "--json"]).run();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed[0]["is_running"], &listed[0]["trials"]),
        (&json!(true), &json!(2))
    );
    let watched = context.proctor(["watch"]).run();
    running.wait().assert_code(0);
    watched.assert_code(0);
    for line in [
        "running      slow on task, trial 1",
        "passed       slow on task, trial 1",
        "passed       slow on task, trial 2",
        "2 trials: 2 passed",
    ] {
        assert!(watched.stdout.contains(line), "{line}: {watched}");
    }
    let unknown = context.proctor(["watch", "nowhere"]).run();
    unknown.assert_code(2);
    assert!(
        unknown.stderr.contains("run nowhere not found"),
        "{unknown}"
    );
}

#[test]
fn list_runs_shows_results() {
    let context = context();
    assert!(
        context
            .proctor(["list", "runs"])
            .run()
            .stdout
            .starts_with("no runs found")
    );
    finished_run(&context);
    let output = context.proctor(["list", "runs"]).run();
    output.assert_code(0);
    let row: Vec<&str> = output
        .stdout
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    // Behind its id, date and time.
    assert_eq!(
        row[3..],
        ["suite.json", "floor,", "slow", "4/4", "4", "0", "0", "–"]
    );
    let linked = context.proctor(["list", "runs", "results/latest"]).run();
    assert_eq!(linked.stdout, output.stdout);
    let path = suite_of_one_case(&context);
    context.proctor(["run", path.as_str()]).run().assert_code(0);
    let output = context.proctor(["list", "runs", ".", "--json"]).run();
    let runs: Value = serde_json::from_str(&output.stdout).unwrap();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 2, "test cases and suites: {output}");
    assert!(runs.iter().any(|run| run["suite"] == "task"), "{output}");
    assert!(
        context
            .proctor(["list"])
            .run()
            .stdout
            .starts_with("Agents:\n")
    );
}

/// A test case as a run of its own.
fn suite_of_one_case(context: &TestContext) -> Utf8PathBuf {
    let case = json!({"name": "task", "agent": {"type": "null", "config": null}});
    let path = context.root().join("cases/null.json");
    fs_err::write(&path, with(&claude_case(), &case).to_string()).unwrap();
    path
}

#[test]
fn clean_lists_removals_and_keeps_active_runs() {
    let context = context();
    let run = finished_run(&context).canonicalize_utf8().unwrap();
    let workspace = run.join("trials/slow/task/trial-1/src-modified");
    let temp = context.root().join("tmp");
    fs_err::create_dir_all(temp.join("proctor-dead/home")).unwrap();
    fs_err::write(temp.join("proctor-dead.lock"), "").unwrap();
    let clean = |args: &[&str]| context.proctor([&["clean"], args].concat()).run();
    let reported = clean(&["--workspaces", "--dry-run"]);
    reported.assert_code(0);
    assert!(
        reported
            .stdout
            .contains(&format!("would remove {workspace} (")),
        "{reported}"
    );
    assert!(
        reported.stdout.contains("would remove") && temp.join("proctor-dead").exists(),
        "{reported}"
    );
    assert!(workspace.exists(), "a dry run removes nothing");
    let swept = clean(&[]);
    assert!(
        swept
            .stdout
            .contains(&format!("removed {temp}/proctor-dead")),
        "{swept}"
    );
    assert!(workspace.exists() && !temp.join("proctor-dead").exists());
    clean(&["--workspaces"]).assert_code(0);
    assert!(!workspace.exists() && run.join("summary.json").exists());
    assert_eq!(clean(&["--older-than", "7d"]).stdout, "nothing to remove\n");
    let lock = fs_err::File::open(run.join(".lock")).unwrap();
    lock.file().try_lock().unwrap();
    let id = run.file_name().unwrap();
    let refused = clean(&[id]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("is running"), "{refused}");
    assert!(
        clean(&["--older-than", "0s"])
            .stdout
            .contains(&format!("kept {run}: it is running"))
    );
    drop(lock);
    clean(&[id]).assert_code(0);
    assert!(!run.exists() && !context.root().join("results/latest").is_symlink());
}

#[test]
fn a_view_without_a_terminal_is_refused_before_anything_runs() {
    let context = context();
    let path = suite(&context, &json!([{"type": "null"}]), &json!({}));
    let output = context.proctor(["run", path.as_str(), "--tui"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("--tui needs a terminal"), "{output}");
    assert!(!context.root().join("results").exists());
}

#[test]
fn a_run_is_seen_and_steered_in_a_real_terminal_tmux() {
    let context = context();
    let agents = json!([slow(&context, 120_000), {"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({"trials": 2, "parallel": 2}));
    let words = format!("run {path}");
    let Some(terminal) = Terminal::open(&context, "the live view", &[], &words) else {
        return;
    };
    let screen = terminal.sees("working 日本語");
    assert!(screen.contains("slow · task #1"), "{screen}");
    terminal.sees("✓ task #1");
    terminal.press(&["p"]);
    terminal.sees("paused: not starting more trials");
    terminal.press(&["p"]);
    terminal.press(&["/", "slow", "Enter"]);
    terminal.sees("[/slow]");
    terminal.press(&["/", "Escape"]);
    terminal
        .tmux(&["resize-window", "-x", "50", "-y", "12"])
        .assert_code(0);
    let narrow = terminal.sees("2 running");
    assert!(narrow.lines().count() <= 12, "{narrow}");
    terminal.press(&["Enter"]);
    terminal.sees("slow · task #1 · running");
    terminal.press(&["c"]);
    terminal.sees("Stop slow · task #1? y/n");
    terminal.press(&["y"]);
    terminal.sees("3/4 done");
    let trial = context
        .root()
        .join("results/latest/trials/slow/task/trial-1");
    let record = fs_err::read(trial.join("artifacts/record.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["outcome"], "interrupted");
    terminal.press(&["q"]);
    terminal.sees("Stop the run?");
    terminal.press(&["y"]);
    let left = terminal.is_given_back(130);
    assert!(
        left.contains("next: proctor show slow/task#1"),
        "the summary stays\n{left}"
    );
    drop(terminal);
    context.assert_nothing_left("");
}

#[test]
fn terminal_is_restored_after_a_signal_tmux() {
    let context = context();
    let agents = json!([slow(&context, 120_000)]);
    let path = suite(&context, &agents, &json!({"trials": 2, "parallel": 2}));
    let words = format!("run {path}");
    let Some(terminal) = Terminal::open(&context, "signals in the live view", &[], &words) else {
        return;
    };
    terminal.sees("working 日本語");
    end(&format!("run\0{path}"));
    terminal.is_given_back(130);
}

#[test]
fn closed_terminal_ends_the_run_and_the_view_tmux() {
    let context = context();
    let agents = json!([slow(&context, 120_000)]);
    let path = suite(&context, &agents, &json!({"trials": 2, "parallel": 2}));
    let words = format!("run {path}");
    let Some(terminal) = Terminal::open(&context, "closed terminals", &[], &words) else {
        return;
    };
    terminal.sees("working 日本語");
    terminal.tmux(&["kill-server"]).assert_code(0);
    wait_until(SOON, "proctor ends", || {
        let left = processes_with(path.as_str());
        !left.iter().any(|process| process.contains("proctor"))
    });
    context.assert_nothing_left("");
}

/// Send SIGTERM to the `proctor` with these words.
fn end(words: &str) {
    let found = processes_with(env!("CARGO_BIN_EXE_proctor"));
    let words = words.replace('\0', " ");
    let found = found.iter().find(|process| {
        process.contains(&words) && !process.contains("sh -c") && !process.contains("tmux")
    });
    let pid = found.unwrap().split(':').next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn a_finished_run_is_watched_and_played_back_in_a_real_terminal_tmux() {
    let context = context();
    let run = finished_run(&context);
    let Some(terminal) = Terminal::open(&context, "watching", &[], "watch") else {
        return;
    };
    terminal.sees("4/4 done");
    terminal.press(&["t"]);
    terminal.sees("git-diff passed");
    terminal.press(&["q"]);
    let left = terminal.is_given_back(0);
    assert!(left.contains("4 trials: 4 passed"), "{left}");
    drop(terminal);
    let words = format!("replay {run}/trials/slow/task/trial-1");
    let terminal = Terminal::open(&context, "playing back", &[], &words).unwrap();
    terminal.sees("working 日本語");
    terminal.sees("passed (completed), 1 file changed");
    terminal.press(&["C-c"]);
    terminal.is_given_back(0);
}
