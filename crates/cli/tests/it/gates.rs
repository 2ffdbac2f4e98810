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

/// The steps of the GitHub Action that need no GitHub: they run, report, gate and write the comment.
#[test]
fn steps_of_the_action_write_reports_comment_and_exit_code() {
    let context = context();
    agents(&context, "other.txt");
    let path = context.root().join("suite/proctor.json");
    let gate = json!({"trials": 3, "gate": ["every task: pass^3"]});
    fs_err::write(&path, with(&json_of(&path), &gate).to_string()).unwrap();
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/../../action.yml");
    let action = fs_err::read_to_string(action).unwrap();
    let action: Value = serde_saphyr::from_str(&action).unwrap();
    let mut steps = action["runs"]["steps"].as_array().unwrap().iter();
    let step = steps.find(|step| step["id"] == "run").unwrap();
    let script = step["run"].as_str().unwrap();
    let proctor = Utf8Path::new(env!("CARGO_BIN_EXE_proctor"));
    let search = format!(
        "{}:{}:/usr/bin:/bin",
        context.bin(),
        proctor.parent().unwrap()
    );
    let file = |name: &str| context.root().join(name);
    let output = context
        .program(Utf8Path::new("/bin/bash"), ["-e", "-c", script])
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
