//! Commands that look at files and at the machine.

use std::env::consts::EXE_SUFFIX;

use camino::Utf8Path;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{context, install_agent, print};

const CASE: &str = "\
name: Fix the bug
description: The agent fixes one bug
repo: ../repo
agent:
  type: command
  config:
    command: [agent]
    prompt: Fix it
evaluaters:
  - git-diff
";

/// Mistakes are shown with file, line and caret, also where lines end as on Windows.
#[test]
fn validate_shows_where_a_mistake_is() {
    for yaml in [CASE.to_owned(), CASE.replace('\n', "\r\n")] {
        let context = context();
        let path = context.testcase(&yaml);
        let output = context.proctor(["validate", "-c", path.as_str()]).run();
        let reported = output.assert_code(2).stderr.replace("\r\n", "\n");
        let expected = [
            format!("{path}:9:1: unknown key `evaluaters`"),
            " 9 | evaluaters:\n   | ^^^^^^^^^^\n".to_owned(),
            "hint: did you mean `evaluators`?".to_owned(),
        ];
        for part in expected {
            assert!(reported.contains(&part), "{part}\nis not in\n{reported}");
        }
        assert!(context.run_dirs().is_empty());
    }
}

#[test]
fn doctor_shows_installed_programs() {
    let context = context();
    let says = |args: Value, text: &str| json!({"when_args": args, "steps": [print(text)]});
    let claude = json!([
        says(json!(["--version"]), "2.1.197 (Claude Code)\n"),
        says(json!(["auth", "status"]), "{\"loggedIn\": true}"),
    ]);
    let program = context.install_fake("claude", &claude);
    let output = context.proctor(["doctor", "--json"]).run();
    let found: Value = serde_json::from_str(&output.assert_code(0).stdout).unwrap();
    let found = found.as_array().unwrap();
    let of = |name: &str| found.iter().find(|it| it["name"] == name).unwrap();
    assert!(of("git")["version"].is_string(), "{found:#?}");
    let path = of("claude-code")["path"].as_str().unwrap();
    assert!(is_same_file(Utf8Path::new(path), &program), "{path}");
    assert_eq!(of("claude-code")["version"], "2.1.197");
    assert_eq!(of("codex")["path"], Value::Null);
}

fn is_same_file(one: &Utf8Path, other: &Utf8Path) -> bool {
    one.canonicalize().unwrap() == other.canonicalize().unwrap()
}

#[test]
fn list_shows_types_of_agents_and_evaluators() {
    let output = context().proctor(["list"]).run();
    for name in ["claude-code", "codex", "git-diff", "command"] {
        assert!(output.assert_code(0).stdout.contains(name), "{output}");
    }
}

/// A missing agent is reported before the run, with a hint.
#[test]
fn missing_cli_is_not_the_agents_failure() {
    let context = context();
    let mut case = crate::support::case();
    case["agent"] = json!({"type": "claude-code", "config": {"prompt": "do it"}});
    crate::support::run(&context, &case).assert_code(3);
    assert_eq!(context.record()["outcome"], "not_installed");
}

#[test]
fn shells_of_all_systems_get_completions() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = context().proctor(["completions", shell]).run();
        assert!(output.assert_code(0).stdout.contains("proctor"), "{output}");
    }
}

/// The program answers to the names of its forerunners.
#[test]
fn other_names_of_the_program_have_its_version() {
    let context = context();
    let version = env!("CARGO_PKG_VERSION");
    for (name, expected) in [
        ("yb", format!("{version}\n")),
        ("thunderdome", format!("proctor {version}\n")),
    ] {
        let program = context.bin().join(format!("{name}{EXE_SUFFIX}"));
        fs_err::copy(env!("CARGO_BIN_EXE_proctor"), &program).unwrap();
        let output = run_copied(&context, &program);
        assert_eq!(output, expected);
    }
}

fn run_copied(context: &TestContext, program: &Utf8Path) -> String {
    let output = context.program(program, ["--version"]).run();
    output.assert_code(0).stdout.replace("\r\n", "\n")
}

/// Output to a pipe has no colours.
#[test]
fn output_without_a_terminal_has_no_colours() {
    let context = context();
    install_agent(&context, &[]);
    let output = crate::support::run(&context, &crate::support::case());
    output.assert_code(0);
    assert!(!output.stdout.contains('\x1b'), "{output}");
    assert!(!output.stderr.contains('\x1b'), "{output}");
}
