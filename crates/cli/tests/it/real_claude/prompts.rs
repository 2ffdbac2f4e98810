//! Prompts of every kind and size arrive as they were written.

use proctor_scripted_model::RecordedRequest;
use proctor_testkit::llm;
use serde_json::{Value, json};

use super::{LATEST, Trial, expect};

const HARD: &str = "--model is not a flag here: 'single' \"double\" `tick` $HOME $(id) %s \\n \\\n\
    second line\ttab, ünïcödé 日本語 🦀 <tag> & {json: [1]}\n\n- a list\n/help @README.md !ls";

/// Whether a message of the user in this request is exactly this text.
fn asks(request: &RecordedRequest, prompt: &str) -> bool {
    let messages = request.body["messages"].as_array().unwrap();
    let texts = messages
        .iter()
        .flat_map(|message| match &message["content"] {
            Value::Array(blocks) => blocks.iter().map(|block| &block["text"]).collect(),
            text => vec![text],
        });
    texts.into_iter().any(|text| text.as_str() == Some(prompt))
}

#[track_caller]
fn arrives(version: &str, transport: &str, prompt: &str) {
    let Some(trial) = Trial::of(version, llm::says("read")) else {
        return;
    };
    let file = trial.ctx.root().join("cases/prompt.md");
    fs_err::write(file, prompt).unwrap();
    let config = json!({"transport": transport, "prompt_file": "./prompt.md"});
    trial.run(config).assert_code(0);
    // Versions with a small window ask for a summary of a large prompt first, which holds it too.
    let turns = trial.model.turns();
    let shown = turns[0].last_user_text().unwrap_or_default();
    let shown: String = shown.chars().take(2000).collect();
    assert!(asks(&turns[0], prompt), "it was asked: {shown}");
}

#[test]
fn hard_characters_on_pipes() {
    arrives(LATEST, "print", HARD);
    arrives("2.1.30", "print", HARD);
}

#[test]
fn hard_characters_on_a_terminal() {
    arrives(LATEST, "pty", HARD);
}

#[test]
fn hard_characters_over_the_control_protocol() {
    arrives(LATEST, "control", HARD);
    arrives("2.1.30", "websocket", HARD);
}

#[test]
fn hard_characters_in_the_test_case_itself() {
    let Some(trial) = Trial::of(LATEST, llm::says("read")) else {
        return;
    };
    // Otherwise it would be a variable of the test case.
    let prompt = HARD.replace("$HOME", "$ HOME");
    trial.run(json!({"prompt": prompt})).assert_code(0);
    assert!(asks(&trial.model.turns()[0], &prompt));
}

/// As many characters as a prompt may have; some take several bytes.
fn a_million() -> String {
    let line = "0123456789 abcdefghij klmnopqrst uvwxyz äöü € 🦀\n";
    let text: String = line.chars().cycle().take(999_999).collect();
    format!("{text}.")
}

#[test]
fn a_million_characters_on_pipes() {
    arrives(LATEST, "print", &a_million());
}

#[test]
fn a_million_characters_over_the_control_protocol() {
    arrives(LATEST, "control", &a_million());
}

#[test]
fn a_million_characters_on_a_websocket() {
    arrives("2.1.30", "websocket", &a_million());
}

#[test]
fn large_prompt_file_is_not_part_of_the_change() {
    let Some(trial) = Trial::of(LATEST, llm::says("read")) else {
        return;
    };
    let prompt = "x".repeat(7001);
    let config = json!({"prompt": prompt, "prompt_delivery": "file"});
    trial.run(config).assert_code(0);
    let asked = trial.model.turns()[0].last_user_text().unwrap();
    assert!(asked.starts_with("Read the file "), "{asked}");
    expect(&trial.record(), "/diff/files_changed", 0);
}
