//! How prompts get to Claude Code, verbatim in every transport, and the control protocol as far as
//! a fake speaks it.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::{
    launch::{saves, start, start_in},
    support::{
        claude_with, context, init, install_claude, result, run, saved, saved_json, says, session,
        shell, with,
    },
};

/// CR-2.4, FR-005: the prompt arrives.
#[test]
fn the_prompt_arrives() {
    let started = start(&json!({"prompt": "List files"}));
    assert_eq!(started.stdin, "List files");
}

/// CR-2.5, FR-006, scenario 3.1: a prompt file beside the test case, else in the repo.
#[test]
fn prompt_file_is_found_next_to_test_case_or_in_repo() {
    let file = json!({"prompt": null, "prompt_file": "./prompts/task.md"});
    let context = context();
    context
        .repo()
        .commit("task", &[("prompts/task.md", "from the repo\n")]);
    let started = start_in(context, &claude_with(&file), |program| program);
    assert_eq!(started.stdin, "from the repo\n");
    let context = started.context;
    fs_err::create_dir(context.root().join("cases/prompts")).unwrap();
    fs_err::write(
        context.root().join("cases/prompts/task.md"),
        "from beside\n",
    )
    .unwrap();
    let started = start_in(context, &claude_with(&file), |program| program);
    assert_eq!(started.stdin, "from beside\n");
}

/// Prompts that shells, option parsers and encodings stumble over.
const NASTY: &str = "-- --model x 'single' \"double\" `touch pwned` $(touch pwned) $HOME ${HOME}\n\\n \\ \ttab; rm -rf * | & > < !\n  ünï 🎉 漢字\r\nend";

/// CR-2.13, FR-021, NFR-3: prompts arrive verbatim in every transport, and nothing is run.
#[test]
fn nasty_prompts_arrive_verbatim_in_every_transport() {
    for transport in ["print", "pty", "text"] {
        let started = start(&json!({"prompt": escaped(NASTY), "transport": transport}));
        assert_eq!(started.stdin, NASTY, "{transport}");
        assert_eq!(started.context.record()["diff"]["files_changed"], 0);
    }
    assert_eq!(prompt_by_control(NASTY), NASTY);
}

/// `${` starts a variable in a test case; `$${` is the way to write it.
fn escaped(prompt: &str) -> String {
    prompt.replace("${", "$${")
}

/// Case 15: 1,000,000 characters arrive in every transport.
#[test]
fn a_million_characters_arrive_in_every_transport() {
    let prompt = "é漢🎉x".repeat(250_000);
    for transport in ["print", "pty", "text"] {
        let started = start(&json!({"prompt": prompt, "transport": transport}));
        assert!(
            started.stdin == prompt,
            "{transport}: {} bytes",
            started.stdin.len()
        );
    }
    assert!(prompt_by_control(&prompt) == prompt);
}

/// A CLI that speaks the control protocol up to its prompt.
fn speaks_control(context: &TestContext, after_prompt: &[Value]) {
    let answer = json!({"line": {"type": "control_response", "response": {
        "subtype": "success", "request_id": "proctor-initialize", "response": {},
    }}});
    let mut steps = vec![
        json!({"save_argv": saved(context, "argv")}),
        json!({"wait_for_stdin_line": {"contains": "initialize"}}),
        answer,
        init(),
    ];
    steps.extend_from_slice(after_prompt);
    steps.extend([says("m-1", "done"), result()]);
    steps.push(json!({"save_stdin": saved(context, "stdin")}));
    install_claude(context, &steps);
}

/// The prompt that the CLI gets over the control protocol.
#[track_caller]
fn prompt_by_control(prompt: &str) -> String {
    let context = context();
    speaks_control(&context, &[]);
    let config = json!({"prompt": escaped(prompt), "transport": "control"});
    run(&context, &claude_with(&config)).assert_code(0);
    let sent = fs_err::read_to_string(saved(&context, "stdin")).unwrap();
    let mut lines = sent.lines();
    let message: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(lines.next(), None, "the prompt goes out once");
    assert_eq!(message["type"], "user");
    message["message"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// With `control` the CLI asks, and the policy answers.
#[test]
fn permission_requests_are_answered_by_policy() {
    let ask = json!({"line": {"type": "control_request", "request_id": "r-1", "request": {
        "subtype": "can_use_tool", "tool_name": "Write", "input": {"file_path": "x"},
    }}});
    for (config, answer) in [
        (json!({}), r#""behavior":"allow""#),
        (
            json!({"permission_policy": "allow_all"}),
            r#""behavior":"allow""#,
        ),
        (json!({"permission_policy": "deny"}), r#""behavior":"deny""#),
        (json!({"allowed_tools": ["Read"]}), r#""behavior":"deny""#),
    ] {
        let context = context();
        speaks_control(
            &context,
            &[
                json!({"wait_for_stdin_line": {"contains": "do it"}}),
                ask.clone(),
                json!({"wait_for_stdin_line": {"contains": answer}}),
            ],
        );
        let case = with(
            &claude_with(&json!({"transport": "control"})),
            &json!({"agent": {"config": config}}),
        );
        run(&context, &case).assert_code(0);
        let argv: Vec<String> = serde_json::from_value(saved_json(&context, "argv")).unwrap();
        let has = |flag: &str| argv.iter().any(|arg| arg == flag);
        assert!(
            has("--permission-prompt-tool") && has("--input-format"),
            "{argv:?}"
        );
        assert!(!has("--dangerously-skip-permissions"), "{argv:?}");
    }
}

/// A request that Proctor does not know gets an error for an answer: a CLI that waits hangs.
#[test]
fn an_unknown_control_request_is_answered() {
    let context = context();
    let ask = json!({"line": {"type": "control_request", "request_id": "r-7", "request": {
        "subtype": "hook_callback", "callback_id": "x",
    }}});
    let answered = json!({"wait_for_stdin_line": {"contains": "r-7"}});
    speaks_control(&context, &[ask, answered]);
    let case = claude_with(&json!({"transport": "control"}));
    run(&context, &case).assert_code(0);
}

/// A prompt over 7,000 characters may be passed by file, which is not part of the workspace.
#[test]
fn a_large_prompt_may_go_by_file() {
    let config = |length: usize| json!({"prompt": "p".repeat(length), "prompt_delivery": "file"});
    let started = start(&config(7000));
    assert_eq!(started.stdin.len(), 7000);
    let context = context();
    let copy = saved(&context, "prompt");
    let fetch = format!(
        "cp \"$(grep -o '/[^ ]*prompt.md' {stdin})\" {copy}",
        stdin = saved(&context, "stdin")
    );
    let mut steps = saves(&context);
    steps.push(shell(&fetch));
    install_claude(&context, &session(&steps));
    run(&context, &claude_with(&config(7001))).assert_code(0);
    assert_eq!(fs_err::read_to_string(copy).unwrap(), "p".repeat(7001));
    assert!(started_stdin(&context).len() < 500);
    assert_eq!(context.record()["diff"]["files_changed"], 0);
}

fn started_stdin(context: &TestContext) -> String {
    fs_err::read_to_string(saved(context, "stdin")).unwrap()
}
