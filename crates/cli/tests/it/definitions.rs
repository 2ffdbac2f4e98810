//! Trials of different definitions: a run keeps to one, reports list them apart, and records that cannot be read
//! are named. Tokens and scores mean the same in all places.

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite, two_agents},
    support::{
        claude_case, command_case, context, init, install_claude, last_record, print, result_with,
        run, says, with, write_case,
    },
};

fn start(context: &TestContext, path: &Utf8PathBuf, more: &[&str]) -> Output {
    let args = ["run", path.as_str()].into_iter();
    context.proctor(args.chain(more.iter().copied())).run()
}

fn latest(context: &TestContext) -> Utf8PathBuf {
    let latest = context.root().join(".proctor/latest");
    latest.canonicalize_utf8().unwrap()
}

fn write_script(context: &TestContext, line: &str) {
    let script = context.root().join("suite/agent.sh");
    fs_err::create_dir_all(script.parent().unwrap()).unwrap();
    fs_err::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs_err::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
}

/// Two agents of which one runs a script beside the suite.
fn agents(context: &TestContext) -> Value {
    let mut agents = two_agents(context);
    write_script(context, "echo done");
    agents[0]["config"] = json!({"command": ["./agent.sh"], "env": {"API_TOKEN": "first-value"}});
    agents
}

#[test]
fn resume_refuses_a_changed_definition_and_names_the_change() {
    let context = context();
    let agents = agents(&context);
    let path = suite(&context, &agents, &json!({}));
    start(&context, &path, &[]).assert_code(0);
    let refused = |expect: &str| {
        let output = start(&context, &path, &["--resume"]);
        output.assert_code(2);
        assert!(output.stderr.contains(expect), "{expect}: {output}");
    };
    let rewrite = |agents: &Value, more: &Value| suite(&context, agents, more);
    let changed = with(
        &agents[0],
        &json!({"config": {"command": ["./agent.sh", "-x"]}}),
    );
    rewrite(&json!([changed, agents[1]]), &json!({}));
    refused("agent `writer` has changed (/config/command/1: not set → \"-x\")");
    rewrite(&agents, &json!({"gateway": {"budget_calls": 3}}));
    refused("agent `floor` has changed (/gateway: null → {");
    rewrite(&agents, &json!({}));
    write_script(&context, "echo other");
    refused("agent `writer` has changed (/config/command/0/content: ");
    write_script(&context, "echo done");
    let case = context.root().join("suite/cases/one.json");
    let written = fs_err::read_to_string(&case).unwrap();
    fs_err::write(&case, written.replace("do one", "do more")).unwrap();
    refused("task `one` has changed (/prompt: \"do one\" → \"do more\")");
    let limit = r#"{"name":"git-diff","config":{"assertions":{"max_files_changed":9}}}"#;
    fs_err::write(&case, written.replace("\"git-diff\"", limit)).unwrap();
    refused("evaluators of task `one` has changed (/evaluators/0/config/assertions");
    fs_err::write(&case, written).unwrap();
    // Neither of these changes what an agent does; a key is not part of a definition.
    let rotated = json!({"config": {"env": {"API_TOKEN": "second-value"}}});
    let agents = json!([with(&agents[0], &rotated), agents[1]]);
    rewrite(&agents, &json!({"parallel": 2, "gateway": null}));
    start(&context, &path, &["--resume"]).assert_code(0);
    let plan = json_of(&latest(&context).join("plan.json"))["definitions"].to_string();
    assert!(!plan.contains("first-value"), "{plan}");
    assert!(!plan.contains(context.root().as_str()), "{plan}");
}

#[test]
fn runs_of_different_definitions_are_reported_apart() {
    let context = context();
    let agents = two_agents(&context);
    let path = suite(&context, &agents, &json!({}));
    start(&context, &path, &[]).assert_code(0);
    let first = latest(&context);
    let again = json!({"config": {"env": {"MODE": "fast"}}});
    let changed = json!([with(&agents[0], &again), agents[1]]);
    suite(&context, &changed, &json!({}));
    start(&context, &path, &[]).assert_code(0);
    let second = latest(&context);
    let report = |format: &str| {
        let runs = [first.as_str(), second.as_str()];
        let args = ["report", "--format", format].into_iter().chain(runs);
        let output = context.proctor(args).run();
        output.assert_code(0);
        output.stdout
    };
    let figures: Value = serde_json::from_str(&report("json")).unwrap();
    let agents = figures["agents"].as_array().unwrap();
    let names: Vec<&str> = agents
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let apart = names
        .iter()
        .filter(|it| it.starts_with("writer (definition "));
    assert_eq!((apart.count(), names.len()), (2, 3), "{names:?}");
    assert!(names.contains(&"floor"), "{names:?}");
    let text = report("table");
    assert!(text.contains("differ in /plan/config/env: "), "{text}");
    let compared = context
        .proctor(["compare", first.as_str(), second.as_str()])
        .run();
    assert!(
        compared
            .stdout
            .contains("the agents differ in /plan/config/env: "),
        "{compared}"
    );
    assert!(!compared.stdout.contains("is not compared"), "{compared}");
    // The same definition is the same agent, also in another run.
    start(&context, &path, &[]).assert_code(0);
    let third = latest(&context);
    let same = context
        .proctor(["report", second.as_str(), third.as_str()])
        .run();
    assert!(!same.stdout.contains("definition"), "{same}");
}

