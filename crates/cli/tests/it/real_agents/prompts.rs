//! The longest prompt arrives verbatim through every CLI.

use proctor_scripted_model::{RecordedRequest, ScriptedModel};
use proctor_testkit::llm;
use serde_json::{Value, json};

use super::{AIDER, CODEX, COPILOT, Cli, GEMINI, OPENCODE, PATIENCE, Suite};

/// As many characters as a prompt may have; some take several bytes, some mean something to a shell
/// or to a CLI.
fn a_million() -> String {
    let start = "--help @README.md !ls\r\n#memo\n/help\n";
    let line = "0123456789 abc 'def' \"ghi\" $HOME `id` \\n äöü € 🦀\n";
    let rest = line.chars().cycle();
    let text: String = start.chars().chain(rest).take(999_999).collect();
    format!("{text}.")
}

/// Whether some text of a request holds all of the prompt.
fn holds(value: &Value, prompt: &str) -> bool {
    match value {
        Value::String(text) => text.contains(prompt),
        Value::Array(items) => items.iter().any(|item| holds(item, prompt)),
        Value::Object(members) => members.values().any(|member| holds(member, prompt)),
        _ => false,
    }
}

fn arrives(cli: &Cli, config: &Value) {
    arrives_with(cli, config, &a_million());
}

fn arrives_with(cli: &Cli, config: &Value, prompt: &str) {
    let Some(mut suite) = Suite::of(&[cli]) else {
        return;
    };
    suite.agents[0]["config"] = config.clone();
    let suite = suite.task_asking("task", prompt, PATIENCE);
    let model = ScriptedModel::start_blocking(llm::says("read")).unwrap();
    let mut program = suite.program(&json!({"gateway": {}}));
    for name in ["ANTHROPIC", "OPENAI", "GOOGLE_GEMINI"] {
        program = program.env(&format!("{name}_BASE_URL"), model.url());
    }
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        program = program.env(name, "sk-fake");
    }
    let output = suite.finish(program);
    let asked = model.requests();
    let arrived = asked
        .iter()
        .any(|it: &RecordedRequest| holds(&it.body, prompt));
    assert!(
        arrived,
        "{}: {} requests, none with all of it\n{output}",
        cli.kind,
        asked.len()
    );
}

#[test]
fn a_million_characters_reach_the_model_through_codex() {
    arrives(&CODEX, &json!({}));
}

#[test]
fn a_million_characters_reach_the_model_through_gemini_cli() {
    arrives(&GEMINI, &json!({}));
}

#[test]
fn a_million_characters_reach_the_model_through_opencode() {
    arrives(&OPENCODE, &json!({}));
}

/// The CLI needs a setting for the size of the model's context.
#[test]
fn a_million_characters_reach_the_model_through_copilot() {
    arrives(
        &COPILOT,
        &json!({"env": {"COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "1000000"}}),
    );
}

/// Carriage returns of a prompt of this length are refused, because aider would change them.
#[test]
fn a_million_characters_reach_the_model_through_aider() {
    arrives_with(&AIDER, &json!({}), &a_million().replace('\r', "."));
}
