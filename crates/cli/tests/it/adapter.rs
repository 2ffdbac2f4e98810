//! The contract of the Claude Code adapter: what is asked of the CLI, with which flags, in which
//! environment, and what the log makes of the answer. Each test names the requirement (CR) of
//! seed 002 or the acceptance scenario of seed 000 that it is about.

use serde_json::{Value, json};

use crate::{
    launch::start,
    support::{
        HELP, MODEL, VERSION, claude_case, claude_with, codes, context, init, install_claude,
        install_claude_that, messages, print, run, run_without_key, saved, says, session, shell,
        with, write,
    },
};

/// CR-1.1, CR-1.4: an installed CLI is found, with its version.
#[test]
fn an_installed_cli_is_found() {
    let context = context();
    install_claude(&context, &[]);
    let output = context.proctor(["doctor", "--json"]).run();
    output.assert_code(0);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found[1]["name"], "claude-code");
    assert_eq!(found[1]["version"], VERSION);
    assert_eq!(found[1]["authenticated"], true);
    assert_eq!(found[1]["path"], context.bin().join("claude").as_str());
}

/// CR-1.2, FR-017: a missing CLI is reported with an install hint, and nothing runs.
#[test]
fn missing_cli_is_reported_with_install_hint() {
    let context = context();
    let output = context.proctor(["doctor"]).run();
    output.assert_code(3);
    assert!(output.stdout.contains("not installed"), "{output}");
    let output = run(&context, &claude_case());
    output.assert_code(3);
    let log = context.log();
    assert_eq!(codes(&log), ["CLAUDE_CLI_NOT_FOUND"]);
    assert!(messages(&log).contains("npm install -g @anthropic-ai/claude-code"));
    assert!(
        output
            .stdout
            .contains("npm install -g @anthropic-ai/claude-code"),
        "{output}"
    );
    assert_eq!(context.record()["outcome"], "not_installed");
    assert_eq!(log["agent_info"]["version"], "unknown");
}

/// CR-1.3: a CLI that is not logged in fails at once, with how to fix it.
#[test]
fn a_cli_without_credentials_fails_with_how_to_fix_it() {
    let context = context();
    let steps = [write(saved(&context, "started").as_str(), "")];
    install_claude_that(
        &context,
        r#"{"loggedIn":false,"authMethod":"none"}"#,
        &steps,
    );
    let output = run_without_key(&context, &claude_case());
    output.assert_code(3);
    let log = context.log();
    assert_eq!(codes(&log), ["CLAUDE_AUTH_FAILED"]);
    let message = messages(&log);
    assert!(
        message.contains("authentication") && message.contains("API key"),
        "{message}"
    );
    assert!(message.contains("claude auth login"), "{message}");
    assert!(!saved(&context, "started").exists());
    let doctor = context.proctor(["doctor"]).run();
    assert!(doctor.stdout.contains("not logged in"), "{doctor}");
}

/// A version without an `auth` command would take the question for a prompt: it is not asked.
#[test]
fn old_cli_is_not_probed_for_its_login() {
    let context = context();
    let help = HELP.split("\nCommands:").next().unwrap();
    let asked = saved(&context, "asked");
    let mut script = vec![
        json!({"when_args": ["--version"], "steps": [print("2.0.30 (Claude Code)\n")]}),
        json!({"when_args": ["--help"], "steps": [print(help)]}),
        json!({"when_args": ["auth"], "steps": [write(asked.as_str(), "")]}),
    ];
    script.extend(session(&[]));
    context.install_fake("claude", &Value::Array(script));
    run_without_key(&context, &claude_case()).assert_code(0);
    assert!(!asked.exists());
}

/// Version and flags are asked once for each binary.
#[test]
fn cli_is_probed_once_per_binary() {
    let context = context();
    let asked = saved(&context, "asked");
    let ask = |text: &str| json!([{"append": {"path": asked, "text": "x"}}, print(text)]);
    let mut script = vec![
        json!({"when_args": ["--version"], "steps": ask("2.1.197 (Claude Code)\n")}),
        json!({"when_args": ["--help"], "steps": ask(HELP)}),
    ];
    script.extend(session(&[]));
    let program = context.install_fake("claude", &Value::Array(script));
    let count = || fs_err::read(&asked).unwrap().len();
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 2);
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 2);
    // A new binary in the same place is another one.
    let bytes = fs_err::read(&program).unwrap();
    fs_err::remove_file(&program).unwrap();
    fs_err::write(&program, bytes).unwrap();
    make_executable(&program);
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 4);
}