#[test]
fn a_changed_commit_is_another_task() {
    let context = context();
    let agents = two_agents(&context);
    let path = suite(&context, &agents, &json!({}));
    start(&context, &path, &[]).assert_code(0);
    let first = latest(&context);
    context.repo().commit("more", &[("more.txt", "more\n")]);
    start(&context, &path, &[]).assert_code(0);
    let second = latest(&context);
    let report = context
        .proctor(["report", first.as_str(), second.as_str()])
        .run();
    let expect = "2 definitions of the task one are listed apart";
    assert!(report.stdout.contains(expect), "{report}");
    assert!(
        report.stdout.contains("differ in /found/tree: "),
        "{report}"
    );
    let compared = context
        .proctor(["compare", first.as_str(), second.as_str()])
        .run();
    let expect = "task one is not compared: it differs in /found/tree: ";
    assert!(compared.stdout.contains(expect), "{compared}");
    compared.assert_code(3);
}

#[test]
fn records_that_cannot_be_read_are_named() {
    let context = context();
    let agents = two_agents(&context);
    let path = suite(&context, &agents, &json!({}));
    start(&context, &path, &[]).assert_code(0);
    let latest = latest(&context);
    let good = context
        .proctor(["baseline", "save", "good", latest.as_str()])
        .run();
    good.assert_code(0);
    let record = latest.join("trials/writer/one/trial-1/artifacts/record.json");
    fs_err::write(record, "{\"version\":").unwrap();
    let run = latest.as_str();
    for args in [
        vec!["report", run],
        vec!["compare", "good", run],
        vec!["compare", "good", run, "--format", "json"],
        vec![
            "compare",
            "good",
            run,
            "--fail-on",
            "score<-0.5",
            "--format",
            "markdown",
        ],
        vec!["baseline", "save", "bad", run],
        vec!["status", run],
        vec!["status", run, "--json"],
        vec!["rescore", run],
    ] {
        let output = context.proctor(args.iter().copied()).run();
        let text = format!("{}{}", output.stdout, output.stderr);
        let is_named =
            text.contains("writer/one/trial-1") || text.contains("writer on one, trial 1");
        assert!(is_named, "{args:?}: {output}");
    }
}

/// The run of a test case is the directory of its only trial.
#[test]
fn unreadable_record_of_a_test_case_is_named() {
    let context = context();
    run(&context, &command_case("true"));
    let run = context.run_dirs().remove(0);
    let save = |name: &str| {
        context
            .proctor(["baseline", "save", name, run.as_str()])
            .run()
    };
    save("good").assert_code(0);
    fs_err::write(run.join("artifacts/record.json"), "{\"version\":").unwrap();
    let named = "unreadable or misplaced records: record.json.";
    for output in [
        save("bad").assert_code(2),
        context
            .proctor(["compare", "good", run.as_str()])
            .run()
            .assert_code(2),
        context
            .proctor(["report", run.as_str()])
            .run()
            .assert_code(0),
    ] {
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(text.contains(named), "{output}");
    }
    assert!(!context.root().join("baselines/bad.json").exists());
    let shown = context
        .proctor(["show", "x#1", "--run", run.as_str()])
        .run();
    let expect = ["cannot read the record of ", "can be shown"];
    assert!(expect.iter().all(|it| shown.stderr.contains(it)), "{shown}");
}

