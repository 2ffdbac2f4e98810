//! Suites: every agent on every task, in parallel, in a seeded order, none lost.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    claude_case, command_case, context, init, install_claude, print, result_with, schema, with,
    write,
};

/// Writes a suite and its tasks; gives the suite's path.
pub(crate) fn suite(context: &TestContext, agents: &Value, more: &Value) -> Utf8PathBuf {
    let folder = context.root().join("suite");
    fs_err::create_dir_all(folder.join("cases")).unwrap();
    for task in ["one", "two"] {
        let case = json!({"name": task, "repo": "../../repo", "agent": {"config": {"prompt": format!("do {task}")}}});
        let case = with(&claude_case(), &case);
        fs_err::write(folder.join(format!("cases/{task}.json")), case.to_string()).unwrap();
    }
    let suite = json!({"agents": agents, "tasks": [{"testcase": "cases/*.json"}]});
    let path = folder.join("proctor.json");
    fs_err::write(&path, with(&suite, more).to_string()).unwrap();
    path
}

/// Agents that write a file and agents that do nothing.
pub(crate) fn two_agents(context: &TestContext) -> Value {
    context.install_fake("agent", &json!([write("new.txt", "x\n"), print("done\n")]));
    json!([
        {"name": "writer", "type": "command", "config": {"command": ["agent"]}},
        {"name": "floor", "type": "null"},
    ])
}

fn run(context: &TestContext, suite: &Utf8PathBuf, args: &[&str]) -> Output {
    let all = ["run", suite.as_str()]
        .into_iter()
        .chain(args.iter().copied());
    context.proctor(all).run()
}

fn latest(context: &TestContext) -> Utf8PathBuf {
    context.root().join(".proctor/latest")
}

pub(crate) fn json_of(path: &Utf8PathBuf) -> Value {
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// Finished trials on disk: how many records there are for each agent and task.
fn finished(context: &TestContext) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for agent in latest(context)
        .join("trials")
        .read_dir_utf8()
        .unwrap()
        .flatten()
    {
        for task in agent.path().read_dir_utf8().unwrap().flatten() {
            let trials = task.path().read_dir_utf8().unwrap().flatten();
            let whole = trials.filter(|trial| {
                // A trial that has just begun has no record yet.
                let record = fs_err::read(trial.path().join("artifacts/record.json"));
                let record: Value =
                    serde_json::from_slice(&record.unwrap_or_default()).unwrap_or_default();
                !trial.file_name().contains("attempt") && record["outcome"] == "completed"
            });
            counts.insert(
                format!("{}/{}", agent.file_name(), task.file_name()),
                whole.count(),
            );
        }
    }
    counts
}

#[test]
fn every_agent_does_every_task_and_each_trial_has_its_folder() {
    let context = context();
    let path = suite(
        &context,
        &two_agents(&context),
        &json!({"trials": 2, "parallel": 4}),
    );
    run(&context, &path, &[]).assert_code(0);
    let counts = finished(&context);
    assert_eq!(counts.len(), 4, "{counts:?}");
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
    let trial = latest(&context).join("trials/writer/one/trial-2");
    let meta = json_of(&trial.join("meta.json"));
    assert_eq!(
        (&meta["orchestrator"], &meta["task"], &meta["trial"]),
        (&json!("writer"), &json!("one"), &json!(2))
    );
    assert_eq!(meta["exit_reason"], "completed");
    assert_eq!(meta["total_cost_usd"], Value::Null, "unknown is null");
    let diff = fs_err::read_to_string(trial.join("diff.patch")).unwrap();
    assert!(diff.contains("+++ b/new.txt"), "{diff}");
    let record = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(record["agent"]["name"], "writer");
    assert_eq!(record["trial"], 2);
    let summary = json_of(&latest(&context).join("summary.json"));
    assert_eq!(summary["trials"].as_array().unwrap().len(), 8);
    let link = fs_err::read_link(latest(&context)).unwrap();
    assert!(link.is_relative(), "{link:?}");
    context.assert_nothing_left("");
}

#[test]
fn order_depends_on_the_seed_and_each_round_is_complete() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({"trials": 3}));
    let order = |seed: &str| run(&context, &path, &["--dry-run", "--seed", seed]).stdout;
    assert_eq!(order("7"), order("7"));
    assert_ne!(order("7"), order("8"));
    let lines = order("7");
    let rounds: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.split("trial ").nth(1))
        .collect();
    assert_eq!(
        rounds,
        ["1", "1", "1", "1", "2", "2", "2", "2", "3", "3", "3", "3"]
    );
    assert!(
        !context.root().join(".proctor").exists(),
        "a dry run leaves nothing"
    );
}

