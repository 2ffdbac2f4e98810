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

/// `proctor ab` of two context files finds that only the second one makes the agent succeed.
fn ab_finds_the_difference(cli: &Cli, file: &str) {
    let Some(suite) = Suite::of(&[cli]) else {
        return;
    };
    let texts = ["one", "two"].map(|it| format!("Our convention here is number {it}, always."));
    let suite = suite.task("task", PATIENCE);
    let write = json!({"content": [{"write_file": {"path": "hello.txt", "content": "hi\n"}}]});
    let answers = json!([
        {"when": texts[1], "message": write},
        {"message": {"content": [{"text": "done"}]}},
    ]);
    // Writes the suite and the script.
    drop(suite.scripted(&answers));
    let [a, b] = texts.map(|text| format!("{file}=text:{text}"));
    let path = suite.ctx.root().join("suite/proctor.json");
    let args = [
        "ab",
        path.as_str(),
        "--a",
        &a,
        "--b",
        &b,
        "--trials",
        "4",
        "--parallel",
        "2",
    ];
    let output = suite.finish(suite.ctx.proctor(args).deadline(PATIENCE));
    output.assert_code(0);
    assert!(
        output.stdout.starts_with("b is better: +100 points ["),
        "{output}"
    );
    let digest = |name: &str| {
        let start = format!("Delivered: file {file} of {name} ");
        let mut lines = output.stdout.lines();
        let line = lines.find_map(|it| it.strip_prefix(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {output}"));
        assert!(
            line.ends_with("reached the model in 4 of 4 trials."),
            "{line}"
        );
        line.split(' ').next().unwrap().to_owned()
    };
    assert_ne!(digest("a"), digest("b"));
}

#[test]
fn ab_of_agents_md_with_codex() {
    ab_finds_the_difference(&CODEX, "AGENTS.md");
}

#[test]
fn ab_of_gemini_md_with_gemini_cli() {
    ab_finds_the_difference(&GEMINI, "GEMINI.md");
}
