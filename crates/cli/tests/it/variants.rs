//! Variants of agents in suites: their files, prompts and start revisions, how their work is judged, and what may
//! differ between them. The agents are scripts, so that each test shows the files that an agent has.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::{suites::json_of, support::context};

/// Writes a suite with these agents and one task that a command judges; gives its path.
fn suite(context: &TestContext, agents: &Value, more: &Value) -> Utf8PathBuf {
    let folder = context.root().join("suite");
    fs_err::create_dir_all(&folder).unwrap();
    let case = json!({
        "name": "task",
        "description": "a task",
        "repo": context.repo().path(),
        "agent": {"type": "null", "config": {"prompt": "do it"}},
        "evaluators": [{"name": "command", "config": {
            "command": "test ! -e NOTES.md && grep -q Fixture README.md && cat work.txt",
            "protect": ["checks/**"],
        }}],
    });
    fs_err::write(folder.join("case.json"), case.to_string()).unwrap();
    let mut suite = json!({"agents": agents, "tasks": [{"testcase": "case.json"}]});
    let members = suite.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

/// An agent that runs a shell command.
fn shell(command: &str, variants: &Value) -> Value {
    json!([{"type": "command", "name": "base", "config": {"command": ["sh", "-c", command]}, "variants": variants}])
}

fn run(context: &TestContext, path: &Utf8PathBuf, more: &[&str]) -> Output {
    let args = ["run", path.as_str()].into_iter();
    context.proctor(args.chain(more.iter().copied())).run()
}

fn artifacts(context: &TestContext, agent: &str) -> Utf8PathBuf {
    let trials = context.root().join(".proctor/latest/trials");
    trials.join(agent).join("task/trial-1/artifacts")
}

fn record(context: &TestContext, agent: &str) -> Value {
    json_of(&artifacts(context, agent).join("record.json"))
}

fn patch(context: &TestContext, agent: &str) -> String {
    fs_err::read_to_string(artifacts(context, agent).join("git-diff.patch")).unwrap()
}

#[test]
fn files_of_a_variant_are_neither_work_nor_judged() {
    let context = context();
    context
        .repo()
        .commit("notes", &[("OLD.md", "old\n"), ("docs/a.md", "a\n")]);
    context.repo().git(["tag", "v1"]);
    context.repo().commit("later", &[("OLD.md", "newer\n")]);
    context.repo().git(["reset", "--quiet", "--hard", "v1"]);
    fs_err::create_dir_all(context.root().join("suite")).unwrap();
    fs_err::write(context.root().join("suite/notes.md"), "from a file\n").unwrap();
    let later = context.repo().git(["rev-parse", "ORIG_HEAD"]);
    let variants = json!([
        {"name": "with", "files": {
            "NOTES.md": "notes.md", "OLD.md": format!("git:{later}:OLD.md"), "docs": null,
            "~/user.md": {"text": "home\n"}, "README.md": {"text": "mine\n"},
        }, "prompt_prefix": "First.", "prompt_suffix": "Last."},
        {"name": "without"},
    ]);
    // The agent sees all of it, in one commit, and changes a file of its own variant.
    let command = "{ cat NOTES.md OLD.md ~/user.md README.md; ls docs; git status --short; } > work.txt 2>&1; \
                   cat \"$PROCTOR_PROMPT_FILE\" >> work.txt; \
                   if [ -e NOTES.md ]; then echo more >> NOTES.md; echo more >> README.md; fi";
    let path = suite(&context, &shell(command, &variants), &json!({}));
    run(&context, &path, &[]).assert_code(0);
    let with = record(&context, "with");
    let patch_of = patch(&context, "with");
    for text in ["+from a file", "+newer", "+home", "+mine"] {
        assert!(patch_of.contains(text), "{text}: {patch_of}");
    }
    assert!(!patch_of.contains("NOTES.md b/NOTES.md"), "{patch_of}");
    assert_eq!(with["diff"]["files_changed"], 1, "{with:#}");
    let notes = with["notes"].to_string();
    assert!(notes.contains("not judged: NOTES.md, README.md"), "{notes}");
    assert_eq!(with["status"], "passed", "{with:#}");
    let found = with["agent"]["definition"]["found"]["file OLD.md"].as_str();
    assert_eq!(found.map(str::len), Some(64), "{with:#}");
    // Both variants started from the same task.
    let without = record(&context, "without");
    assert_eq!(with["task"]["definition"], without["task"]["definition"]);
    assert_ne!(
        with["agent"]["definition"]["digest"],
        without["agent"]["definition"]["digest"]
    );
    // A judgement is repeated from the same base.
    let latest = context.root().join(".proctor/latest");
    let output = context.proctor(["rescore", latest.as_str()]).run();
    output.assert_code(0);
    assert_eq!(record(&context, "with")["status"], "passed", "{output}");
    let report = context.proctor(["report", latest.as_str()]).run();
    assert!(
        report
            .stdout
            .contains("variants of base: with and without differ in"),
        "{report}"
    );
}

#[test]
fn variant_in_the_place_of_a_protected_file_is_refused() {
    let context = context();
    let variants = json!([{"name": "a", "files": {"checks/x.sh": {"text": "exit 0"}}}]);
    let path = suite(&context, &shell("true", &variants), &json!({}));
    let output = run(&context, &path, &[]);
    output.assert_code(2);
    for text in [
        "`checks/x.sh` of agent `a`",
        "a protected path of task `task`",
    ] {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    let path = suite(
        &context,
        &json!([{"type": "command", "config": {"command": ["true"]}, "skills": ["s"]}]),
        &json!({}),
    );
    let skill = context.root().join("suite/s");
    fs_err::create_dir_all(&skill).unwrap();
    fs_err::write(skill.join("SKILL.md"), "---\nname: s\n---\nx\n").unwrap();
    let output = run(&context, &path, &[]);
    output.assert_code(2);
    assert!(
        output.stderr.contains("`command` has no skills"),
        "{output}"
    );
}

#[test]
fn variant_starts_from_its_own_revision_and_is_judged_on_it() {
    let context = context();
    let first = context.repo().head();
    context
        .repo()
        .commit("feature", &[("feature.txt", "yes\n")]);
    context.repo().git(["branch", "feature"]);
    context
        .repo()
        .commit("check", &[("checks/run.sh", "true\n")]);
    context.repo().git(["branch", "tampered"]);
    context.repo().git(["reset", "--quiet", "--hard", &first]);
    let variants = json!([{"name": "old"}, {"name": "new", "ref": "feature"}]);
    let command = "ls feature.txt > work.txt 2>&1; true";
    let path = suite(
        &context,
        &shell(command, &variants),
        &json!({"vary": ["ref"]}),
    );
    run(&context, &path, &[]).assert_code(0);
    let (old, new) = (record(&context, "old"), record(&context, "new"));
    assert_eq!(old["task"]["definition"], new["task"]["definition"]);
    assert_ne!(old["task"]["commit"], new["task"]["commit"]);
    assert!(patch(&context, "new").contains("+feature.txt"), "{new:#}");
    assert_eq!(new["diff"]["files_changed"], 1, "{new:#}");
    let variants = json!([{"name": "bad", "ref": "tampered"}]);
    let path = suite(&context, &shell(command, &variants), &json!({}));
    let output = run(&context, &path, &[]);
    output.assert_code(2);
    assert!(
        output.stderr.contains("`ref` changes `checks/run.sh`"),
        "{output}"
    );
}

#[test]
fn difference_that_vary_does_not_list_is_refused() {
    let context = context();
    let variants = json!([
        {"name": "a", "files": {"A.md": {"text": "one"}}},
        {"name": "b", "files": {"A.md": {"text": "two"}}, "config": {"env": {"MODE": "x"}}},
    ]);
    let path = suite(
        &context,
        &shell("echo x > work.txt", &variants),
        &json!({"vary": ["files"]}),
    );
    let output = run(&context, &path, &["--dry-run"]);
    output.assert_code(2);
    for text in [
        "`a` and `b` differ in more than `vary` allows",
        "/config/env",
    ] {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    let path = suite(
        &context,
        &shell("echo x > work.txt", &variants),
        &json!({"vary": ["files", "env"]}),
    );
    run(&context, &path, &["--dry-run"]).assert_code(0);
}

#[test]
fn resume_with_accepted_changes_keeps_both_definitions_apart() {
    let context = context();
    let agents = |text: &str| {
        shell(
            "echo x > work.txt",
            &json!([{"name": "a", "files": {"A.md": {"text": text}}}]),
        )
    };
    let path = suite(&context, &agents("one"), &json!({"trials": 2}));
    run(&context, &path, &[]).assert_code(0);
    let trials = context.root().join(".proctor/latest/trials/a/task");
    fs_err::remove_dir_all(trials.join("trial-2")).unwrap();
    suite(&context, &agents("two"), &json!({"trials": 2}));
    let refused = run(&context, &path, &["--resume"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("/files/A.md/sha256"), "{refused}");
    assert!(refused.stderr.contains("--accept-changes"), "{refused}");
    run(&context, &path, &["--resume", "--accept-changes"]).assert_code(0);
    run(&context, &path, &["--resume"]).assert_code(0);
    let latest = context.root().join(".proctor/latest");
    let output = context
        .proctor(["report", "--format", "json", latest.as_str()])
        .run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let names: Vec<&str> = report["agents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().all(|name| name.starts_with("a (definition ")),
        "{names:?}"
    );
}
