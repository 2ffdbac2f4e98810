//! Gates: rules that decide the exit code of `gate` and `run --gate`.

use camino::Utf8Path;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite},
    support::{context, print, with, write},
};

/// An agent that does both tasks, and an agent that does nothing. A task passes if the agent wrote
/// a file.
fn agents(context: &TestContext, file: &str) -> Value {
    context.install_fake("agent", &json!([write(file, "x\n"), print("done\n")]));
    let cases = context.root().join("suite/cases");
    let agents = json!([
        {"name": "writer", "type": "command", "config": {"command": ["agent"]}},
        {"name": "floor", "type": "null"},
    ]);
    suite(context, &agents, &json!({}));
    for task in ["one", "two"] {
        let path = cases.join(format!("{task}.json"));
        let check = json!({"name": "command", "config": {"command": "test -f new.txt"}});
        let case = with(&json_of(&path), &json!({"evaluators": [check]}));
        fs_err::write(&path, case.to_string()).unwrap();
    }
    agents
}

fn gated(context: &TestContext, gate: &Value, args: &[&str]) -> Output {
    let path = context.root().join("suite/proctor.json");
    let suite = with(&json_of(&path), &json!({"trials": 3, "gate": gate}));
    fs_err::write(&path, suite.to_string()).unwrap();
    let all = ["run", path.as_str(), "--gate"];
    context
        .proctor(all.into_iter().chain(args.iter().copied()))
        .run()
}

#[test]
fn run_with_a_gate_reports_and_passes_although_the_null_agent_fails() {
    let context = context();
    agents(&context, "new.txt");
    let rules = json!(["every task: pass^3", "cost_per_trial <= $1"]);
    let reports = [
        "--report",
        "junit.xml",
        "--report",
        "r.md",
        "--report",
        "r.html",
    ];
    let output = gated(&context, &json!([rules[0]]), &reports);
    output.assert_code(0);
    assert!(output.stdout.contains("gate: pass"), "{output}");
    for (name, start) in [
        ("junit.xml", "<?xml"),
        ("r.md", "# Report"),
        ("r.html", "<!doctype"),
    ] {
        let text = fs_err::read_to_string(context.root().join(name)).unwrap();
        assert!(text.starts_with(start), "{name}: {text}");
    }
    // The cost of a `command` agent is not known.
    let output = gated(&context, &rules, &[]);
    output.assert_code(3);
    let note = "writer is left out of `cost_per_trial <= $1`";
    assert!(output.stdout.contains(note), "{output}");
}

#[test]
fn gate_of_a_run_fails_on_a_task_that_passed_before() {
    let context = context();
    agents(&context, "new.txt");
    gated(&context, &json!(["every task: pass^3"]), &[]).assert_code(0);
    context
        .proctor(["baseline", "save", "main"])
        .run()
        .assert_code(0);
    agents(&context, "other.txt");
    let rules = json!({"rules": ["no task that passed before fails now"], "baseline": "main"});
    let output = gated(&context, &rules, &["--json"]);
    output.assert_code(1);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["gate"]["answer"], "fail");
    assert_eq!(json["gate"]["flipped"].as_array().unwrap().len(), 2);
    // The run keeps the rules of its suite.
    let output = context.proctor(["gate", "--output", "comment.md"]).run();
    output.assert_code(1);
    let comment = fs_err::read_to_string(context.root().join("comment.md")).unwrap();
    assert!(
        comment.contains("| one | writer | 3/3 → 0/3 | fails now |"),
        "{comment}"
    );
    let output = context.proctor(["gate", "--baseline", "mian"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("saved baselines: main"), "{output}");
}

#[test]
fn undecided_gate_exits_with_4_unless_an_option_decides() {
    let context = context();
    agents(&context, "new.txt");
    let rules = json!(["passed >= 90%"]);
    let output = gated(&context, &rules, &[]);
    output.assert_code(4);
    assert!(
        output.stdout.contains("more tasks would decide"),
        "{output}"
    );
    for (how, code) in [("pass", 0), ("fail", 1)] {
        let output = context.proctor(["gate", "--undecided", how]).run();
        output.assert_code(code);
    }
}

