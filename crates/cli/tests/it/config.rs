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

/// What the program printed, without what differs from run to run and from machine to machine.
fn shown(context: &TestContext, text: &str) -> String {
    let text = text.replace(context.root().as_str(), "[ROOT]");
    let masked = text.split_inclusive('\n').map(|line| {
        // The folder of a trial is named after the time.
        match line.split_once("/tmp/proctor-") {
            Some((before, rest)) => {
                let after = rest.split_once('/').map_or("", |(_, after)| after);
                format!("{before}/tmp/[AREA]/{after}")
            }
            None => line.to_owned(),
        }
    });
    masked.collect()
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
    hint: known: `max_files_changed`, `max_lines_added`, `max_lines_removed`, `max_total_changes`, `min_change_entropy`, `max_change_entropy`
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
    assert_snapshot!(refusal(&changed("git-diff", "expected-diff")), @"
    error: [ROOT]/cases/testcase.yaml:9:5: `expected-diff` is not supported yet
     9 |   - expected-diff
       |     ^^^^^^^^^^^^^
    hint: remove it from `evaluators`
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
    hint: it is already set on line 1; keep one of them
    ");
    assert_snapshot!(refusal("name: 'open\n"), @"
    error: [ROOT]/cases/testcase.yaml:2:1: not valid YAML: invalid indentation in multiline quoted scalar
     2 |
       | ^
    hint: is a closing quote missing?
    ");
    assert_snapshot!(refusal(""), @"
    error: [ROOT]/cases/testcase.yaml:1:1: the file is empty
    hint: `proctor init` writes a test case to start from
    ");
}

/// Scenario 3.2, FR-007.
#[test]
fn prompt_and_prompt_file_exclude_each_other() {
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    prompt_file: x.md")), @"
    error: [ROOT]/cases/testcase.yaml:8:5: both `prompt` and `prompt_file` are given
     8 |     prompt_file: x.md
       |     ^^^^^^^^^^^
    hint: keep one of them
    ");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "model: sonnet")), @"
    error: [ROOT]/cases/testcase.yaml:7:5: neither `prompt` nor `prompt_file` is given
     7 |     model: sonnet
       |     ^^^^^^^^^^^^^
    hint: say what the agent is asked, such as `prompt: Fix the failing test`
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
    error: [ROOT]/cases/testcase.yaml: prompt_file `./missing.md` cannot be used: there is no such file beside the test case or in the workspace
      caused by: prompt_file `./missing.md` cannot be used: there is no such file beside the test case or in the workspace
    ");
    assert_snapshot!(refusal_in(&context, &with_file("../secret.md")), @"
    error: [ROOT]/cases/testcase.yaml:7:18: prompt_file `../secret.md` cannot be used: it must not contain `..`
     7 |     prompt_file: ../secret.md
       |                  ^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal_in(&context, &with_file(secret.as_str())), @"
    error: [ROOT]/cases/testcase.yaml:7:18: prompt_file `[ROOT]/secret.md` cannot be used: it must be a relative path
     7 |     prompt_file: [ROOT]/secret.md
       |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal_in(&context, &with_file("link.md")), @"
    error: [ROOT]/cases/testcase.yaml:7:18: prompt_file `link.md` cannot be used: it leads out of [ROOT]/cases through a symlink
     7 |     prompt_file: link.md
       |                  ^^^^^^^
    ");
    // The same through the repo: a link in it must not lead out of the workspace.
    let link = context.repo().path().join("in-repo.md");
    fs_err::os::unix::fs::symlink(&secret, link).unwrap();
    context.repo().commit("link", &[]);
    assert_snapshot!(refusal_in(&context, &with_file("in-repo.md")), @"
    error: [ROOT]/cases/testcase.yaml: prompt_file `in-repo.md` cannot be used: it leads out of [ROOT]/tmp/proctor-20261115-224148-1a65e21b/src-modified through a symlink
      caused by: prompt_file `in-repo.md` cannot be used: it leads out of [ROOT]/tmp/proctor-20261115-224148-1a65e21b/src-modified through a symlink
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
        (
            "prompt_file",
            file(&format!("{}/{}", long(250), long(249))),
            file(&format!("{}/{}", long(250), long(250))),
        ),
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
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    temperature: 0.5")), @"
    error: [ROOT]/cases/testcase.yaml:8:18: `temperature` is not supported yet: Claude Code has no option for it, and the gateway that can set it is not there
     8 |     temperature: 0.5
       |                  ^^^
    hint: leave it out
    ");
    assert_snapshot!(refusal(&changed("prompt: Fix it", "prompt: Fix it\n    permission_policy: deny")), @"
    error: [ROOT]/cases/testcase.yaml:8:24: `permission_policy` does nothing with this transport: only the control protocol asks for permission
     8 |     permission_policy: deny
       |                        ^^^^
    hint: add `transport: control`, or leave it out
    ");
    let hooks =
        "evaluators:\n  - git-diff\npre_execution:\n  - name: script\npost_evaluation: []\n";
    assert_snapshot!(refusal(&changed("evaluators:\n  - git-diff\n", hooks)), @"
    error: [ROOT]/cases/testcase.yaml:10:1: `pre_execution` is not supported yet
     10 | pre_execution:
        | ^^^^^^^^^^^^^
    hint: remove it

    [ROOT]/cases/testcase.yaml:12:1: `post_evaluation` is not supported yet
     12 | post_evaluation: []
        | ^^^^^^^^^^^^^^^
    hint: remove it
    ");
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
    assert_snapshot!(refusal(&yaml), @"
    error: [ROOT]/cases/testcase.yaml:1:7: `name` cannot be used: it is empty
     1 | name: ''
       |       ^^
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

/// Runs `proctor` with these words and returns what it printed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = context().proctor(args.iter().copied()).run();
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn help_tells_what_there_is() {
    assert_snapshot!(printed(&["--help"]), @"
    Run coding agents on tasks, watch them, and judge what they did

    Usage: proctor <COMMAND>

    Commands:
      run          Run test cases: an agent works on a repo, evaluators judge the result
      validate     Check test cases without running anything
      init         Write a test case to start from
      list         List the agents and evaluators that there are
      doctor       Tell what is installed, which version, and whether it is logged in
      schema       Print a JSON Schema, for editors and for checking what Proctor writes
      log          Work with agents' logs
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes: 0 all passed · 1 something failed · 2 usage or config error · 3 infrastructure, nothing
    to judge · 130 interrupted
    ");
    assert_snapshot!(printed(&["run", "--help"]), @"
    Run test cases: an agent works on a repo, evaluators judge the result

    Usage: proctor run [OPTIONS] <PATH>...
           proctor run [OPTIONS] -c <FILE>

    Arguments:
      [PATH]...
              Test cases (YAML or JSON), or folders of them

    Options:
      -c, --config <FILE>
              A test case; the same as PATH

          --json
              Print one JSON object on standard output when all is done

          --delete-workspace
              Remove the workspaces of finished trials; the artifacts stay

          --progress <PROGRESS>
              How to show progress on standard error

              Possible values:
              - auto:  Lines on a terminal, nothing in CI
              - plain: A line for each thing that happens
              - quiet: Nothing

              [default: auto]

      -h, --help
              Print help (see a summary with '-h')
    ");
    assert_snapshot!(printed(&["log", "normalize", "--help"]), @"
    Turn an agent's raw output into youbencha-log.json on standard output

    Usage: proctor log normalize [OPTIONS] <FILE>

    Arguments:
      <FILE>  The output: stream-json, a terminal capture, plain text or a session file; `-` is standard
              input

    Options:
          --agent <AGENT>          The agent whose output it is [default: claude-code]
          --exit-code <EXIT_CODE>  The agent's exit code, if it is known
      -h, --help                   Print help
    ");
    assert_snapshot!(printed(&["schema", "-h"]), @"
    Print a JSON Schema, for editors and for checking what Proctor writes

    Usage: proctor schema [NAME]

    Arguments:
      [NAME]  Of which file [default: suite] [possible values: suite, log, results, record]

    Options:
      -h, --help  Print help (see more with '--help')
    ");
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
    assert_snapshot!(output.stderr, @"
    error: there is no test case in cases
    hint: test cases end in .yaml, .yml or .json; `proctor init` writes one
    ");
}

#[test]
fn list_shows_agents_and_evaluators() {
    assert_snapshot!(printed(&["list"]), @"
    Agents:
      claude-code   Claude Code, Anthropic's CLI
      command       any program, with the prompt on its standard input
      oracle        applies the reference solution: the ceiling of a task
      null          does nothing: the floor of a task
    Evaluators:
      git-diff      measures the change and checks its size and spread
      command       runs a command in a clean copy of the result; its exit code decides
    ");
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["agents"][0]["name"], "claude-code");
}

/// What `init` writes is in order, and never written over something.
#[test]
fn init_writes_a_test_case_that_is_in_order() {
    let context = context();
    let output = context.proctor(["init"]).run();
    output.assert_code(0);
    assert_snapshot!(output.stdout, @"wrote testcase.yaml; run it with: proctor run -c testcase.yaml");
    context
        .proctor(["validate", "-c", "testcase.yaml"])
        .run()
        .assert_code(0);
    fs_err::write(context.root().join("testcase.yaml"), "mine").unwrap();
    let output = context.proctor(["init"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"
    error: testcase.yaml is there already
    hint: use --force to write over it
    ");
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
    assert_snapshot!(doctor(), @"
    git           installed      2.39.5      /usr/bin/git
    claude-code   not installed
                  hint: install it with: npm install -g @anthropic-ai/claude-code
    ");
    install_claude(&context, &[]);
    assert!(doctor().contains(VERSION));
    assert_snapshot!(doctor(), @"
    git           installed      2.39.5      /usr/bin/git
    claude-code   ready          2.1.197     [ROOT]/bin/claude
    ");
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
        assert_snapshot!(text, @"
        PASSED case
          agent       claude-code · 2.1.197 · claude-sonnet-4-5-20250929
          outcome     completed after [TIME]
          usage       10 in · 40 out · 100 cache read · 30 cache written · $0.0153 (the agent's own account)
          change      1 file, +1 −0 lines
          git-diff    ✓ 1 file changed (+1/-0 lines)
          record      [ROOT]/.proctor/[RUN]/artifacts/record.json
        ");
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
