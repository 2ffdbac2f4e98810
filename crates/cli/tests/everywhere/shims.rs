//! Batch files: what npm installs agents as, and what an agent may leave to take the place of programs that judge it.

use serde_json::{Value, json};

use crate::support::{case, context, install_agent, json_of, run, saved, write};

/// Characters with a special meaning in cmd.
const NASTY: &str = "say \"hi\" & echo pwned > pwned.txt %PATH% ^ ! | more\nsecond line \\";

#[test]
fn a_shim_of_npm_is_started_and_its_prompt_arrives_verbatim() {
    let context = context();
    let save = json!([
        {"save_argv": saved(&context, "argv")},
        {"save_stdin": saved(&context, "stdin")},
        {"write_file": {"path": "new.txt", "text": "x\n"}},
    ]);
    context.install_fake_shim("agent", &save);
    let mut case = case();
    case["agent"]["config"] = json!({"command": ["agent", "--flag", "two words"], "prompt": NASTY});
    run(&context, &case).assert_code(0);
    let argv = json_of(&saved(&context, "argv"));
    let argv: Vec<&str> = argv
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(argv[1].ends_with(r"node_modules\agent\cli.js"), "{argv:?}");
    assert_eq!(argv[2..], ["--flag", "two words"]);
    let stdin = fs_err::read_to_string(saved(&context, "stdin")).unwrap();
    assert_eq!(stdin, NASTY);
    assert_eq!(context.record()["diff"]["files_changed"], 1);
}

#[test]
fn a_prompt_as_an_argument_of_a_shim_arrives_verbatim() {
    let context = context();
    context.install_fake_shim("agent", &json!([{"save_argv": saved(&context, "argv")}]));
    let mut case = case();
    let command = json!(["agent", "{prompt}"]);
    case["agent"]["config"] = json!({"command": command, "prompt": NASTY, "prompt_by": "argument"});
    run(&context, &case).assert_code(0);
    let argv = json_of(&saved(&context, "argv"));
    assert_eq!(argv.as_array().unwrap().last().unwrap(), NASTY);
    assert_eq!(context.record()["diff"]["files_changed"], 0);
}

/// A limit ends what the shim started, not only the shim.
#[test]
fn limit_kills_processes_started_by_a_shim() {
    let context = context();
    context.install_fake_shim("agent", &json!([{"sleep_ms": 300_000}]));
    let mut case = case();
    case["timeout"] = json!(2000);
    run(&context, &case).assert_code(1);
    assert_eq!(context.record()["outcome"], "timeout");
    context.assert_nothing_left("");
}

/// A line of text is run by `cmd.exe` where there is no `sh`, in the folder with the agent's files.
#[test]
fn a_line_that_judges_runs_the_programs_of_windows_and_not_those_of_the_agent() {
    let context = context();
    let pass = "@exit 0\r\n";
    let steps = ["chcp.bat", "cmd.bat", "chcp.cmd", "cmd.cmd"].map(|name| write(name, pass));
    install_agent(&context, &steps);
    context.install_fake("judge", &json!([{"exit": 3}]));
    let mut case = case();
    case["evaluators"] = json!([{"name": "command", "config": {"command": "judge --strict"}}]);
    run(&context, &case).assert_code(1);
    let verdict = &context.record()["verdicts"][0];
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(verdict["metrics"]["exit_code"], 3, "{verdict:#}");
}
