//! Rough treatment: the CLI is killed, wrapped, talkative or cut off, and runs share a moment.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use proctor_scripted_model::{Answer, Script, ScriptedModel};
use proctor_testkit::{llm, processes_with, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{LATEST, Trial, codes, expect};

#[test]
fn a_cli_that_is_killed_is_named_as_killed() {
    let Some(trial) = Trial::of(LATEST, Script::new([Answer::hang().forever()])) else {
        return;
    };
    let running = trial.program(json!({})).spawn();
    wait_until(Duration::from_mins(1), "the CLI asks the model", || {
        !trial.model.turns().is_empty()
    });
    let found = processes_with(trial.ctx.root().as_str());
    let cli = found
        .iter()
        .find(|process| process.contains("--output-format"));
    let (pid, _) = cli
        .unwrap_or_else(|| panic!("{found:?}"))
        .split_once(':')
        .unwrap();
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    running.wait().assert_code(1);
    trial.assert_tidy();
    let record = trial.record();
    expect(&record, "/outcome", "agent_error");
    expect(&record, "/process/signal", 9);
    assert_eq!(codes(&record), ["CLAUDE_KILLED"]);
}

#[test]
fn two_runs_at_once_do_not_touch_each_other() {
    let script = || llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script()) else {
        return;
    };
    let other_model = ScriptedModel::start_blocking(script()).unwrap();
    let one = trial.program(json!({})).spawn();
    let other = trial.program(json!({})).model(&other_model).spawn();
    one.wait().assert_code(0);
    other.wait().assert_code(0);
    trial.assert_tidy();
    let runs = trial.ctx.run_dirs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in runs {
        let text = fs_err::read_to_string(run.join("artifacts/record.json")).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        expect(&record, "/status", "passed");
        expect(&record, "/usage/input_tokens", 2 * llm::USAGE.input);
    }
}

#[test]
fn a_wrapper_that_waits_for_the_cli_is_ended_with_it() {
    let Some(trial) = Trial::of(LATEST, Script::new([Answer::hang().forever()])) else {
        return;
    };
    trial.rewrap(|script| script.replace("\nexec ", "\n") + "\nexit $?\n");
    let limit = Duration::from_secs(6);
    trial.program_within(limit, json!({})).run().assert_code(1);
    trial.assert_tidy();
    let record = trial.record();
    expect(&record, "/outcome", "timeout");
    assert!(
        record["process"]["duration_ms"].as_u64() < Some(7000),
        "{record:#}"
    );
}

#[test]
fn a_wrapper_that_prints_a_banner_first_costs_a_warning_only() {
    let Some(trial) = Trial::of(LATEST, llm::says("done")) else {
        return;
    };
    trial.rewrap(|script| script.replace("\nexec ", "\necho 'Welcome to the wrapper!'\nexec "));
    trial.run(json!({})).assert_code(0);
    let record = trial.record();
    expect(&record, "/outcome", "completed");
    expect(&record, "/usage/input_tokens", llm::USAGE.input);
    expect(&record, "/counts/malformed_lines", 1);
    assert_eq!(codes(&record), ["CLAUDE_MALFORMED_LINE"]);
}

/// The fields that the driver sends with the prompt only.
const PROMPT_FRAME: &[u8] = br#""type":"user""#;

/// A relay that breaks its first connection when the prompt has gone through. The path of the
/// request that opens a connection is the port to pass it on to. Returns its own port, and tells
/// of each connection.
fn breaking_relay() -> (u16, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (opened, receiver) = mpsc::channel();
    thread::spawn(move || {
        for (number, cli) in listener.incoming().flatten().enumerate() {
            let _ = opened.send(());
            thread::spawn(move || relay(cli, number == 0));
        }
    });
    (port, receiver)
}

fn relay(mut cli: TcpStream, breaks: bool) {
    let mut first = [0; 4096];
    let read = cli.read(&mut first).unwrap();
    let request = String::from_utf8_lossy(&first[..read]).into_owned();
    let path = request.split_whitespace().nth(1).unwrap();
    let port: u16 = path.trim_matches('/').parse().unwrap();
    let mut driver = TcpStream::connect(("127.0.0.1", port)).unwrap();
    driver.write_all(&first[..read]).unwrap();
    let (mut from_cli, mut to_driver) = (cli.try_clone().unwrap(), driver.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from_cli, &mut to_driver));
    let mut frames = vec![0; 65536];
    // Either side may go at any time.
    while let Ok(read @ 1..) = driver.read(&mut frames) {
        let frame = &frames[..read];
        if cli.write_all(frame).is_err() {
            break;
        }
        if breaks
            && frame
                .windows(PROMPT_FRAME.len())
                .any(|part| part == PROMPT_FRAME)
        {
            // The CLI has read it by then, and waits for the model.
            thread::sleep(Duration::from_secs(1));
            break;
        }
    }
    let _ = (
        cli.shutdown(Shutdown::Both),
        driver.shutdown(Shutdown::Both),
    );
}

#[test]
fn a_cli_that_connects_again_does_not_get_the_task_again() {
    let usage = llm::USAGE;
    let late = Duration::from_secs(4);
    let write = json!({"file_path": "hello.txt", "content": "hi\n"});
    let script = Script::new([
        Answer::tool_use("Write", write).usage(usage).after(late),
        Answer::text("written").usage(usage),
    ]);
    let Some(trial) = Trial::of("2.1.30", script) else {
        return;
    };
    let (port, connections) = breaking_relay();
    let detour = format!(
        r#"
for word do
  case "$word" in ws://127.0.0.1:*) word="ws://127.0.0.1:{port}/${{word##*:}}" ;; esac
  set -- "$@" "$word"
  shift
done
exec "#
    );
    trial.rewrap(|script| script.replace("\nexec ", &detour));
    let prompt = "write it once and once only";
    let config = json!({"transport": "websocket", "prompt": prompt});
    trial.run(config).assert_code(0);
    assert!(connections.try_iter().count() >= 2, "it connected again");
    let turns = trial.model.turns();
    assert_eq!(turns.len(), 2);
    // A second prompt would come along with the result of the tool.
    let asked = turns[1].body.to_string();
    assert_eq!(asked.matches(prompt).count(), 1, "{asked}");
    let record = trial.record();
    expect(&record, "/outcome", "completed");
    expect(&record, "/diff/files_changed", 1);
    expect(&record, "/usage/input_tokens", 2 * usage.input);
}
