//! What users see: errors in test cases, help, lists. Bad input ends with exit code 2, says what
//! to do, and leaves nothing behind.

use insta::assert_snapshot;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{
    VERSION, claude_case, claude_with, context, install_claude, run, session, with, write_case,
};

const CASE: &str = "\
name: Fix the bug
description: The agent fixes one bug
repo: ../repo
agent:
  type: claude-code
  config:
    prompt: Fix it
evaluators:
  - git-diff
";

/// The test case with one piece of text replaced.
#[track_caller]
fn changed(old: &str, new: &str) -> String {
    assert!(CASE.contains(old), "{old}");
    CASE.replace(old, new)
}

/// What the program printed, without what differs from run to run.
fn shown(context: &TestContext, text: &str) -> String {
    text.replace(context.root().as_str(), "[ROOT]")
}

/// Runs a test case that is wrong and returns what the user is told.
#[track_caller]
fn refusal(yaml: &str) -> String {
    refusal_in(&context(), yaml)
}

#[track_caller]
fn refusal_in(context: &TestContext, yaml: &str) -> String {
    install_claude(context, &session(&[]));
    let path = context.testcase(yaml);
    let output = context.proctor(["run", "-c", path.as_str()]).run();
    output.assert_code(2);
    assert_eq!(output.stdout, "");
    assert_nothing_was_made(context);
    shown(context, &output.stderr)
}

/// No run, no workspace, no temporary folder.
#[track_caller]
fn assert_nothing_was_made(context: &TestContext) {
    assert!(context.run_dirs().is_empty(), "{:?}", context.run_dirs());
    let temporary = context.root().join("tmp").read_dir_utf8().unwrap();
    assert_eq!(temporary.count(), 0);
}

fn validate(context: &TestContext, case: &Value) -> Output {
    let path = write_case(context, case);
    context.proctor(["validate", "-c", path.as_str()]).run()
}

#[test]
fn unknown_keys_are_shown_with_their_place_and_the_nearest_key() {
    assert_snapshot!(refusal(&changed("evaluators:", "evaluaters:")), @"");
    assert_snapshot!(refusal(&changed("    prompt:", "    promt:")), @"");
    assert_snapshot!(refusal(&changed("- git-diff", "- {name: git-diff, config: {assertions: {max_files: 1}}}")), @"");
}

#[test]
fn unknown_names_are_shown_with_the_known_ones() {
    assert_snapshot!(refusal(&changed("claude-code", "claude-cod")), @"");
    assert_snapshot!(refusal(&changed("git-diff", "expected-diff")), @"");
}

#[test]
fn wrong_values_are_shown_with_their_place() {
    assert_snapshot!(refusal(&changed("name: Fix the bug", "name: [1]")), @"");
    assert_snapshot!(refusal(&changed("repo: ../repo", "repo: ../repo\ntimeout: soon")), @"");
    assert_snapshot!(refusal(&changed("repo: ../repo", "repo: ../repo\nname: Again")), @"");
    assert_snapshot!(refusal("name: 'open\n"), @"");
    assert_snapshot!(refusal(""), @"");
}

/// Scenario 3.2, FR-007.
#[test]
fn prompt_and_prompt_file_exclude_each_other() {
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    prompt_file: x.md")), @"");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "model: sonnet")), @"");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: ' '")), @"");
}

/// Scenario 3.3, NFR-3: prompt files that cannot be used.
#[test]
fn prompt_files_stay_inside() {
    let context = context();
    let secret = context.root().join("secret.md");
    fs_err::write(&secret, "secret").unwrap();
    fs_err::os::unix::fs::symlink(&secret, context.root().join("cases/link.md")).unwrap();
    let with_file = |file: &str| changed("prompt: Fix it", &format!("prompt_file: {file}"));
    assert_snapshot!(refusal_in(&context, &with_file("./missing.md")), @"");
    assert_snapshot!(refusal_in(&context, &with_file("../secret.md")), @"");
    assert_snapshot!(refusal_in(&context, &with_file(secret.as_str())), @"");
    assert_snapshot!(refusal_in(&context, &with_file("link.md")), @"");
    // The same through the repo: a link in it must not lead out of the workspace.
    let link = context.repo().path().join("in-repo.md");
    fs_err::os::unix::fs::symlink(&secret, link).unwrap();
    context.repo().commit("link", &[]);
    assert_snapshot!(refusal_in(&context, &with_file("in-repo.md")), @"");
}