fn make_executable(path: &camino::Utf8Path) {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// CR-2.1, FR-003, scenario 1.1: print mode, stream-json, and permissions skipped by default.
#[test]
fn the_cli_runs_in_print_mode_with_permissions_skipped() {
    let started = start(&json!({}));
    assert!(started.has("-p"));
    assert_eq!(started.flag("--output-format"), "stream-json");
    assert!(
        started.has("--verbose"),
        "stream-json is refused without it"
    );
    assert!(started.has("--dangerously-skip-permissions"));
    for absent in [
        "--model",
        "--agent",
        "--agents",
        "--permission-mode",
        "--allowedTools",
    ] {
        assert!(!started.has(absent), "{absent}");
    }
    let log = started.context.log();
    assert_eq!(log["execution"]["status"], "success");
    assert_eq!(log["execution"]["exit_code"], 0);
    for time in ["started_at", "completed_at"] {
        let text = log["execution"][time].as_str().unwrap();
        assert!(
            text.len() >= 20 && text.ends_with('Z') && &text[10..11] == "T",
            "{text}"
        );
    }
}

/// CR-2.2, scenario 1.4: a failed run is a result, with its exit code and what was said.
#[test]
fn a_failed_run_keeps_its_exit_code_and_words() {
    let context = context();
    let complaint = json!({"print": {"text": "disk on fire\n", "stream": "stderr"}});
    install_claude(&context, &[init(), complaint, json!({"exit": 42})]);
    run(&context, &claude_case()).assert_code(1);
    let log = context.log();
    assert_eq!(log["execution"]["status"], "failed");
    assert_eq!(log["execution"]["exit_code"], 42);
    assert!(messages(&log).contains("disk on fire"), "{log:#}");
    let stderr = fs_err::read_to_string(context.artifact("raw/stderr")).unwrap();
    assert_eq!(stderr, "disk on fire\n");
}

/// CR-2.3: a timeout is a result, with what was printed before it.
#[test]
fn timeout_keeps_the_output() {
    let context = context();
    install_claude(
        &context,
        &[init(), says("m-1", "so far"), json!({"sleep_ms": 60_000})],
    );
    run(&context, &with(&claude_case(), &json!({"timeout": 1000}))).assert_code(1);
    let log = context.log();
    assert_eq!(log["execution"]["status"], "timeout");
    assert_eq!(log["execution"]["exit_code"], -1);
    assert!(messages(&log).contains("timeout of 1000 ms"), "{log:#}");
    assert!(log["execution"]["duration_ms"].as_u64().unwrap() >= 1000);
    assert_eq!(log["messages"][0]["content"], "so far");
}

/// CR-2.8, FR-004, scenario 1.2: all output is there, byte for byte.
#[test]
fn a_small_output_is_whole() {
    let context = context();
    install_claude(
        &context,
        &session(&[json!({"flood": {"bytes": 1024, "line_len": 64}})]),
    );
    run(&context, &claude_case()).assert_code(0);
    let raw = fs_err::read(context.artifact("raw/stdout")).unwrap();
    let logs = context.artifact("claude-code-logs");
    let log = logs.read_dir_utf8().unwrap().next().unwrap().unwrap();
    assert_eq!(fs_err::read(log.path()).unwrap(), raw);
    let flooded = raw
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"xx"));
    assert_eq!(flooded.map(|line| line.len() + 1).sum::<usize>(), 1024);
}

/// CR-2.10, FR-018: the CLI works in the workspace.
#[test]
fn the_cli_works_in_the_workspace() {
    let context = context();
    let place = saved(&context, "pwd");
    install_claude(
        &context,
        &session(&[shell(&format!("pwd > {place}; test -f README.md"))]),
    );
    run(&context, &claude_case()).assert_code(0);
    let place = fs_err::read_to_string(place).unwrap();
    assert!(place.trim().ends_with("/src-modified"), "{place}");
    assert!(
        !place.starts_with(context.repo().path().as_str()),
        "{place}"
    );
}

/// CR-2.12, FR-016: the terminal log has its place and a timestamp in its name.
#[test]
fn the_terminal_log_has_its_place() {
    let started = start(&json!({}));
    let logs = started.context.artifact("claude-code-logs");
    let names: Vec<String> = logs
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    let [name] = names.as_slice() else {
        panic!("{names:?}")
    };
    let stamp = name
        .strip_prefix("terminal-output-")
        .unwrap()
        .strip_suffix(".log")
        .unwrap();
    assert!(stamp.starts_with("20") && stamp.ends_with('Z'), "{stamp}");
}