#[test]
fn invalid_gates_are_refused_before_the_first_trial() {
    let context = context();
    agents(&context, "new.txt");
    let relative = json!(["score >= baseline - 0.05"]);
    for (rules, args, message) in [
        (json!(["pased >= 80%"]), &[][..], "unknown metric"),
        (relative.clone(), &[][..], "needs a baseline"),
        (
            relative,
            &["--baseline", "none"][..],
            "no baseline or run none",
        ),
        (json!(["score >= 0.5"]), &["--report", "r.pdf"][..], "r.pdf"),
        (
            json!(["score >= 0.5"]),
            &["--rule", "score"][..],
            "expected >=",
        ),
    ] {
        let output = gated(&context, &rules, args);
        output.assert_code(2);
        assert!(output.stderr.contains(message), "{message}\n{output}");
    }
    let path = context.root().join("suite/proctor.json");
    let output = context
        .proctor(["run", path.as_str(), "--undecided", "pass"])
        .run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("has no effect without --gate"),
        "{output}"
    );
    assert!(!context.root().join(".proctor").exists());
}

/// The script of a step of the GitHub Action.
fn script_of_action(name: &str) -> String {
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/../../action.yml");
    let action: Value = serde_saphyr::from_str(&fs_err::read_to_string(action).unwrap()).unwrap();
    let mut steps = action["runs"]["steps"].as_array().unwrap().iter();
    let step = steps.find(|step| step["name"] == name).unwrap();
    step["run"].as_str().unwrap().to_owned()
}

/// The id of the cache is that of the source, or the place of the release.
#[test]
fn cache_of_the_action_depends_on_its_source() {
    let context = context();
    let script = script_of_action("Identify the source");
    let source = context.root().join("source");
    fs_err::create_dir_all(source.join("crates")).unwrap();
    let outputs = context.root().join("outputs.txt");
    let id = |text: &str, from: &str| {
        for file in ["Cargo.lock", "crates/main.rs"] {
            fs_err::write(source.join(file), text).unwrap();
        }
        let _ = fs_err::remove_file(&outputs);
        context
            .program(Utf8Path::new("/bin/bash"), ["-e", "-c", &script])
            .env("SOURCE", source.as_str())
            .env("FROM", from)
            .env("GITHUB_OUTPUT", outputs.as_str())
            .run()
            .assert_code(0);
        fs_err::read_to_string(&outputs).unwrap()
    };
    assert_eq!(id("one", ""), id("one", ""));
    assert_ne!(id("one", ""), id("two", ""));
    assert_eq!(id("one", "https://example.org"), "id=https://example.org\n");
}

/// The comment is created once, and then updated. A failure is a warning.
#[test]
fn action_keeps_one_comment_up_to_date() {
    let context = context();
    let file = |name: &str| context.root().join(name);
    let gh = r#"#!/bin/sh
echo "$*" >> calls.txt
case "$*" in
*--jq*) cat ids.txt 2> /dev/null; test ! -e forbidden ;;
*PATCH*) ;;
*) printf '42\n43\n' > ids.txt ;;
esac
"#;
    let program = context.bin().join("gh");
    fs_err::write(&program, gh).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&program, open).unwrap();
    fs_err::write(file("comment.md"), "<!-- proctor gate -->\n").unwrap();
    let script = script_of_action("Comment on the pull request");
    let comment = || {
        context
            .program(Utf8Path::new("/bin/bash"), ["-e", "-c", &script])
            .env("REPO", "o/r")
            .env("NUMBER", "7")
            .env("COMMENT", file("comment.md").as_str())
            .run()
    };
    comment().assert_code(0);
    comment().assert_code(0);
    let calls = fs_err::read_to_string(file("calls.txt")).unwrap();
    let written = calls.lines().filter(|line| line.contains("body="));
    let body = format!("-F body=@{}", file("comment.md"));
    let expected = [
        format!("api --silent repos/o/r/issues/7/comments {body}"),
        format!("api --silent -X PATCH repos/o/r/issues/comments/42 {body}"),
    ];
    assert_eq!(written.collect::<Vec<_>>(), expected);
    fs_err::write(file("forbidden"), "").unwrap();
    let warned = comment();
    warned.assert_code(0);
    assert!(
        warned
            .stdout
            .contains("::warning::The comment was not written"),
        "{warned}"
    );
}