/// A prompt file may hold 1,000,000 characters and not one more.
#[test]
fn a_prompt_file_may_hold_a_million_characters() {
    let context = context();
    let case = claude_with(&json!({"prompt": null, "prompt_file": "long.md"}));
    let file = context.root().join("cases/long.md");
    fs_err::write(&file, "🎉".repeat(1_000_000)).unwrap();
    validate(&context, &case).assert_code(0);
    fs_err::write(&file, "🎉".repeat(1_000_001)).unwrap();
    let output = validate(&context, &case);
    output.assert_code(2);
    assert!(output.stderr.contains("1000000"), "{output}");
}

/// Every limit of seed 001: what is at the bound is taken, what is beyond is refused.
#[test]
fn limits_hold_at_their_bounds() {
    let context = context();
    let long = |count: usize| "x".repeat(count);
    let config = |key: &str, value: Value| claude_with(&json!({key: value}));
    let top = |key: &str, value: Value| with(&claude_case(), &json!({key: value}));
    let named = |name: String| {
        let agents = json!({name.clone(): {"description": "d", "prompt": "p"}});
        claude_with(&json!({"agent_name": name, "agents": agents}))
    };
    let cases = [
        (
            "prompt",
            config("prompt", json!(long(1_000_000))),
            config("prompt", json!(long(1_000_001))),
        ),
        (
            "prompt",
            config("prompt", json!("x")),
            config("prompt", json!("")),
        ),
        ("prompt_file", file(&long(500)), file(&long(501))),
        ("agent name", named(long(100)), named(long(101))),
        (
            "agent name",
            named("a_B-9".to_owned()),
            named("a b".to_owned()),
        ),
        (
            "model",
            config("model", json!("claude-x.y_z-1")),
            config("model", json!("gpt-5")),
        ),
        (
            "model",
            config("model", json!("opus[1m]")),
            config("model", json!("claude-")),
        ),
        (
            "append_system_prompt",
            config("append_system_prompt", json!(long(10_000))),
            config("append_system_prompt", json!(long(10_001))),
        ),
        (
            "system_prompt",
            config("system_prompt", json!(long(50_000))),
            config("system_prompt", json!(long(50_001))),
        ),
        (
            "max_tokens",
            config("max_tokens", json!(1)),
            config("max_tokens", json!(0)),
        ),
        (
            "max_tokens",
            config("max_tokens", json!(200_000)),
            config("max_tokens", json!(200_001)),
        ),
        (
            "ask",
            config("permission_mode", json!("ask")),
            config("permission_mode", json!("yolo")),
        ),
        (
            "tool",
            config("allowed_tools", json!(["Bash(git *)", "mcp__x__y"])),
            config("allowed_tools", json!(["Read Write"])),
        ),
        (
            "name",
            top("name", json!(long(200))),
            top("name", json!(long(201))),
        ),
        (
            "description",
            top("description", json!(long(1000))),
            top("description", json!(long(1001))),
        ),
        (
            "workspace_name",
            top("workspace_name", json!(long(100))),
            top("workspace_name", json!(long(101))),
        ),
        (
            "workspace_name",
            top("workspace_name", json!("a.b_c-d")),
            top("workspace_name", json!("../x")),
        ),
        (
            "expected",
            top("timeout", json!(0)),
            top("timeout", json!(-1)),
        ),
    ];
    for (said, good, bad) in cases {
        validate(&context, &good).assert_code(0);
        let output = validate(&context, &bad);
        output.assert_code(2);
        assert!(output.stderr.contains(said), "{said}: {output}");
    }
}

fn file(path: &str) -> Value {
    claude_with(&json!({"prompt": null, "prompt_file": path}))
}

/// Case 37: a setting that would do nothing is an error.
#[test]
fn settings_that_would_do_nothing_are_refused() {
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    temperature: 0.5")), @"");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    permission_policy: deny")), @"");
    let hooks =
        "evaluators:\n  - git-diff\npre_execution:\n  - name: script\npost_evaluation: []\n";
    assert_snapshot!(refusal(&changed("evaluators:\n  - git-diff\n", hooks)), @"");
}

/// Everything that is wrong is told at once, in all files.
#[test]
fn all_that_is_wrong_is_told_at_once() {
    let yaml = changed("name: Fix the bug", "name: ''")
        .replace(
            "prompt: Fix it",
            "prompt: Fix it\n    max_tokens: 0\n    model: gpt-5",
        )
        .replace("git-diff", "git-dif");
    assert_snapshot!(refusal(&yaml), @"");
}

#[test]
fn variables_come_from_the_environment() {
    let context = context();
    let yaml = changed("Fix it", "Fix ${WHAT} in ${WHERE:-the code}");
    let path = context.testcase(&yaml);
    let args = ["validate", "-v", "-c", path.as_str()];
    let output = context.proctor(args).env("WHAT", "bugs").run();
    output.assert_code(0);
    assert_snapshot!(shown(&context, &output.stdout), @"");
    let output = context.proctor(args).run();
    output.assert_code(2);
    assert_snapshot!(shown(&context, &output.stderr), @"");
}

