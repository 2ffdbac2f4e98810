//! Variants of context files with the real CLIs of other makers: the text reaches the model and changes its answer.

use serde_json::{Value, json};

use super::{CODEX, Cli, GEMINI, OPENCODE, PATIENCE, Suite, expect};

/// Runs two variants of a context file and one in a place that the CLI does not read.
fn delivers(cli: &Cli, file: &str) {
    let Some(mut suite) = Suite::of(&[cli]) else {
        return;
    };
    let texts = ["one", "two"].map(|it| format!("Our convention here is number {it}, always."));
    suite.agents[0]["variants"] = json!([
        {"name": "one", "files": {file: {"text": texts[0]}}},
        {"name": "two", "files": {file: {"text": texts[1]}}},
        {"name": "nowhere", "files": {"lib/deep/NOTES.md": {"text": texts[1]}}},
    ]);
    let suite = suite.task("task", PATIENCE);
    let write = json!({"content": [{"write_file": {"path": "hello.txt", "content": "hi\n"}}]});
    let answers = json!([
        {"when": texts[1], "message": write},
        {"when": texts[1], "message": {"content": [{"text": "done"}]}},
    ]);
    let output = suite.finish(suite.scripted(&answers));
    let record = |name: &'static str| -> Value {
        let kind = Cli { kind: name, ..*cli };
        suite.record(&kind, "task", 1)
    };
    let [one, two, nowhere] = ["one", "two", "nowhere"].map(record);
    expect(&one, "/status", "failed");
    expect(&two, "/status", "passed");
    for (record, delivered) in [(&one, true), (&two, true), (&nowhere, false)] {
        expect(record, "/delivery/0/delivered", delivered);
    }
    assert_ne!(one["delivery"][0]["digest"], two["delivery"][0]["digest"]);
    let warning = "not delivered: file `lib/deep/NOTES.md` of agent `nowhere`";
    assert!(output.stdout.contains(warning), "{output}");
}

#[test]
fn variants_of_agents_md_are_delivered_by_codex() {
    delivers(&CODEX, "AGENTS.md");
}

#[test]
fn variants_of_gemini_md_are_delivered_by_gemini_cli() {
    delivers(&GEMINI, "GEMINI.md");
}

#[test]
fn variants_of_agents_md_are_delivered_by_opencode() {
    delivers(&OPENCODE, "AGENTS.md");
}
