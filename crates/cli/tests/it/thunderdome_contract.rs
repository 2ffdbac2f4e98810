//! Thunderdome's command line, configuration and results: its users change the name of the program and
//! nothing else.

use camino::Utf8PathBuf;
use proctor_scripted_model::{Answer, Script, ScriptedModel};
use proctor_testkit::{Output, Program, Repo, TestContext};
use serde_json::{Value, json};

use crate::{
    support::{context, with},
    thunderdome_results::foreign,
};

/// The answers of a judge for an empty change and for work.
const FAILS: &str = r#"{"criteria": [{"id": "criterion-1", "score": 0, "reason": "nothing"}, {"id": "criterion-2", "score": 0, "reason": "nothing"}]}"#;
const PASSES: &str = r#"{"criteria": [{"id": "criterion-1", "score": 1, "evidence": [{"quote": "forty-two"}]}, {"id": "criterion-2", "score": 1, "evidence": [{"quote": "forty-two"}]}]}"#;

/// Makes the benchmark of a task in `benchmarks/`: `v1`, its solution, and its hidden tests.
fn benchmark(context: &TestContext, name: &str, more: &[(&str, &str)]) {
    let repo = Repo::init(&context.root().join("benchmarks").join(name));
    repo.commit("v1", &[("TASK.md", "Write forty-two.\n")]);
    repo.git(["tag", "v1"]);
    repo.commit("solution", &[("answer", "forty-two\n")]);
    repo.git(["tag", "v1-solution"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
    let hidden = [&[("hidden/test.sh", "grep -qx forty-two answer\n")], more].concat();
    repo.commit("hidden", &hidden);
    repo.git(["tag", "v1-validation"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
}

fn task() -> Value {
    json!({
        "id": "T1", "name": "CLI Time Tracker", "repo": "./benchmarks/bench-time-tracker",
        "tag": "v1", "reference_tag": "v1-solution", "validation_tag": "v1-validation",
        "category": "greenfield/simple", "test_cmd": "sh hidden/test.sh",
    })
}

fn suite() -> Value {
    json!({
        "orchestrators": [
            {"name": "null", "adapter": "./adapters/null.sh"},
            {"name": "writer", "adapter": "./adapters/writer.sh", "env": {"LEVEL": 3, "ON": true}},
            {"name": "needy", "adapter": "./adapters/null.sh", "env": {"KEY": "${NEEDED_KEY}"}},
        ],
        "tasks": [task()],
        "results": {"dir": "./results"},
    })
}

/// A working directory as Thunderdome's users have it; `more` replaces parts of the suite.
pub(crate) fn project(more: &Value) -> TestContext {
    let context = context();
    benchmark(&context, "bench-time-tracker", &[]);
    let adapters = context.root().join("adapters");
    fs_err::create_dir(&adapters).unwrap();
    fs_err::write(adapters.join("null.sh"), "exit 0\n").unwrap();
    let script = "test \"$LEVEL $ON\" = '3 true' || exit 9\necho forty-two > answer\n";
    fs_err::write(adapters.join("writer.sh"), script).unwrap();
    write_suite(&context, "thunderdome.yaml", &with(&suite(), more));
    let link = context.bin().join("thunderdome");
    std::os::unix::fs::symlink(context.binary(), link).unwrap();
    context
}

fn write_suite(context: &TestContext, name: &str, suite: &Value) {
    fs_err::write(context.root().join(name), suite.to_string()).unwrap();
}

pub(crate) fn program(context: &TestContext, args: &[&str]) -> Program {
    let path = context.bin().join("thunderdome");
    context.program(&path, args.iter().copied())
}

pub(crate) fn thunderdome(context: &TestContext, args: &[&str]) -> Output {
    program(context, args).run()
}

fn json_of(context: &TestContext, path: &str) -> Value {
    let bytes = fs_err::read(context.root().join(path)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

const WRITER: &str = "results/latest/trials/writer/bench-time-tracker/trial-1";

#[test]
fn the_file_of_the_working_directory_is_run_and_folders_are_named_after_the_repo() {
    let context = project(&json!({}));
    for name in [
        "T1",
        "bench-time-tracker",
        "./benchmarks/bench-time-tracker",
    ] {
        let args = [
            "run",
            "--orchestrator",
            "writer",
            "--task",
            name,
            "--trials",
            "2",
        ];
        let output = thunderdome(&context, &args);
        output.assert_code(0);
        let meta = json_of(&context, &format!("{WRITER}/meta.json"));
        assert_eq!(meta["task"], "bench-time-tracker", "{name}");
        assert_eq!(meta["composite_score"], 1.0, "{meta:#}");
    }
    let output = thunderdome(&context, &["run", "--orchestrator", "unknown"]);
    output.assert_code(2);
    assert!(output.stderr.contains("null, writer, needy"), "{output}");
}

#[test]
fn tasks_of_the_same_repo_go_by_their_ids() {
    let other = with(&task(), &json!({"id": "T2", "name": null}));
    let context = project(&json!({"tasks": [task(), other]}));
    let args = ["run", "--orchestrator", "writer", "--dry-run"];
    let output = thunderdome(&context, &args);
    output.assert_code(0);
    for name in ["writer on T1,", "writer on T2,"] {
        assert!(output.stdout.contains(name), "{output}");
    }
}

#[test]
fn the_configuration_is_named_before_or_after_the_command() {
    let context = project(&json!({}));
    let renamed = context.root().join("other.yaml");
    fs_err::rename(context.root().join("thunderdome.yaml"), renamed).unwrap();
    for args in [
        [
            "--config",
            "other.yaml",
            "run",
            "--orchestrator",
            "writer",
            "--dry-run",
        ],
        [
            "run",
            "--orchestrator",
            "writer",
            "--dry-run",
            "--config",
            "other.yaml",
        ],
        [
            "run",
            "--config",
            "other.yaml",
            "--orchestrator",
            "writer",
            "--dry-run",
        ],
    ] {
        let output = thunderdome(&context, &args);
        output.assert_code(0);
        assert!(
            output.stdout.starts_with("writer on bench-time-tracker"),
            "{output}"
        );
    }
    let output = thunderdome(&context, &["--config", "other.yaml", "list"]);
    output.assert_code(0);
    let output = thunderdome(&context, &["--config", "other.yaml", "doctor"]);
    output.assert_code(2);
    assert!(output.stderr.contains("--config"), "{output}");
    let output = thunderdome(&context, &["run"]);
    output.assert_code(2);
    assert!(output.stderr.contains("or thunderdome.yaml"), "{output}");
}

#[test]
fn each_name_of_the_program_prefers_its_own_file() {
    let context = project(&json!({}));
    let plain = |args: &[&str]| context.proctor(args.iter().copied()).run();
    let args = ["run", "--agent", "null", "--dry-run"];
    let output = plain(&args);
    assert!(output.stdout.contains("bench-time-tracker"), "{output}");
    let other = json!({"agents": [{"type": "null"}], "tasks": [with(&task(), &json!({"time_limit_minutes": 1}))]});
    write_suite(&context, "proctor.yaml", &other);
    assert!(plain(&args).stdout.contains("null on T1"));
    let output = thunderdome(&context, &args);
    assert!(
        output.stdout.contains("null on bench-time-tracker"),
        "{output}"
    );
}

#[test]
fn the_orchestrators_and_tasks_of_the_file_are_listed() {
    let context = project(&json!({}));
    let output = thunderdome(&context, &["list"]);
    output.assert_code(0);
    let lines: Vec<String> = output
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expect = [
        "Orchestrators of thunderdome.yaml:",
        "null ./adapters/null.sh",
        "writer ./adapters/writer.sh",
        "needy ./adapters/null.sh",
        "Tasks of thunderdome.yaml:",
        "bench-time-tracker greenfield/simple T1, CLI Time Tracker",
    ];
    assert_eq!(lines, expect);
    let output = context.proctor(["list", "--json"]).run();
    let listed: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(listed["suite"]["agents"][2]["name"], "needy");
    assert_eq!(listed["suite"]["tasks"][0]["also"][0], "T1");
    // The kinds are still there.
    assert_eq!(listed["agents"][0]["name"], "claude-code");
}

#[test]
fn options_of_thunderdome_without_effect_are_accepted_with_a_note() {
    let context = project(&json!({}));
    let args = ["run", "--orchestrator", "writer", "--cleanup-aggressive"];
    let output = thunderdome(&context, &args);
    output.assert_code(0);
    let note = "note: --cleanup-aggressive has no effect";
    assert!(output.stderr.contains(note), "{output}");
    let output = thunderdome(&context, &["completion", "bash"]);
    output.assert_code(0);
    assert!(output.stdout.starts_with("_thunderdome()"), "{output}");
}

#[test]
fn variables_are_needed_by_orchestrators_that_run() {
    let context = project(&json!({}));
    thunderdome(&context, &["run", "--orchestrator", "writer"]).assert_code(0);
    let output = thunderdome(&context, &["run", "--orchestrator", "needy"]);
    output.assert_code(2);
    assert!(output.stderr.contains("thunderdome.yaml:1:"), "{output}");
    assert!(
        output.stderr.contains("`NEEDED_KEY` is not set"),
        "{output}"
    );
    assert!(output.stderr.contains("^^^^^^^^^^^^^"), "{output}");
    // Nothing is run when a file is checked: a note.
    let output = thunderdome(&context, &["validate"]);
    output.assert_code(0);
    let note = "`NEEDED_KEY` is not set: agents that use it cannot run (needy)";
    assert!(output.stderr.contains(note), "{output}");
    let set = program(&context, &["run", "--orchestrator", "needy", "--dry-run"]);
    set.env("NEEDED_KEY", "x").run().assert_code(0);
}

/// A file in the shape of the original's own: many orchestrators, no key set, most adapters missing.
#[test]
fn every_missing_adapter_is_named_with_its_place() {
    let context = project(&json!({}));
    let mut text = "orchestrators:\n".to_owned();
    for number in 0..94 {
        let key = if number % 2 == 0 {
            "FIRST_KEY"
        } else {
            "SECOND_KEY"
        };
        text.extend([format!(
            "  - name: agent-{number}.x\n    adapter: ./adapters/agent-{number}/adapter.sh\n    env:\n      {key}: \"${{{key}}}\"\n"
        )]);
    }
    text.push_str("  - {name: fine, adapter: ./adapters/null.sh}\ntasks:\n");
    for number in 0..19 {
        let id = json!({"id": format!("T{number}")});
        text.extend([format!("  - {}\n", with(&task(), &id))]);
    }
    fs_err::write(context.root().join("thunderdome.yaml"), text).unwrap();
    let output = thunderdome(&context, &["validate"]);
    output.assert_code(2);
    for number in 0..94 {
        // Each orchestrator has four lines, after the first line of the file.
        let line = 3 + 4 * number;
        let place = format!("thunderdome.yaml:{line}:14: adapter script not found");
        assert!(output.stderr.contains(&place), "{place}: {output}");
    }
    assert_eq!(
        output.stderr.matches("adapter script not found").count(),
        94
    );
    assert_eq!(output.stderr.matches("is not set").count(), 2, "{output}");
    thunderdome(&context, &["run", "--orchestrator", "fine", "--dry-run"]).assert_code(0);
}

/// All keys of Thunderdome's own files beyond the seed, at once.
#[test]
fn settings_without_effect_are_notes_in_thunderdomes_files() {
    let green = json!({
        "greenfield": true, "validation_tag": null, "lint_cmd": "true",
        "green_weights": {"hidden_tests": 0.385, "agent_tests": 0.308, "build_lint": 0.154, "code_metrics": 0.154},
        "rubric": [{"criterion": "Concise", "weight": 2}], "difficulty": "hard", "weights": {"tests": 1},
    });
    let context = project(&json!({
        "tasks": [with(&task(), &green)],
        "proxy": {"gateway": "none", "log_dir": "./logs", "budget_per_trial_usd": 5.0, "cache": true},
        "secrets": {"env_file": ".env.secrets"}, "dashboard": {"port": 1},
    }));
    let args = ["run", "--orchestrator", "writer", "--trials", "1"];
    let output = thunderdome(&context, &args);
    for note in [
        "`secrets.env_file` .env.secrets does not exist",
        "`budget_per_trial_usd` has no effect with `gateway: none`",
        "`log_dir` has no effect with `gateway: none`",
        "the key `cache` of `proxy` is unknown",
        "the key `dashboard` is unknown",
        "the key `difficulty` of `tasks` is unknown and has no effect (T1)",
        "`code_metrics` is not computed: the other parts of the score share its weight (bench-time-tracker)",
        "`rubric` is not judged: set `proxy.judge_model`",
        "`weights` has no effect with `greenfield`",
    ] {
        assert!(output.stderr.contains(note), "{note}: {output}");
    }
    let meta = json_of(&context, &format!("{WRITER}/meta.json"));
    let scores = json!({"hidden_tests": 1.0, "agent_tests": 0.0, "static_analysis": 1.0});
    assert_eq!(meta["scores"], scores);
    let expect = (0.385 + 0.154) / (0.385 + 0.308 + 0.154);
    let score = meta["composite_score"].as_f64().unwrap();
    assert!((score - expect).abs() < 1e-9, "{score} {expect}");
    let record = json_of(&context, &format!("{WRITER}/artifacts/record.json"));
    let note = "`code_metrics` is not computed: the other parts of the score share its weight";
    assert!(
        record["task"]["notes"]
            .as_array()
            .unwrap()
            .contains(&json!(note)),
        "{record:#}"
    );
    let report = thunderdome(&context, &["report"]);
    assert!(
        report
            .stdout
            .contains(&format!("bench-time-tracker: {note}")),
        "{report}"
    );
}

#[test]
fn a_task_without_a_time_limit_has_that_of_its_category() {
    for (fields, minutes) in [
        (json!({}), 10),
        (json!({"category": null}), 10),
        (json!({"category": "features/complex"}), 30),
        (json!({"category": "marathon"}), 60),
        (json!({"category": "marathon", "time_limit_minutes": 7}), 7),
    ] {
        let context = project(&json!({"tasks": [with(&task(), &fields)]}));
        thunderdome(&context, &["run", "--orchestrator", "writer"]).assert_code(0);
        let record = json_of(&context, &format!("{WRITER}/artifacts/record.json"));
        assert_eq!(record["limits"]["timeout_ms"], minutes * 60_000, "{fields}");
    }
}

/// Hidden tests that bring their own settings are run by those, which the agent cannot replace.
#[test]
fn hidden_tests_run_by_the_settings_that_they_bring() {
    let green = with(
        &task(),
        &json!({"greenfield": true, "test_cmd": "echo own; exit 1"}),
    );
    let with_settings = json!({"id": "T2", "repo": "./benchmarks/bench-settings"});
    let context = project(&json!({"tasks": [green, with(&green, &with_settings)]}));
    let settings = [("validation-vitest.config.ts", "good\n")];
    benchmark(&context, "bench-settings", &settings);
    let npx = context.bin().join("npx");
    fs_err::write(
        &npx,
        "#!/bin/sh\ntest \"$*\" = 'vitest run --config validation-vitest.config.ts' && grep -q good validation-vitest.config.ts\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&npx, mode).unwrap();
    let planted = "echo good > validation-vitest.config.ts\n";
    fs_err::write(context.root().join("adapters/writer.sh"), planted).unwrap();
    thunderdome(&context, &["run", "--orchestrator", "writer"]).assert_code(1);
    for (task, score) in [("bench-time-tracker", 0.0), ("bench-settings", 1.0)] {
        let path = format!("results/latest/trials/writer/{task}/trial-1/meta.json");
        let meta = json_of(&context, &path);
        assert_eq!(meta["scores"]["hidden_tests"], score, "{task}: {meta:#}");
    }
}

/// A model that judges: nothing fails, everything else passes.
fn judge() -> Script {
    let usage = proctor_testkit::llm::USAGE;
    Script::new([
        Answer::text(FAILS)
            .usage(usage)
            .when("(nothing was changed)")
            .forever(),
        Answer::text(PASSES).usage(usage).forever(),
    ])
}

#[test]
fn the_judge_model_judges_a_rubric_and_full_asks_it_again() {
    let rubric = json!([{"criterion": "It is right", "weight": 3}, {"criterion": "It is short", "weight": 1}]);
    let fields = json!({"rubric": rubric, "weights": {"tests": 0.5, "rubric": 0.5}});
    let context = project(&json!({
        "tasks": [with(&task(), &fields)], "proxy": {"judge_model": "claude-sonnet-4-5"},
    }));
    let model = ScriptedModel::start_blocking(judge()).unwrap();
    let asked = |args: &[&str]| {
        let program = program(&context, args).model(&model);
        let output = program.env("ANTHROPIC_API_KEY", "sk-fake").run();
        output.assert_code(0);
        model.turns().len()
    };
    // The change of nothing, the reference solution and the work, which are two times the same.
    let first = asked(&["run", "--orchestrator", "writer"]);
    let meta = json_of(&context, &format!("{WRITER}/meta.json"));
    assert_eq!(meta["scores"], json!({"tests": 1.0, "rubric": 1.0}));
    let record = json_of(&context, &format!("{WRITER}/artifacts/record.json"));
    let verdict = &record["verdicts"][1];
    assert_eq!(verdict["metrics"]["judge"]["model"], "claude-sonnet-4-5");
    assert_eq!(verdict["assertions"]["criterion-1"]["weight"], 3.0);
    assert_eq!(asked(&["rescore", "results/latest"]), first);
    assert_eq!(asked(&["rescore", "--full"]), 2 * first);
}

#[test]
fn the_logs_of_calls_are_copied_to_the_log_folder() {
    let rubric = json!([{"criterion": "It is right", "weight": 3}, {"criterion": "It is short", "weight": 1}]);
    let answer = |text: &str| json!({"message": {"content": [{"text": text}], "usage": {"input": 10, "output": 2}}, "repeat": "forever"});
    let failing = with(&answer(FAILS), &json!({"when": "(nothing was changed)"}));
    let context = project(&json!({
        "tasks": [with(&task(), &json!({"rubric": rubric}))],
        "proxy": {"gateway": "proctor", "log_dir": "./results/proxy-logs", "judge_model": "claude-sonnet-4-5"},
        "gateway": {"script": "model.json"},
    }));
    let script = json!({"answers": [failing, answer(PASSES)]});
    fs_err::write(context.root().join("model.json"), script.to_string()).unwrap();
    thunderdome(&context, &["run", "--orchestrator", "writer"]).assert_code(0);
    let logs = context.root().join("results/proxy-logs");
    let run: Vec<Utf8PathBuf> = logs
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().into_path())
        .collect();
    assert_eq!(run.len(), 1, "one folder for the run");
    let folder = run[0].join("writer/bench-time-tracker");
    let text: String = folder
        .read_dir_utf8()
        .unwrap()
        .map(|entry| fs_err::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(folder.join("trial-1.ndjson").is_file());
    let calls = text
        .lines()
        .filter(|line| line.contains("claude-sonnet-4-5"));
    assert!(calls.count() >= 2, "{text}");
}

#[test]
fn validate_refuses_the_directory_of_a_run() {
    let context = project(&json!({}));
    foreign(&context, "writer", "bench-time-tracker", 1, &json!({}));
    let output = thunderdome(&context, &["validate", "results/runs/2026-02-12T15-25-21"]);
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("use `thunderdome rescore` to judge the run again"),
        "{output}"
    );
}

/// An adapter script is run by a shell; a program has to be one.
#[test]
fn a_program_that_cannot_be_started_is_found_before_anything_runs() {
    let context = project(&json!({}));
    let script = context.root().join("agent.sh");
    let suite_in = |program: &str, sandbox: Value| {
        let agent = json!({"type": "command", "config": {"command": [program]}});
        let task = with(&task(), &json!({"time_limit_minutes": 1}));
        write_suite(
            &context,
            "proctor.yaml",
            &json!({"agents": [agent], "tasks": [task], "sandbox": sandbox}),
        );
        context.proctor(["validate"]).run()
    };
    let suite = |program: &str| suite_in(program, json!("local"));
    let output = suite("./agent.sh");
    output.assert_code(2);
    assert!(output.stderr.contains("program not found"), "{output}");
    fs_err::write(&script, "#!/bin/sh\n").unwrap();
    let output = suite("./agent.sh");
    output.assert_code(2);
    assert!(
        output.stderr.contains("agent.sh is not executable"),
        "{output}"
    );
    assert!(output.stderr.contains("proctor.yaml:1:"), "{output}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&script, mode).unwrap();
    suite("./agent.sh").assert_code(0);
    suite("/nowhere/in-an-image").assert_code(2);
    let docker = json!({"type": "docker", "image": "some-image"});
    suite_in("/nowhere/in-an-image", docker).assert_code(0);
}