#[test]
fn a_test_case_may_be_json() {
    let context = context();
    install_claude(&context, &session(&[]));
    run(&context, &claude_case()).assert_code(0);
    fs_err::write(context.root().join("cases/broken.json"), "{\"name\": 'x'}").unwrap();
    let output = context.proctor(["validate", "cases/broken.json"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"");
}

#[test]
fn project_settings_are_defaults() {
    let context = context();
    install_claude(&context, &session(&[]));
    fs_err::write(
        context.root().join(".youbencharc"),
        "workspace_dir: my-runs\nagent: {model: opus}\n",
    )
    .unwrap();
    run(&context, &claude_case()).assert_code(0);
    assert!(
        context
            .only_run_dir()
            .starts_with(context.root().join("my-runs"))
    );
    assert_eq!(context.record()["agent"]["model_requested"], "opus");
    fs_err::write(
        context.root().join(".youbencharc"),
        "workspce_dir: my-runs\n",
    )
    .unwrap();
    let output = run(&context, &claude_case());
    output.assert_code(2);
    assert_snapshot!(shown(&context, &output.stderr), @"");
}

/// Runs `proctor` with these words and returns what it printed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = context().proctor(args.iter().copied()).run();
    output.assert_code(0);
    output.stdout
}

#[test]
fn help_tells_what_there_is() {
    assert_snapshot!(printed(&["--help"]), @"");
    assert_snapshot!(printed(&["run", "--help"]), @"");
    assert_snapshot!(printed(&["log", "normalize", "--help"]), @"");
    assert_snapshot!(printed(&["schema", "-h"]), @"");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let context = context();
    for args in [
        &["run"] as &[&str],
        &["rnu"],
        &["run", "--jsn", "x"],
        &["schema", "nope"],
    ] {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(2);
        assert!(output.stderr.contains("error:"), "{output}");
    }
    let output = context.proctor(["run", "cases"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"");
}

#[test]
fn list_shows_agents_and_evaluators() {
    assert_snapshot!(printed(&["list"]), @"");
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["agents"][0]["name"], "claude-code");
}

/// What `init` writes is in order, and never written over something.
#[test]
fn init_writes_a_test_case_that_is_in_order() {
    let context = context();
    let output = context.proctor(["init"]).run();
    output.assert_code(0);
    assert_snapshot!(output.stdout, @"");
    context
        .proctor(["validate", "-c", "testcase.yaml"])
        .run()
        .assert_code(0);
    fs_err::write(context.root().join("testcase.yaml"), "mine").unwrap();
    let output = context.proctor(["init"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"");
    assert_eq!(
        fs_err::read_to_string(context.root().join("testcase.yaml")).unwrap(),
        "mine"
    );
    context.proctor(["init", "--force"]).run().assert_code(0);
}

#[test]
fn doctor_tells_what_is_installed_and_what_to_do() {
    let context = context();
    let doctor = || {
        shown(
            &context,
            &context.proctor(["doctor"]).run().assert_code(0).stdout,
        )
    };
    assert_snapshot!(doctor(), @"");
    install_claude(&context, &[]);
    assert!(doctor().contains(VERSION));
    assert_snapshot!(doctor(), @"");
}

/// What a run looks like to the one who started it.
#[test]
fn a_run_reports_its_result() {
    let context = context();
    install_claude(
        &context,
        &session(&[crate::support::write("new.txt", "a\n")]),
    );
    let output = run(&context, &claude_case());
    output.assert_code(0);
    assert_eq!(output.stderr, "", "quiet where nobody looks");
    let text = shown(&context, &output.stdout);
    let text = text.replace(context.only_run_dir().file_name().unwrap(), "[RUN]");
    insta::with_settings!({filters => vec![(r"\d+(\.\d+)? (s|ms)\b", "[TIME]")]}, {
        assert_snapshot!(text, @"");
    });
}

/// Progress in plain lines: what the agent does now, tool and target.
#[test]
fn progress_tells_what_the_agent_does() {
    let context = context();
    let call = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": "m", "content": [{
            "type": "tool_use", "id": "t-1", "name": "Edit", "input": {"file_path": "src/\u{1b}[31mlib.rs"},
        }],
    }}});
    install_claude(&context, &session(&[call]));
    let program = crate::support::proctor_run(&context, &claude_case());
    let output = program.arg("--progress").arg("plain").run();
    output.assert_code(0);
    assert!(output.stderr.contains("Edit"), "{output}");
    assert!(output.stderr.contains("lib.rs"), "{output}");
    assert!(
        !output.stderr.contains('\u{1b}'),
        "no escape of the agent reaches the terminal"
    );
}
