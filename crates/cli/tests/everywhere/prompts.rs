//! Prompts of any content and length arrive verbatim.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{case, context, install_agent, json_of, run, saved};

/// Text that breaks naive shells, option parsers, encodings and command lines.
const NASTY: &str = "-- --model x 'single' \"double\" \\\"both\\\" `touch pwned` $(touch pwned) $HOME\n%PATH% %~dp0 ^caret !bang! & echo pwned > pwned.txt | more\r\n\\ trailing\\\\\" \ttab; rm -rf *\n  ünï 🎉 漢字\nend\\";

/// Runs an agent that keeps its standard input and arguments.
#[track_caller]
fn start(prompt: &str, by: &str, command: &Value) -> TestContext {
    let context = context();
    let save = [
        json!({"save_argv": saved(&context, "argv")}),
        json!({"save_stdin": saved(&context, "stdin")}),
    ];
    install_agent(&context, &save);
    let mut case = case();
    case["agent"]["config"] = json!({"command": command, "prompt": prompt, "prompt_by": by});
    run(&context, &case).assert_code(0);
    assert_eq!(context.record()["diff"]["files_changed"], 0, "nothing ran");
    context
}

fn stdin(context: &TestContext) -> String {
    fs_err::read_to_string(saved(context, "stdin")).unwrap()
}

fn last_argument(context: &TestContext) -> String {
    let arguments = json_of(&saved(context, "argv"));
    let last = arguments.as_array().unwrap().last().unwrap().clone();
    last.as_str().unwrap().to_owned()
}

#[test]
fn nasty_prompts_arrive_through_standard_input() {
    let context = start(NASTY, "stdin", &json!(["agent"]));
    assert_eq!(stdin(&context), NASTY);
}

#[test]
fn nasty_prompts_arrive_as_an_argument() {
    let context = start(NASTY, "argument", &json!(["agent", "--task", "{prompt}"]));
    assert_eq!(last_argument(&context), NASTY);
}

#[test]
fn nasty_prompts_arrive_in_a_file() {
    let context = context();
    let copy =
        json!([{"save_env": saved(&context, "env")}, {"save_argv": saved(&context, "argv")}]);
    context.install_fake("agent", &copy);
    let mut case = case();
    let command = json!(["agent", "--task", "{prompt_file}"]);
    case["agent"]["config"] = json!({"command": command, "prompt": NASTY, "prompt_by": "file"});
    run(&context, &case).assert_code(0);
    let env = json_of(&saved(&context, "env"));
    assert_eq!(env["PROCTOR_PROMPT_FILE"], last_argument(&context));
    let kept = fs_err::read_to_string(context.artifact("prompt.md")).unwrap();
    assert_eq!(kept, NASTY);
}

#[test]
fn a_million_characters_arrive_through_standard_input() {
    let prompt = "é漢🎉x".repeat(250_000);
    let context = start(&prompt, "stdin", &json!(["agent"]));
    let arrived = stdin(&context);
    assert!(arrived == prompt, "{} bytes arrived", arrived.len());
}

/// On Windows a checkout may have changed the line ends of a prompt's file: it is read as it was written.
#[test]
fn a_prompt_file_reads_the_same_after_a_checkout() {
    let context = context();
    let save = [json!({"save_stdin": saved(&context, "stdin")})];
    install_agent(&context, &save);
    let text = "first\r\nsecond\r\n";
    fs_err::write(context.root().join("cases/prompt.md"), text).unwrap();
    let mut case = case();
    case["agent"]["config"] = json!({"command": ["agent"], "prompt_file": "./prompt.md"});
    run(&context, &case).assert_code(0);
    let expected = if cfg!(windows) {
        "first\nsecond\n"
    } else {
        text
    };
    assert_eq!(stdin(&context), expected);
}