/// CR-3.2 to CR-3.6: who ran, which model answered, when, what was said.
#[test]
fn log_has_agent_info_and_messages() {
    let context = context();
    let thinking = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": MODEL, "content": [{"type": "thinking", "thinking": "hmm"}],
    }}});
    let call = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": MODEL, "content": [{
            "type": "tool_use", "id": "t-1", "name": "Read", "input": {"file_path": "a.rs"},
        }],
    }}});
    let answer = json!({"line": {"type": "user", "message": {"role": "user", "content": [{
        "type": "tool_result", "tool_use_id": "t-1", "content": "fn main() {}", "is_error": false,
    }]}}});
    install_claude(&context, &session(&[thinking, call, answer]));
    run(&context, &claude_case()).assert_code(0);
    let (log, record) = (context.log(), context.record());
    assert_eq!(log["agent_info"]["name"], "claude-code");
    assert_eq!(log["agent_info"]["version"], VERSION);
    assert_eq!(
        log["agent_info"]["adapter_version"],
        record["agent"]["adapter_version"]
    );
    assert_eq!(log["model_info"]["name"], MODEL);
    assert_eq!(log["model_info"]["provider"], "anthropic");
    assert_eq!(log["execution"]["session_id"], "s-1");
    assert_eq!(log["execution"]["turns"], 1);
    let said: Vec<(&str, &str)> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (
                message["role"].as_str().unwrap(),
                message["content"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(said, [("assistant", "hmm"), ("assistant", "done")]);
    let call = &log["tool_calls"][0];
    assert_eq!(call["name"], "Read");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"file_path": "a.rs"}));
    assert_eq!(call["result"], "fn main() {}");
    assert_eq!(call["is_error"], false);
}

/// CR-3.4: a model that no output names is the one that was asked for.
#[test]
fn model_falls_back_to_the_requested_one() {
    let context = context();
    install_claude(&context, &[json!({"exit": 1})]);
    run(&context, &claude_with(&json!({"model": "claude-opus-4-8"}))).assert_code(1);
    assert_eq!(context.log()["model_info"]["name"], "claude-opus-4-8");
}

/// CR-3.7 to CR-3.9: the forms of a plain-text transcript, without colours.
#[test]
fn a_plain_text_transcript_is_read() {
    let context = context();
    let text = "\u{1b}[1mClaude Code v2.1.30\u{1b}[0m\nModel: claude-sonnet-4-5\n\u{1b}[32mHello\u{1b}[0m\n[TOOL: read_file] path/to/file\nInput tokens: 1234\nOutput tokens: 5678\n";
    install_claude(&context, &[print(text)]);
    run(&context, &claude_with(&json!({"transport": "text"}))).assert_code(0);
    let log = context.log();
    assert_eq!(log["agent_info"]["version"], "2.1.30");
    assert_eq!(log["model_info"]["name"], "claude-sonnet-4-5");
    assert_eq!(log["tool_calls"][0]["name"], "read_file");
    assert_eq!(log["tool_calls"][0]["arguments"], "path/to/file");
    assert_eq!(log["usage"]["input_tokens"], 1234);
    assert_eq!(log["usage"]["output_tokens"], 5678);
    assert_eq!(log["usage"]["total_tokens"], 6912);
    assert_eq!(log["usage"]["source"], "text");
    let said = log["messages"].to_string();
    assert!(
        said.contains("Hello") && !said.contains("\\u001b"),
        "{said}"
    );
}

/// CR-4.1, SC-001: the whole way, by the name that youBencha's users type.
#[test]
fn the_whole_evaluation_runs_as_yb() {
    let context = context();
    install_claude(&context, &session(&[write("README.md", "# Better\n")]));
    let yb = context.bin().join("yb");
    fs_err::os::unix::fs::symlink(env!("CARGO_BIN_EXE_proctor"), &yb).unwrap();
    let yaml = "name: Add a README\ndescription: The agent adds a README file\nrepo: ../repo\nbranch: main\nagent:\n  type: claude-code\n  config:\n    prompt: Add a README file\nevaluators:\n  - git-diff\n  - name: command\n    config: {command: grep -q Better README.md}\n";
    let path = context.testcase(yaml);
    let program = context.program(&yb, ["run", "-c", path.as_str()]);
    let output = program.env("ANTHROPIC_API_KEY", "sk-ant-fake").run();
    output.assert_code(0);
    let results = context.results();
    assert_eq!(results["agent"]["status"], "success");
    assert_eq!(results["agent"]["youbencha_log_path"], "youbencha-log.json");
    assert_eq!(results["summary"]["passed"], 2);
    assert_eq!(results["summary"]["overall_status"], "passed");
    assert_eq!(context.log()["agent_info"]["name"], "claude-code");
}
