//! Errors of test cases that are not valid: exit code 2, a hint, and no leftovers.

use insta::assert_snapshot;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{
    claude_case, claude_with, command_case, context, install_claude, run, session, shown, with,
    write_case,
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

/// Runs a test case that is not valid and returns the error.
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
    assert_snapshot!(refusal(&changed("evaluators:", "evaluaters:")), @"
    error: [ROOT]/cases/testcase.yaml:8:1: unknown key `evaluaters`
     8 | evaluaters:
       | ^^^^^^^^^^
    hint: did you mean `evaluators`?
    ");
    assert_snapshot!(refusal(&changed("    prompt:", "    promt:")), @"
    error: [ROOT]/cases/testcase.yaml:7:5: unknown key `promt`
     7 |     promt: Fix it
       |     ^^^^^
    hint: did you mean `prompt`?
    ");
    assert_snapshot!(refusal(&changed("- git-diff", "- {name: git-diff, config: {assertions: {max_files: 1}}}")), @"
    error: [ROOT]/cases/testcase.yaml:9:44: unknown key `max_files`
     9 |   - {name: git-diff, config: {assertions: {max_files: 1}}}
       |                                            ^^^^^^^^^
    hint: known: `max_files_changed`, `max_lines_added`, `max_lines_removed`, `max_lines_changed`, `max_total_changes`, `min_change_entropy`, `max_change_entropy`
    ");
}

#[test]
fn unknown_names_are_shown_with_the_known_ones() {
    assert_snapshot!(refusal(&changed("claude-code", "claude-cod")), @"
    error: [ROOT]/cases/testcase.yaml:5:9: unknown agent type `claude-cod`
     5 |   type: claude-cod
       |         ^^^^^^^^^^
    hint: did you mean `claude-code`?
    ");
    assert_snapshot!(refusal(&changed("git-diff", "agentic-judge")), @"
    error: [ROOT]/cases/testcase.yaml:9:5: `agentic-judge` requires an agent or a model
     9 |   - agentic-judge
       |     ^^^^^^^^^^^^^
    hint: name an agent (`agent: {type: claude-code}`) or a model (`model: …`)
    ");
}

#[test]
fn wrong_values_are_shown_with_their_place() {
    assert_snapshot!(refusal(&changed("name: Fix the bug", "name: [1]")), @"
    error: [ROOT]/cases/testcase.yaml:1:7: expected a string, found a list
     1 | name: [1]
       |       ^^^
    ");
    assert_snapshot!(refusal(&changed("repo: ../repo", "repo: ../repo\ntimeout: soon")), @r#"
    error: [ROOT]/cases/testcase.yaml:4:10: expected a whole number, found the string "soon"
     4 | timeout: soon
       |          ^^^^
    "#);
    assert_snapshot!(refusal(&changed("repo: ../repo", "repo: ../repo\nname: Again")), @"
    error: [ROOT]/cases/testcase.yaml:4:1: duplicate key `name`
     4 | name: Again
       | ^^^^
    hint: it is already set on line 1; remove one of them
    ");
    assert_snapshot!(refusal("name: 'open\n"), @"
    error: [ROOT]/cases/testcase.yaml:2:1: not valid YAML: invalid indentation in multiline quoted scalar
     2 |
       | ^
    hint: is a closing quote missing?
    ");
    assert_snapshot!(refusal(""), @"
    error: [ROOT]/cases/testcase.yaml:1:1: the file is empty
    hint: `proctor init` writes an example test case
    ");
}

/// Scenario 3.2, FR-007.
#[test]
fn prompt_and_prompt_file_exclude_each_other() {
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    prompt_file: x.md")), @"
    error: [ROOT]/cases/testcase.yaml:8:5: `prompt` and `prompt_file` cannot be combined
     8 |     prompt_file: x.md
       |     ^^^^^^^^^^^
    hint: remove one of them
    ");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "model: sonnet")), @"
    error: [ROOT]/cases/testcase.yaml:7:5: missing key `prompt` or `prompt_file`
     7 |     model: sonnet
       |     ^^^^^^^^^^^^^
    hint: add a prompt, such as `prompt: Fix the failing test`
    ");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: ' '")), @"
    error: [ROOT]/cases/testcase.yaml:7:13: the prompt is empty
     7 |     prompt: ' '
       |             ^^^
    ");
}

/// Scenario 3.3, NFR-3: prompt files that cannot be used.
#[test]
fn prompt_files_stay_inside() {
    let context = context();
    let secret = context.root().join("secret.md");
    fs_err::write(&secret, "secret").unwrap();
    fs_err::os::unix::fs::symlink(&secret, context.root().join("cases/link.md")).unwrap();
    let with_file = |file: &str| changed("prompt: Fix it", &format!("prompt_file: {file}"));
    assert_snapshot!(refusal_in(&context, &with_file("./missing.md")), @"
    error: [ROOT]/cases/testcase.yaml: invalid prompt_file `./missing.md`: file not found next to the test case or in the workspace
    ");
    assert_snapshot!(refusal_in(&context, &with_file("../secret.md")), @"
    error: [ROOT]/cases/testcase.yaml:7:18: invalid prompt_file `../secret.md`: it must not contain `..`
     7 |     prompt_file: ../secret.md
       |                  ^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal_in(&context, &with_file(secret.as_str())), @"
    error: [ROOT]/cases/testcase.yaml:7:18: invalid prompt_file `[ROOT]/secret.md`: it must be a relative path
     7 |     prompt_file: [ROOT]/secret.md
       |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal_in(&context, &with_file("link.md")), @"
    error: [ROOT]/cases/testcase.yaml:7:18: invalid prompt_file `link.md`: it is a symlink to a file outside of [ROOT]/cases
     7 |     prompt_file: link.md
       |                  ^^^^^^^
    ");
    // The same through the repo: a link in it must not lead out of the workspace.
    let link = context.repo().path().join("in-repo.md");
    fs_err::os::unix::fs::symlink(&secret, link).unwrap();
    context.repo().commit("link", &[]);
    assert_snapshot!(refusal_in(&context, &with_file("in-repo.md")), @"
    error: [ROOT]/cases/testcase.yaml: invalid prompt_file `in-repo.md`: it is a symlink to a file outside of [ROOT]/tmp/[AREA]/src-modified
    ");
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

/// The first of two test cases is taken, the second refused with these words.
#[track_caller]
fn check_bound(said: &str, good: &Value, bad: &Value) {
    let context = context();
    validate(&context, good).assert_code(0);
    let output = validate(&context, bad);
    output.assert_code(2);
    assert!(output.stderr.contains(said), "{said}: {output}");
}

/// The limits of seed 001 on texts: what is at the bound is taken, one character more is not.
#[test]
fn texts_have_their_longest_length() {
    let config = |key: &str, length: usize| claude_with(&json!({key: "x".repeat(length)}));
    let top = |key: &str, length: usize| with(&claude_case(), &json!({key: "x".repeat(length)}));
    for (key, most) in [
        ("prompt", 1_000_000),
        ("append_system_prompt", 10_000),
        ("system_prompt", 50_000),
        ("agent_name", 100),
    ] {
        check_bound(
            &most.to_string(),
            &config(key, most),
            &config(key, most + 1),
        );
    }
    for (key, most) in [
        ("name", 200),
        ("description", 1000),
        ("workspace_name", 100),
    ] {
        check_bound(key, &top(key, most), &top(key, most + 1));
    }
    // The file may be made before the agent starts.
    let hook = json!({"pre_execution": [{"name": "script", "config": {"command": "true"}}]});
    let file = |length: usize| {
        let path = format!("{}/{}", "x".repeat(250), "x".repeat(length - 251));
        let case = claude_with(&json!({"prompt": null, "prompt_file": path}));
        with(&case, &hook)
    };
    check_bound("the maximum is 500", &file(500), &file(501));
}

/// The limits of seed 001 on names and numbers.
#[test]
fn names_and_numbers_have_their_bounds() {
    let cases = [
        ("prompt", json!("x"), json!("")),
        ("agent_name", json!("a_B-9"), json!("a b")),
        ("model", json!("claude-x.y_z-1"), json!("gpt-5")),
        ("model", json!("opus[1m]"), json!("claude-")),
        ("max_tokens", json!(1), json!(0)),
        ("max_tokens", json!(200_000), json!(200_001)),
        ("max_turns", json!(1), json!(0)),
        ("permission_mode", json!("ask"), json!("yolo")),
        ("permission_mode", json!("auto"), json!("Auto")),
        (
            "allowed_tools",
            json!(["Bash(git *)", "mcp__x__y"]),
            json!(["Read Write"]),
        ),
    ];
    for (key, good, bad) in cases {
        // The line of the file with the caret below it holds the key.
        check_bound(
            key,
            &claude_with(&json!({key: good})),
            &claude_with(&json!({key: bad})),
        );
    }
    let top = |key: &str, value: Value| with(&claude_case(), &json!({key: value}));
    check_bound(
        "workspace_name",
        &top("workspace_name", json!("a.b_c-d")),
        &top("workspace_name", json!("../x")),
    );
    check_bound(
        "timeout",
        &top("timeout", json!(0)),
        &top("timeout", json!(-1)),
    );
}

/// Case 37: a setting that would do nothing is an error.
#[test]
fn settings_without_effect_are_refused() {
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    temperature: 0.5")), @"
    error: [ROOT]/cases/testcase.yaml:8:18: `temperature` requires the gateway: the agent's CLI has no option for it
     8 |     temperature: 0.5
       |                  ^^^
    hint: add `gateway: {}` at the top of the file, or remove `temperature`
    ");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    permission_policy: deny")), @"
    error: [ROOT]/cases/testcase.yaml:8:24: `permission_policy` has no effect with this transport: only the control protocol has permission requests
     8 |     permission_policy: deny
       |                        ^^^^
    hint: add `transport: control`, or remove it
    ");
    let hooks = "evaluators:\n  - git-diff\npre_execution:\n  - {name: webhook, config: {url: x}}\npost_evaluation:\n  - {name: webhook, config: {url: x}}\n";
    assert_snapshot!(refusal(&changed("evaluators:\n  - git-diff\n", hooks)), @"
    error: [ROOT]/cases/testcase.yaml:11:12: unknown hook `webhook`
     11 |   - {name: webhook, config: {url: x}}
        |            ^^^^^^^
    hint: known: `script`

    [ROOT]/cases/testcase.yaml:13:35: invalid `url`: must start with http:// or https://
     13 |   - {name: webhook, config: {url: x}}
        |                                   ^
    ");
}

/// All errors of the agent and the evaluators are reported at once.
#[test]
fn all_config_errors_are_reported_at_once() {
    let more = "prompt: Fix it\n    max_tokens: 0\n    model: gpt-5";
    let yaml = changed("prompt: Fix it", more).replace("git-diff", "git-dif");
    assert_snapshot!(refusal(&yaml), @"
    error: [ROOT]/cases/testcase.yaml:8:17: `max_tokens` must be from 1 to 200000
     8 |     max_tokens: 0
       |                 ^

    [ROOT]/cases/testcase.yaml:9:12: invalid Claude Code model `gpt-5`
     9 |     model: gpt-5
       |            ^^^^^
    hint: write an id such as `claude-sonnet-4-5`, or one of: default, sonnet, opus, haiku, opusplan, best

    [ROOT]/cases/testcase.yaml:11:5: unknown evaluator `git-dif`
     11 |   - git-dif
        |     ^^^^^^^
    hint: did you mean `git-diff`?
    ");
}

#[test]
fn variables_come_from_the_environment() {
    let context = context();
    let yaml = changed("Fix it", "Fix ${WHAT} in ${WHERE:-the code}");
    let path = context.testcase(&yaml);
    let args = ["validate", "-v", "-c", path.as_str()];
    let output = context.proctor(args).env("WHAT", "bugs").run();
    output.assert_code(0);
    assert_snapshot!(shown(&context, &output.stdout), @"
    [ROOT]/cases/testcase.yaml: ok
      name        Fix the bug
      agent       claude-code
      model       the agent's default
      prompt      20 characters
      timeout     300000 ms
      evaluators  git-diff
    ");
    let output = context.proctor(args).run();
    output.assert_code(2);
    assert_snapshot!(shown(&context, &output.stderr), @"
    error: [ROOT]/cases/testcase.yaml:7:17: `WHAT` is not set
     7 |     prompt: Fix ${WHAT} in ${WHERE:-the code}
       |                 ^^^^^^^
    hint: set it in the environment or under `variables` in .youbencharc, give a default with `${WHAT:-…}`, or write `$${WHAT}` for the text itself
    ");
}

#[test]
fn a_test_case_may_be_json() {
    let context = context();
    install_claude(&context, &session(&[]));
    run(&context, &claude_case()).assert_code(0);
    fs_err::write(context.root().join("cases/broken.json"), "{\"name\": 'x'}").unwrap();
    let output = context.proctor(["validate", "cases/broken.json"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @r#"
    error: cases/broken.json:1:10: not valid JSON: expected value
     1 | {"name": 'x'}
       |          ^
    "#);
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
    assert_snapshot!(shown(&context, &output.stderr), @"
    error: [ROOT]/.youbencharc:1:1: unknown key `workspce_dir`
     1 | workspce_dir: my-runs
       | ^^^^^^^^^^^^
    hint: did you mean `workspace_dir`?
    ");
}

#[test]
fn a_program_that_does_not_exist_is_found_before_the_run() {
    let context = context();
    for program in ["no-such-program", "/no/such/program", "./no-such-script.sh"] {
        let case = command_case(program);
        for output in [validate(&context, &case), run(&context, &case)] {
            output.assert_code(2);
            assert!(output.stderr.contains("program not found"), "{output}");
            assert!(
                output.stderr.contains(program.trim_start_matches("./")),
                "{output}"
            );
        }
    }
    assert_nothing_was_made(&context);
    for program in ["sh", "/bin/sh"] {
        validate(&context, &command_case(program)).assert_code(0);
    }
    // The agent's own PATH may have it.
    let own_path = json!({"agent": {"config": {"env": {"PATH": "/opt/agent/bin"}}}});
    let case = with(&command_case("no-such-program"), &own_path);
    validate(&context, &case).assert_code(0);
}

#[test]
fn prompts_that_no_agent_can_receive_are_refused() {
    let said = refusal(&changed("prompt: Fix it", r#"prompt: "Fix\0it""#));
    assert!(said.contains("contains a NUL character"), "{said}");
    let said = refusal(&changed("prompt: Fix it", r#"prompt: "Fix \ud800 it""#));
    assert!(said.contains("testcase.yaml"), "{said}");
}
