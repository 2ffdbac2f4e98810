//! Scores of trials: by weight, never for errors, with floor and ceiling.

use serde_json::{Value, json};

use super::{case_of, judged, standing};
use crate::support::{context, run};

fn command(line: &str, weight: f64) -> Value {
    json!({"name": "command", "weight": weight, "config": {"command": line}})
}

#[test]
fn a_score_is_made_of_verdicts_by_their_weights() {
    let context = context();
    let evaluators = json!([command("true", 3.0), command("false", 1.0), "git-diff"]);
    let record = judged(&context, "echo 1 > new", &evaluators);
    assert_eq!(standing(&record), ("failed", Some(0.75)));
    let components = record["score"]["components"].as_array().unwrap();
    assert_eq!(components.len(), 3);
    assert_eq!(components[2]["weight"], 0.0, "git-diff only measures");
    assert_eq!(components[2]["value"], Value::Null);
    assert_eq!(context.results()["summary"]["score"], 0.75);
}

/// Case 6: an evaluator that broke is an error, and no number.
#[test]
fn evaluator_error_excludes_the_trial() {
    let context = context();
    let evaluators = json!([command("true", 1.0), command("no-such-program", 1.0)]);
    let record = judged(&context, "true", &evaluators);
    assert_eq!(standing(&record), ("error", None));
    assert_eq!(record["score"], Value::Null);
    assert_eq!(record["verdicts"][1]["status"], "error");
    assert_eq!(record["verdicts"][1]["score"], Value::Null);
}

/// Case 1: what an agent that did not complete left may be good; its score is 0.
#[test]
fn crashed_agent_scores_0_and_its_work_is_judged() {
    let context = context();
    let evaluators = json!([command("test -f new", 1.0)]);
    let record = judged(&context, "touch new; exit 3", &evaluators);
    assert_eq!(standing(&record), ("failed", Some(0.0)));
    assert_eq!(record["score"]["judged"], 1.0);
}

#[test]
fn a_weight_that_is_wrong_or_does_nothing_is_refused() {
    let context = context();
    for (evaluator, reported) in [
        (command("true", -1.0), "`weight` must be at least 0"),
        (
            json!({"name": "git-diff", "weight": 2}),
            "`weight` has no effect",
        ),
    ] {
        let output = run(&context, &case_of("true", &json!([evaluator])));
        output.assert_code(2);
        assert!(output.stderr.contains(reported), "{output}");
    }
}

/// Case 3: floor and ceiling are measured, and a task whose floor passes is named as broken.
#[test]
fn null_and_oracle_give_the_scale_of_each_task() {
    let context = context();
    let repo = context.repo();
    repo.commit("base", &[("answer", "1\n2\n3\n4\n")]);
    repo.git(["branch", "solved"]);
    repo.git(["checkout", "--quiet", "solved"]);
    repo.commit("solved", &[("answer", "one\ntwo\nthree\nfour\n")]);
    repo.git(["checkout", "--quiet", "-"]);
    let agent = json!({"type": "null", "config": {"prompt": "do it"}});
    for (name, evaluators) in [
        ("sound", json!([{"name": "expected-diff"}])),
        ("broken", json!([command("true", 1.0)])),
    ] {
        let case = json!({
            "name": name, "description": "d", "repo": "../repo", "agent": agent,
            "expected_source": "branch", "expected": "solved", "evaluators": evaluators,
        });
        let path = context.root().join(format!("cases/{name}.json"));
        fs_err::write(path, case.to_string()).unwrap();
    }
    let half = "printf 'one\\ntwo\\n3\\n4\\n' > answer";
    let suite = json!({
        "agents": [
            {"name": "none", "type": "null"}, {"name": "ref", "type": "oracle"},
            {"name": "half", "type": "command", "config": {"command": ["sh", "-c", half]}},
        ],
        "tasks": [{"testcase": "cases/*.json"}],
    });
    let path = context.root().join("proctor.yaml");
    fs_err::write(&path, suite.to_string()).unwrap();
    context.proctor(["run", path.as_str()]).run().assert_code(1);
    let summary = fs_err::read(context.root().join(".proctor/latest/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let tasks = summary["tasks"].as_array().unwrap();
    assert_eq!(tasks[0]["task"], "broken");
    let problems = tasks[0]["problems"].to_string();
    assert!(
        problems.contains("the null agent passes the task"),
        "{problems}"
    );
    assert_eq!(tasks[1]["floor"], 0.0, "doing nothing is worth nothing");
    assert_eq!(tasks[1]["ceiling"], 1.0);
    let trials = summary["trials"].as_array().unwrap();
    let half = trials
        .iter()
        .find(|trial| trial["agent"] == "half" && trial["task"] == "sound")
        .unwrap();
    let score = half["normalized_score"].as_f64().unwrap();
    assert!(score > 0.4 && score < 0.9, "{half:#}");
}

/// The example of `docs/judging.md` runs with the documented result.
#[test]
fn the_example_of_the_docs_judges_end_to_end() {
    let context = context();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/judging.md");
    let page = fs_err::read_to_string(page).unwrap();
    let block = page.split("```yaml evaluators\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let repo = context.repo();
    let test = "grep -qx one answer\n";
    repo.commit("base", &[("answer", "1\n2\n"), ("test.sh", test)]);
    repo.git(["branch", "solved"]);
    repo.git(["checkout", "--quiet", "solved"]);
    repo.commit("solved", &[("answer", "one\ntwo\n")]);
    repo.git(["checkout", "--quiet", "-"]);
    let line = r#"["sh", "-c", "printf 'one\\n2\\n' > answer"]"#;
    let case = format!(
        "name: docs\ndescription: The example.\nrepo: ../repo\nexpected_source: branch\nexpected: solved\n\
         agent: {{type: command, config: {{prompt: Do it., command: {line}}}}}\nevaluators:\n{block}"
    );
    let path = context.testcase(&case);
    let output = context.proctor(["run", "-c", path.as_str()]).run();
    output.assert_code(1);
    let record = context.record();
    let verdicts = record["verdicts"].as_array().unwrap();
    let status = |number: usize| verdicts[number]["status"].as_str().unwrap();
    assert_eq!((status(0), status(1)), ("passed", "failed"), "{record:#}");
    let similarity = verdicts[1]["score"].as_f64().unwrap();
    assert!(similarity > 0.0 && similarity < 0.7, "{record:#}");
    let components = record["score"]["components"].as_array().unwrap();
    let weights: Vec<f64> = components
        .iter()
        .map(|it| it["weight"].as_f64().unwrap())
        .collect();
    assert_eq!(weights, [3.0, 1.0, 0.0]);
    let score = record["score"]["value"].as_f64().unwrap();
    assert!(
        (score - (3.0 + similarity) / 4.0).abs() < 1e-9,
        "{record:#}"
    );
    // Another look at the same work comes to the same.
    let run = context.only_run_dir();
    let output = context.proctor(["rescore", run.as_str()]).run();
    output.assert_code(1);
    assert_eq!(context.record()["score"]["value"], score);
}