/// The script of GitLab's job ends with the exit code of the gate, and writes the reports that it keeps.
#[test]
fn job_of_gitlab_runs_and_gates() {
    let context = context();
    agents(&context, "other.txt");
    let path = context.root().join("suite/proctor.json");
    let gate = json!({"trials": 1, "gate": ["every task: pass^1"]});
    fs_err::write(&path, with(&json_of(&path), &gate).to_string()).unwrap();
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/gitlab.yml");
    let template: Value =
        serde_saphyr::from_str(&fs_err::read_to_string(template).unwrap()).unwrap();
    let job = &template[".proctor"];
    let lines = job["script"].as_array().unwrap().iter();
    let script: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    let proctor = Utf8Path::new(env!("CARGO_BIN_EXE_proctor"))
        .parent()
        .unwrap();
    let output = context
        .program(Utf8Path::new("/bin/sh"), ["-e", "-c", &script.join("\n")])
        .env("PATH", format!("{}:{proctor}:/usr/bin:/bin", context.bin()))
        .env("PROCTOR_SUITE", path.as_str())
        .env("PROCTOR_ARGS", "--parallel 2 --undecided pass")
        .run();
    output.assert_code(1);
    for name in ["junit.xml", "report.md", "report.html"] {
        let kept = job["artifacts"]["paths"][0].as_str().unwrap();
        assert!(context.root().join(kept).join(name).is_file(), "{name}");
    }
}

/// The steps of the GitHub Action that need no GitHub: they run, report, gate and write the comment.
#[test]
fn steps_of_the_action_write_reports_comment_and_exit_code() {
    let context = context();
    agents(&context, "other.txt");
    let path = context.root().join("suite/proctor.json");
    let gate = json!({"trials": 3, "gate": ["every task: pass^3"]});
    fs_err::write(&path, with(&json_of(&path), &gate).to_string()).unwrap();
    let script = script_of_action("Run and gate");
    let proctor = Utf8Path::new(env!("CARGO_BIN_EXE_proctor"));
    let search = format!(
        "{}:{}:/usr/bin:/bin",
        context.bin(),
        proctor.parent().unwrap()
    );
    let file = |name: &str| context.root().join(name);
    let output = context
        .program(Utf8Path::new("/bin/bash"), ["-e", "-c", &script])
        .env("PATH", &search)
        .env("SUITE", path.as_str())
        .env("BASELINE", "")
        .env("UNDECIDED", "")
        .env("ARGS", "--parallel 2")
        .env("REPORTS", file("reports").as_str())
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", file("summary.md").as_str())
        .env("GITHUB_OUTPUT", file("outputs.txt").as_str())
        .run();
    output.assert_code(0);
    let outputs = fs_err::read_to_string(file("outputs.txt")).unwrap();
    assert!(outputs.starts_with("exit-code=1\n"), "{outputs}");
    let comment = fs_err::read_to_string(file("reports/comment.md")).unwrap();
    assert!(comment.starts_with("<!-- proctor gate -->\n"), "{comment}");
    // The summary has the result once.
    assert_eq!(fs_err::read_to_string(file("summary.md")).unwrap(), comment);
    for name in ["junit.xml", "report.md", "report.html"] {
        assert!(file("reports").join(name).is_file(), "{name}");
    }
}