#[test]
fn filters_select_and_unknown_names_are_errors() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({}));
    let output = run(
        &context,
        &path,
        &["--orchestrator", "floor", "--task", "two", "--json"],
    );
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"].as_array().unwrap().len(), 1);
    for (args, hint) in [
        (["--agent", "flor"], "hint: did you mean `floor`?"),
        (["--task", "three"], "hint: available: "),
    ] {
        let output = run(&context, &path, &args);
        output.assert_code(2);
        assert!(output.stderr.contains(hint), "{output}");
    }
}

#[test]
fn errors_in_a_suite_have_positions() {
    let context = context();
    let agents = two_agents(&context);
    for (agents, more, reported) in [
        (&agents, json!({"trails": 3}), "did you mean `trials`?"),
        (&agents, json!({"sandbox": "podman"}), "podman"),
        (
            &agents,
            json!({"limits": {"memory": "1g"}}),
            "`limits` requires containers",
        ),
        (
            &agents,
            json!({"sandbox": "docker", "limits": {"memory": "much"}}),
            "invalid size `much`",
        ),
        (
            &agents,
            json!({"gateway": {"budget_usd": 0}}),
            "must be more than 0 dollars",
        ),
        (&agents, json!({"trials": 0}), "from 1 to 1000"),
        (
            &agents,
            json!({"tasks": [{"testcase": "nowhere/*.yaml"}]}),
            "test case not found",
        ),
        (
            &json!([{"type": "null"}, {"type": "null"}]),
            json!({}),
            "duplicate agent name `null`",
        ),
        (
            &json!([{"name": "a/b", "type": "null"}]),
            json!({}),
            "invalid agent name",
        ),
        (&json!([{"type": "nul"}]), json!({}), "did you mean `null`?"),
        (
            &json!([{"type": "claude-code", "config": {"prompt": "x"}}]),
            json!({}),
            "tasks have the prompts",
        ),
    ] {
        let path = suite(&context, agents, &more);
        let output = run(&context, &path, &[]);
        output.assert_code(2);
        assert!(
            output.stderr.contains(reported),
            "{reported}: {}",
            output.stderr
        );
        assert!(!context.root().join(".proctor").exists(), "{reported}");
    }
}

#[test]
fn test_cases_take_the_options_of_suites() {
    let context = context();
    context.install_fake("agent", &json!([write("new.txt", "x\n"), print("done\n")]));
    let folder = context.root().join("cases");
    for name in ["one", "two"] {
        let case = with(&command_case("agent"), &json!({"name": name}));
        fs_err::write(folder.join(format!("{name}.json")), case.to_string()).unwrap();
    }
    let proctor = |args: &[&str]| {
        let all = ["run", folder.as_str()]
            .into_iter()
            .chain(args.iter().copied());
        context.proctor(all).run()
    };
    let planned = proctor(&[
        "--trials",
        "2",
        "--agent",
        "null",
        "--task",
        "two",
        "--dry-run",
    ]);
    planned.assert_code(0);
    assert_eq!(
        planned.stdout,
        "null on two, trial 1\nnull on two, trial 2\n2 trials, seed 0; nothing was run\n"
    );
    assert_eq!(context.run_dirs().len(), 0);
    let output = proctor(&["--trials", "2", "--parallel", "2", "--json"]);
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"].as_array().unwrap().len(), 4);
    let run = Utf8PathBuf::from(summary["run_dir"].as_str().unwrap());
    let trial = run.join("trials/command/two/trial-2");
    fs_err::remove_dir_all(&trial).unwrap();
    let resumed = proctor(&["--trials", "2", "--resume", "--json"]);
    resumed.assert_code(0);
    assert!(trial.join("artifacts/record.json").is_file());
    proctor(&["--trials", "3", "--resume"]).assert_code(2);
    for (args, reported) in [
        (["--agent", "nosuch"], "unknown agent type `nosuch`"),
        (["--task", "three"], "unknown task `three`"),
        (["--network", "none"], "network"),
        (["--image", "busybox"], "`--image` requires containers"),
    ] {
        let refused = proctor(&args);
        refused.assert_code(2);
        assert!(refused.stderr.contains(reported), "{refused}");
    }
    context.proctor(["run"]).run().assert_code(2);
}

