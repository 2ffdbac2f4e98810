//! `proctor show`: a trial in the terminal, by a unique start of its name.

use proctor_testkit::{Terminal, TestContext};
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite},
    support::{context, print, with, write},
};

/// A run of two tasks whose command fails with an output that tries to control the terminal.
fn failing(context: &TestContext) {
    let hostile = "a\u{1b}[2Jb\u{202e}c\n";
    context.install_fake(
        "agent",
        &json!([write("new.txt", hostile), print("done\n")]),
    );
    let agents = json!([
        {"name": "writer", "type": "command", "config": {"command": ["agent"]}},
        {"name": "null", "type": "null"},
    ]);
    let path = suite(context, &agents, &json!({}));
    for task in ["one", "two"] {
        let case = context.root().join(format!("suite/cases/{task}.json"));
        let command = "printf 'seen \\033[2J\\n'; exit 1";
        let check = json!({"name": "command", "config": {"command": command}});
        let text = with(&json_of(&case), &json!({"evaluators": [check]}));
        fs_err::write(&case, text.to_string()).unwrap();
    }
    let output = context.proctor(["run", path.as_str()]).run();
    output.assert_code(1);
    // The run names the next step.
    let next = "next: proctor show writer/one#1";
    assert!(output.stdout.contains(next), "{output}");
    assert!(output.stdout.contains("next: proctor view 2"), "{output}");
    assert!(output.stdout.contains("exited with code 1"), "{output}");
}

#[test]
fn trial_is_shown_with_evidence_prompt_and_diff_and_no_control_characters() {
    let context = context();
    failing(&context);
    let output = context.proctor(["show", "writer/one#1"]).run();
    output.assert_code(0);
    for part in ["FAILED", "seen [2J", "do one", "+a[2Jbc"] {
        assert!(output.stdout.contains(part), "{part}\n{output}");
    }
    for bad in ['\u{1b}', '\u{202e}'] {
        assert!(!output.stdout.contains(bad), "{output}");
    }
    let parts = [
        ("--diff", "+a[2Jbc"),
        ("--prompt", "do one"),
        ("--session", "done"),
    ];
    for (option, part) in parts {
        let output = context.proctor(["show", "w/o", option]).run();
        output.assert_code(0);
        assert!(output.stdout.contains(part), "{option}\n{output}");
        assert!(!output.stdout.contains("FAILED"), "{output}");
    }
    let output = context.proctor(["show", "w/o", "--json"]).run();
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["name"], "writer/one#1");
    assert_eq!(json["record"]["status"], "failed");
    let evidence = json["evidence"][0]["evidence"]["output"].as_str().unwrap();
    assert!(evidence.contains("seen"), "{json}");
}

#[test]
fn trials_of_a_run_are_listed_and_ambiguous_names_refused_with_candidates() {
    let context = context();
    failing(&context);
    for args in [&["show"][..], &["show", ".proctor/latest"]] {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(0);
        assert!(output.stdout.contains("FAILED writer/two#1"), "{output}");
    }
    let output = context.proctor(["show", "writer/"]).run();
    output.assert_code(2);
    let candidates = "use one of: writer/one#1, writer/two#1";
    assert!(output.stderr.contains(candidates), "{output}");
    let output = context.proctor(["show", "nothing/such"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("no trial of"), "{output}");
}

#[test]
fn trial_goes_through_the_pager_in_colour_tmux() {
    let context = context();
    failing(&context);
    let env = [("PAGER", "head -n 2")];
    let Some(terminal) = Terminal::open(&context, "the pager", &env, "show writer/one#1") else {
        return;
    };
    let screen = terminal.is_given_back(0);
    assert!(screen.contains("writer/one#1\nFAILED one"), "{screen}");
    assert!(
        !screen.contains("outcome"),
        "not through the pager\n{screen}"
    );
    let colours = terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
    assert!(colours.contains("\u{1b}[31m"), "{colours:?}");
    assert!(!screen.contains('\u{202e}'), "{screen}");
}
