//! Agents that npm installed: on Windows they are batch files that start Node.

use serde_json::{Value, json};

use crate::support::{case, context, json_of, run, saved};

/// What cmd would make something of.
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
fn a_limit_ends_what_a_shim_started() {
    let context = context();
    context.install_fake_shim("agent", &json!([{"sleep_ms": 300_000}]));
    let mut case = case();
    case["timeout"] = json!(2000);
    run(&context, &case).assert_code(1);
    assert_eq!(context.record()["outcome"], "timeout");
    context.assert_nothing_left("");
}