#[test]
fn a_test_case_whose_trial_was_interrupted_is_resumed_in_its_folder() {
    let context = context();
    context.install_fake("agent", &json!([write("new.txt", "x\n"), print("done\n")]));
    let file = context.testcase(&command_case("agent").to_string());
    context.proctor(["run", file.as_str()]).run().assert_code(0);
    let run = context.only_run_dir();
    let path = run.join("artifacts/record.json");
    let record = with(
        &json_of(&path),
        &json!({"status": "interrupted", "outcome": "interrupted"}),
    );
    fs_err::write(&path, record.to_string()).unwrap();
    let resumed = context.proctor(["run", file.as_str(), "--resume"]).run();
    resumed.assert_code(0);
    assert_eq!(json_of(&path)["status"], "passed");
    assert!(run.join("attempt-1/artifacts/record.json").is_file());
}

#[test]
fn runs_belong_to_the_project_and_not_to_its_workspaces() {
    let context = context();
    let project = context.root().join("project");
    fs_err::create_dir_all(project.join("inner")).unwrap();
    fs_err::create_dir(project.join(".proctor")).unwrap();
    let case = json!({
        "name": "case", "description": "a folder", "repo": "..",
        "agent": {"type": "null", "config": {"prompt": "Do nothing."}}, "evaluators": ["git-diff"],
    });
    fs_err::write(project.join("inner/case.json"), case.to_string()).unwrap();
    let suite = json!({"agents": [{"type": "null"}], "tasks": [{"testcase": "case.json"}]});
    fs_err::write(project.join("inner/suite.json"), suite.to_string()).unwrap();
    let proctor = |args: &[&str]| {
        let program = context.proctor(args.iter().copied());
        program.current_dir(project.join("inner")).run()
    };
    proctor(&["run", "case.json"]).assert_code(0);
    proctor(&["run", "suite.json"]).assert_code(0);
    let suite = fs_err::canonicalize(project.join(".proctor/latest")).unwrap();
    proctor(&["run", "case.json"]).assert_code(0);
    let ignored = fs_err::read_to_string(project.join(".proctor/.gitignore")).unwrap();
    assert_eq!(ignored, "*\n");
    let workspace = project.join(".proctor/latest/src-modified");
    assert!(workspace.join("inner/case.json").is_file());
    assert!(!workspace.join(".proctor").exists());
    let listed = proctor(&["list", "runs", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    proctor(&["status"]).assert_code(0);
    // The latest run is of the test case; that of the suite is resumed.
    let resumed = proctor(&["run", "suite.json", "--resume"]);
    resumed.assert_code(0);
    assert!(
        resumed.stdout.contains(suite.to_str().unwrap()),
        "{resumed}"
    );
}

#[test]
fn a_suite_runs_alone() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({}));
    let output = context.proctor(["run", path.as_str(), path.as_str()]).run();
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("cannot be combined with other paths"),
        "{output}"
    );
}