#[test]
fn tokens_are_the_same_figure_in_all_places() {
    let context = context();
    install_claude(
        &context,
        &[init(), says("m-1", "done"), result_with(&json!({}))],
    );
    let agents = json!([{"name": "claude", "type": "claude-code"}]);
    let path = suite(&context, &agents, &json!({}));
    let case = context.root().join("suite/cases/one.json");
    let judged = r#"{"name":"command","config":{"command":"true"}}"#;
    let written = fs_err::read_to_string(&case).unwrap();
    fs_err::write(&case, written.replace("\"git-diff\"", judged)).unwrap();
    let ran = context
        .proctor(["run", path.as_str()])
        .env("ANTHROPIC_API_KEY", "sk-ant-fake")
        .run();
    let latest = latest(&context);
    let folder = latest.join("trials/claude/one/trial-1/artifacts");
    let usage = &json_of(&folder.join("record.json"))["usage"];
    let figure = |name: &str| usage[name].as_u64().unwrap();
    let tokens = figure("input_tokens") + figure("output_tokens");
    let cached = figure("cache_read_tokens") + figure("cache_creation_tokens");
    assert_eq!(figure("total_tokens"), tokens);
    assert!(cached > 0);
    let status = context.proctor(["status", latest.as_str()]).run();
    for output in [&ran, &status] {
        let row = output
            .stdout
            .lines()
            .find(|line| line.starts_with("claude"));
        let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
        let expect = [tokens.to_string(), cached.to_string()];
        assert_eq!(cells[5..7], expect, "{output}");
    }
    let events = fs_err::read_to_string(folder.join("events.ndjson")).unwrap();
    let ended = events
        .lines()
        .find(|line| line.contains("\"event\":\"ended\""));
    assert!(
        ended.unwrap().contains(&format!("\"tokens\":{tokens}")),
        "{events}"
    );
    let json = context
        .proctor(["report", latest.as_str(), "--format", "json"])
        .run();
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    let agent = &report["agents"][0];
    assert_eq!(agent["tokens"]["median"], tokens as f64);
    assert_eq!(agent["cached_tokens"]["median"], cached as f64);
    let csv = context
        .proctor(["report", latest.as_str(), "--format", "csv"])
        .run();
    assert!(
        csv.stdout.contains(&format!(",{tokens},{cached},")),
        "{csv}"
    );
}

#[test]
fn doing_nothing_scores_0_beside_a_limit_on_the_change() {
    let context = context();
    let limit = json!({"name": "git-diff", "config": {"assertions": {"max_files_changed": 1}}});
    let tests = json!({"name": "command", "config": {"command": "test -f answer.txt"}});
    let score = |evaluators: Value, agent: &str| {
        let case = with(&claude_case(), &json!({"evaluators": evaluators}));
        let file = write_case(&context, &case);
        let ran = context
            .proctor(["run", file.as_str(), "--agent", agent, "--json"])
            .run();
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
        (
            summary["trials"][0]["status"].as_str().unwrap().to_owned(),
            summary["trials"][0]["score"].as_f64(),
        )
    };
    let both = json!([limit, tests]);
    assert_eq!(score(both, "null"), ("failed".to_owned(), Some(0.0)));
    let weighted = with(&limit, &json!({"weight": 1}));
    assert_eq!(
        score(json!([weighted, tests]), "null"),
        ("failed".to_owned(), Some(0.5))
    );
    assert_eq!(
        score(json!([limit]), "null"),
        ("passed".to_owned(), Some(1.0))
    );
    context.install_fake("agent", &json!([print("done\n"), {"write_file": {"path": "a", "text": ""}}, {"write_file": {"path": "b", "text": ""}}]));
    let case = with(&command_case("agent"), &json!({"evaluators": [limit]}));
    run(&context, &case).assert_code(1);
    let record = last_record(&context);
    assert_eq!(record["score"]["value"], 0.0);
    assert_eq!(record["verdicts"][0]["gate"], true);
}

#[test]
fn a_reference_that_is_not_a_patch_is_refused_with_its_line() {
    let context = context();
    let case = with(&claude_case(), &json!({"reference": "fix.patch"}));
    let file = write_case(&context, &case);
    let patch = file.with_file_name("fix.patch");
    for (text, line) in [
        ("no patch at all\n", 1),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n", 5),
    ] {
        fs_err::write(&patch, text).unwrap();
        let run = ["run", file.as_str(), "--agent", "oracle"];
        for args in [
            &["validate", file.as_str()][..],
            &["task", "check", file.as_str()],
            &run,
        ] {
            let output = context.proctor(args.iter().copied()).run();
            output.assert_code(2);
            let expect = format!("fix.patch, line {line}: ");
            assert!(output.stderr.contains(&expect), "{args:?}: {output}");
        }
    }
}