/// Case 27: a failed login stops only its agent.
#[test]
fn an_agent_whose_login_fails_is_not_started_again() {
    let context = context();
    let refused = json!({"is_error": true, "api_error_status": 401, "result": "Invalid API key"});
    install_claude(
        &context,
        &[init(), result_with(&refused), json!({"exit": 1})],
    );
    let agents = json!([{"type": "claude-code"}, {"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({"trials": 3}));
    let output = run(&context, &path, &["--json", "--retry-infra", "5"]);
    output.assert_code(3);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["not_run"], 5, "{summary}");
    assert_eq!(finished(&context)["floor/one"], 3);
}

/// Case 27: infrastructure is tried again, and every attempt is kept.
#[test]
fn a_trial_that_infrastructure_failed_is_tried_again() {
    let context = context();
    let overloaded = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"Overloaded"}"#;
    let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
    let seen = context.root().join("seen");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '2.1.0 (Claude Code)'\n[ \"$1\" = --help ] && exit 0\nif [ -e {seen} ]; then echo '{done}'; else touch {seen}; echo '{overloaded}'; exit 1; fi\n"
    );
    let program = context.bin().join("claude");
    fs_err::write(&program, script).unwrap();
    fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = suite(&context, &json!([{"type": "claude-code"}]), &json!({}));
    run(&context, &path, &["--task", "one", "--retry-infra", "2"]).assert_code(0);
    let folder = latest(&context).join("trials/claude-code/one");
    let first = json_of(&folder.join("trial-1.attempt-1/artifacts/record.json"));
    assert_eq!(first["outcome"], "overloaded");
    assert_eq!(
        json_of(&folder.join("trial-1/artifacts/record.json"))["outcome"],
        "completed"
    );
}

#[test]
fn a_resumed_run_starts_from_the_commit_that_it_began_with() {
    let context = context();
    let agents = json!([{"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({"trials": 2}));
    run(&context, &path, &[]).assert_code(0);
    let first = context.repo().head();
    let trial = latest(&context).join("trials/floor/one/trial-2");
    fs_err::remove_dir_all(&trial).unwrap();
    context
        .repo()
        .commit("the branch moves on", &[("new.txt", "")]);
    run(&context, &path, &["--resume"]).assert_code(0);
    let record = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(record["task"]["commit"], first, "{record:#}");
    // Another run is another matter.
    run(&context, &path, &[]).assert_code(0);
    let record = json_of(&trial.join("artifacts/record.json"));
    assert_eq!(record["task"]["commit"], context.repo().head());
}

/// Case 17: a signal ends the agents, each trial that ran has its record, and resuming runs the rest.
#[test]
fn an_interrupted_run_is_resumed_and_finished() {
    let context = context();
    context.install_fake(
        "agent",
        &json!([{"sleep_ms": 300}, write("new.txt", "x\n")]),
    );
    let agents = json!([{"name": "slow", "type": "command", "config": {"command": ["agent"]}}]);
    let path = suite(&context, &agents, &json!({"trials": 4, "parallel": 2}));
    let running = context.proctor(["run", path.as_str()]).spawn();
    wait_until(Duration::from_mins(1), "a finished trial", || {
        latest(&context).join("trials").exists()
            && finished(&context).values().any(|count| *count > 0)
    });
    let status = |reported: &str| {
        let output = context.proctor(["status", latest(&context).as_str()]).run();
        output.assert_code(0);
        assert!(output.stdout.contains(reported), "{reported}: {output}");
    };
    status("running");
    running.signal(Signal::TERM);
    running.wait().assert_code(130);
    context.assert_nothing_left("");
    status("stopped early");
    run(&context, &path, &["--resume"]).assert_code(0);
    assert!(
        finished(&context).values().all(|count| *count == 4),
        "{:?}",
        finished(&context)
    );
    status("8 trials: 8 passed, 0 failed, 0 excluded, 0 not run");
    status("finished");
    // Other trials are another run.
    let output = run(&context, &path, &["--resume", "--trials", "5"]);
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("the plan has changed (trials: 4 → 5)"),
        "{}",
        output.stderr
    );
}

#[test]
fn many_null_trials_at_once_leave_nothing_behind() {
    let context = context();
    let agents = json!([{"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({"trials": 50, "parallel": 16}));
    let output = run(&context, &path, &["--json"]);
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"].as_array().unwrap().len(), 100);
    context.assert_nothing_left("");
}

#[test]
fn the_published_schema_knows_suites() {
    let context = context();
    let schema = schema(&context, "suite");
    let agents = json!([{"name": "a", "type": "claude-code", "config": {"max_turns": 3}}]);
    let suite = json!({"agents": agents, "tasks": [{"testcase": "cases/*.yaml"}], "trials": 2});
    schema.assert_valid(&suite);
    for right in [
        json!({"$schema": "../docs/schema/suite.json"}),
        json!({"proxy": {"gateway": "litellm", "budget_per_trial_usd": 0.5}}),
        json!({"secrets": {"env_file": ".env", "unsafe_pass_through": ["TOKEN"]}}),
        json!({"agents": [{"type": "auto", "order": ["codex"]}]}),
    ] {
        schema.assert_valid(&with(&suite, &right));
    }
    for wrong in [
        json!({"proxy": {"gateway": "nginx"}}),
        json!({"secrets": {"env-file": ".env"}}),
        json!({"trails": 2}),
        json!({"trials": 0}),
        json!({"tasks": []}),
        json!({"agents": [{"name": "a b", "type": "null"}]}),
        json!({"agents": [{"type": "claude-code", "config": {"max_turn": 3}}]}),
    ] {
        assert!(!schema.is_valid(&with(&suite, &wrong)), "{wrong}");
    }
}

/// The example that `docs/suites.md` shows.
#[test]
fn the_example_suite_passes() {
    let context = context();
    let examples = Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let to = context.root().join("examples");
    let copy = ["-r", examples.as_str(), to.as_str()];
    context
        .program(Utf8Path::new("/bin/cp"), copy)
        .run()
        .assert_code(0);
    let path = context.root().join("examples/suite/proctor.yaml");
    let checked = context.proctor(["validate", path.as_str()]).run();
    checked.assert_code(0);
    assert!(checked.stdout.ends_with("ok, 4 trials\n"), "{checked}");
    let output = run(&context, &path, &["--json"]);
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"].as_array().unwrap().len(), 4);
    let shown = fs_err::read_to_string(examples.join("../docs/suites.md")).unwrap();
    let suite = fs_err::read_to_string(examples.join("suite/proctor.yaml")).unwrap();
    let body = suite.split_once("agents:").unwrap().1;
    assert!(
        shown.contains(body.trim_end()),
        "docs/suites.md shows another suite"
    );
}
