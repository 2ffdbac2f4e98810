//! The program under the names `yb` and `youbencha`, and files that youBencha reads.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext, youbencha};
use serde_json::{Value, json};

use super::support::{
    claude_case, context, install_claude, print, result_with, session, shell, with, write,
};

/// A context in which the program is called `yb`.
fn yb_context() -> TestContext {
    let context = context();
    for name in ["yb", "youbencha"] {
        std::os::unix::fs::symlink(context.binary(), context.bin().join(name)).unwrap();
    }
    context
}

fn yb(context: &TestContext, args: &[&str]) -> Output {
    let path = context.bin().join("yb");
    let program = context.program(&path, args.iter().copied());
    program.env("ANTHROPIC_API_KEY", "sk-ant-fake").run()
}

fn write_file(context: &TestContext, path: &str, text: &str) -> Utf8PathBuf {
    let path = context.root().join(path);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(&path, text).unwrap();
    path
}

fn write_case(context: &TestContext, case: &Value) -> Utf8PathBuf {
    write_file(context, "testcase.json", &case.to_string())
}

/// A test case in the working directory.
fn case() -> Value {
    with(&claude_case(), &json!({"repo": "./repo"}))
}

#[test]
fn help_names_the_product_and_every_command() {
    let context = yb_context();
    let help = yb(&context, &["--help"]);
    let help = &help.assert_code(0).stdout;
    for word in [
        "Usage: yb",
        "youBencha - Evaluate and compare AI coding agents",
        "run",
        "eval",
        "report",
        "validate",
        "list",
        "init",
        "install-agents",
        "suggest-testcase",
        "config",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    for (command, words) in [
        (
            "run",
            ["-c, --config", "--delete-workspace", "run -c testcase.yaml"].as_slice(),
        ),
        ("report", &["--from", "--format", "--output", "Examples:"]),
        (
            "init",
            &["--force", "Create a starter testcase.yaml configuration"],
        ),
        (
            "validate",
            &["Validate a test case configuration without running it"],
        ),
    ] {
        let help = yb(&context, &[command, "--help"]);
        for word in words {
            assert!(
                help.assert_code(0).stdout.contains(word),
                "{command} {word}: {help}"
            );
        }
    }
    let version = format!("{}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(yb(&context, &["--version"]).stdout, version);
    let list = yb(&context, &["list"]);
    for word in [
        "Available Evaluators",
        "git-diff",
        "files_changed",
        "agentic-judge",
    ] {
        assert!(list.assert_code(0).stdout.contains(word), "{list}");
    }
}

#[test]
fn run_leaves_the_files_of_youbencha_and_exits_with_zero_when_work_is_bad() {
    let context = yb_context();
    install_claude(
        &context,
        &session(&[write("a.txt", "a\n"), write("b.txt", "b\n")]),
    );
    let limits = json!({"evaluators": [{"name": "git-diff", "config": {"max_files_changed": 1}}]});
    let path = write_case(&context, &with(&case(), &limits));
    let done = yb(&context, &["run", "-c", path.as_str()]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("Evaluation completed successfully"),
        "{done}"
    );
    let run = context.only_run_dir();
    let parent = context.root().join(".youbencha-workspace");
    assert_eq!(run.parent(), Some(parent.as_path()));
    assert!(run.file_name().unwrap().starts_with("run-"), "{run}");
    assert!(run.join("src-modified/a.txt").is_file());
    let results = context.results();
    assert_eq!(results["summary"]["overall_status"], "failed");
    assert_eq!(
        results["execution"]["environment"]["workspace_dir"],
        run.as_str()
    );
    let log = context.log();
    let same = fs_err::read(context.artifact("youbencha.log.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&same).unwrap(), log);
    let report = fs_err::read_to_string(context.artifact("report.md")).unwrap();
    assert!(report.contains("files_changed"), "{report}");
    // The log names where the agent worked, not where its workspace is kept.
    let worked = log["environment"]["working_directory"].as_str().unwrap();
    assert!(
        !worked.starts_with(context.root().join(".youbencha").as_str()),
        "{worked}"
    );
    assert_ne!(worked, "unknown");
}

#[test]
fn only_zero_and_one_are_exit_codes() {
    let context = yb_context();
    let bad = write_file(
        &context,
        "bad.yaml",
        "version: \"1.0\"\nrepo: x\nagent:\n  adapter: y\n",
    );
    let unknown = json!({"evaluators": [{"name": "nonexistent-xyz"}]});
    let unknown = write_case(&context, &with(&case(), &unknown));
    let broken = write_file(&context, "broken.json", "not JSON");
    for (args, word) in [
        (vec!["run", "-c", "missing.yaml"], "not found"),
        (vec!["run", "-c", bad.as_str()], "validation failed"),
        (vec!["run", "-c", unknown.as_str()], "evaluator"),
        (vec!["run", "--no-such-option"], "unexpected argument"),
        (vec!["report", "--from", "missing.json"], "missing.json"),
        (vec!["report", "--from", broken.as_str()], "broken.json"),
        (vec!["config", "get", "no.such.key"], "not found"),
    ] {
        let done = yb(&context, &args);
        done.assert_code(1);
        assert!(done.stderr.contains(word), "{args:?}: {done}");
    }
    // The agent does not start for a reference that does not exist.
    install_claude(&context, &session(&[]));
    let missing = json!({"expected_source": "branch", "expected": "missing-branch"});
    let missing = write_case(&context, &with(&case(), &missing));
    let done = yb(&context, &["run", "-c", missing.as_str()]);
    done.assert_code(1);
    assert!(done.stderr.contains("`missing-branch`"), "{done}");
    assert!(!done.stdout.contains("outcome"), "{done}");
    // An evaluator that does not work is skipped, and the evaluation reaches its end.
    let broken = json!({"evaluators": [{"name": "command", "config": {"command": "nosuchtool"}}]});
    let broken = write_case(&context, &with(&case(), &broken));
    let done = yb(&context, &["run", "-c", broken.as_str()]);
    done.assert_code(0);
    assert!(
        done.stdout.contains("Evaluation completed successfully"),
        "{done}"
    );
    assert_eq!(context.results()["summary"]["skipped"], 1);
    fs_err::remove_file(context.bin().join("claude")).unwrap();
    // Without the agent's program the evaluation does not reach its end.
    yb(
        &context,
        &["run", "-c", write_case(&context, &case()).as_str()],
    )
    .assert_code(1);
}

#[test]
fn report_is_written_and_has_the_sections_of_youbencha() {
    let context = yb_context();
    let results = json!({
        "version": "1.0.0",
        "test_case": {
            "name": "a_case", "description": "d", "config_file": "c.yaml", "config_hash": "h",
            "repo": "https://example.com/r", "branch": "main", "commit": "abc",
        },
        "execution": {
            "started_at": "2025-11-04T10:00:00Z", "completed_at": "2025-11-04T10:05:00Z",
            "duration_ms": 300_000, "youbencha_version": "0.1.2",
            "environment": {"os": "linux", "node_version": "v20", "workspace_dir": "w"},
        },
        "agent": {
            "type": "copilot-cli", "youbencha_log_path": "l", "status": "success", "exit_code": 0,
        },
        "evaluators": [{
            "evaluator": "git-diff", "status": "passed", "metrics": {"files_changed": 3},
            "message": "3 files", "duration_ms": 5000, "timestamp": "2025-11-04T10:02:00Z",
        }],
        "summary": {
            "total_evaluators": 1, "passed": 1, "failed": 0, "skipped": 0, "overall_status": "passed",
        },
        "artifacts": {"agent_log": "l", "reports": [], "evaluator_artifacts": []},
    });
    youbencha::check_results(&results);
    let path = write_file(&context, "out/results.json", &results.to_string());
    let done = yb(
        &context,
        &["report", "--from", path.as_str(), "--output", "r/report.md"],
    );
    let written = context.root().join("r/report.md");
    assert!(
        done.assert_code(0).stdout.contains("Report generated"),
        "{done}"
    );
    assert!(done.stdout.contains(written.as_str()), "{done}");
    let report = fs_err::read_to_string(written).unwrap();
    for section in [
        "# youBencha Evaluation Report",
        "## Summary",
        "## Test Case Configuration",
        "## Execution Details",
        "## Agent Execution",
        "## Evaluator Results",
        "## Artifacts",
        "Environment:",
        "OS: linux",
        "Node.js: v20",
        "files_changed",
        "copilot-cli",
    ] {
        assert!(report.contains(section), "{section}: {report}");
    }
    yb(
        &context,
        &["report", "--from", path.as_str(), "--format", "json"],
    )
    .assert_code(0);
    let json = fs_err::read(context.root().join("out/report.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), results);
}

#[test]
fn init_writes_a_test_case_and_the_judge_and_overwrites_nothing() {
    let context = yb_context();
    yb(&context, &["init"]).assert_code(0);
    let judge = ".claude/agents/agentic-judge.md";
    for path in ["testcase.yaml", judge, ".github/agents/agentic-judge.md"] {
        assert!(context.root().join(path).is_file(), "{path}");
    }
    let template = fs_err::read_to_string(context.root().join("testcase.yaml")).unwrap();
    assert!(
        template.contains("`yb validate") && !template.contains("proctor"),
        "{template}"
    );
    let missing = yb(&context, &["run", "-c", "nosuch.yaml"]);
    assert!(missing.stderr.contains("`yb init`"), "{missing}");
    fs_err::write(context.root().join(judge), "mine").unwrap();
    yb(&context, &["init"]).assert_code(1);
    yb(&context, &["install-agents"]).assert_code(0);
    assert_eq!(
        fs_err::read_to_string(context.root().join(judge)).unwrap(),
        "mine"
    );
    yb(&context, &["install-agents", "--force"]).assert_code(0);
    let text = fs_err::read_to_string(context.root().join(judge)).unwrap();
    assert!(text.contains("name: agentic-judge"), "{text}");
    yb(&context, &["init", "--force"]).assert_code(0);
}

#[test]
fn settings_are_shown_set_and_removed() {
    let context = yb_context();
    let get = |key: &str| yb(&context, &["config", "get", key]);
    assert_eq!(get("workspace_dir").stdout, ".youbencha-workspace\n");
    yb(&context, &["config", "init"]).assert_code(0);
    yb(&context, &["config", "init"]).assert_code(1);
    yb(&context, &["config", "set", "agent.timeout_ms", "900000"]).assert_code(0);
    yb(
        &context,
        &["config", "set", "log_level", "warn", "--global"],
    )
    .assert_code(0);
    assert_eq!(get("agent.timeout_ms").stdout, "900000\n");
    assert_eq!(get("log_level").stdout, "warn\n");
    assert!(context.home().join(".youbencharc").is_file());
    let list = yb(&context, &["config", "list"]);
    assert!(
        list.stdout.contains("agent:\n  timeout_ms: 900000\n"),
        "{list}"
    );
    // An invalid setting is not written.
    yb(&context, &["config", "set", "log_level", "loud"]).assert_code(1);
    yb(&context, &["config", "set", "no_such_key", "1"]).assert_code(1);
    assert_eq!(get("log_level").stdout, "warn\n");
    yb(&context, &["config", "unset", "agent.timeout_ms"]).assert_code(0);
    yb(&context, &["config", "unset", "agent.timeout_ms"]).assert_code(1);
}

#[test]
fn suggestions_need_a_directory_an_agent_and_its_instructions() {
    let context = yb_context();
    let work = context.repo().path().to_string();
    install_claude(&context, &[]);
    for (args, word) in [
        (
            vec!["--agent", "claude-code", "--output-dir", "missing"],
            "Directory not found",
        ),
        (
            vec!["--agent", "nothing", "--output-dir", &work],
            "Unsupported agent type",
        ),
        (
            vec!["--agent", "copilot-cli", "--output-dir", &work],
            "is not installed",
        ),
        (
            vec![
                "--agent",
                "claude-code",
                "--output-dir",
                &work,
                "--agent-file",
                "missing.md",
            ],
            "Agent file not found",
        ),
        (
            vec!["--agent", "claude-code", "--output-dir", &work],
            "needs a terminal",
        ),
    ] {
        let all = [&["suggest-testcase"], args.as_slice()].concat();
        let done = yb(&context, &all);
        done.assert_code(1);
        assert!(done.stderr.contains(word), "{args:?}: {done}");
    }
}

#[test]
fn built_in_judge_and_agents_of_the_working_directory_are_known() {
    let definition = "---\nname: reviewer\ndescription: Reviews\n---\nReview.\n";
    for (name, file, is_known) in [
        ("agentic-judge", None, true),
        ("reviewer", Some(".claude/agents/reviewer.md"), true),
        ("reviewer", Some(".claude/agents/reviewer.agent.md"), true),
        ("reviewer", None, false),
    ] {
        let context = yb_context();
        install_claude(&context, &session(&[]));
        if let Some(file) = file {
            write_file(&context, file, definition);
            write_file(&context, ".claude/agents/unrelated.md", definition);
        }
        let case = with(&case(), &json!({"agent": {"agent_name": name}}));
        let path = write_file(
            &context,
            "cases/case.json",
            &with(&case, &json!({"repo": "../repo"})).to_string(),
        );
        let done = yb(&context, &["run", "-c", path.as_str()]);
        done.assert_code(i32::from(!is_known));
        if is_known {
            let argv = context.record()["process"]["argv"].to_string();
            assert!(argv.contains(name), "{argv}");
            // Other definitions of the working directory do not come in.
            assert!(!argv.contains("unrelated"), "{argv}");
        } else {
            assert!(done.stderr.contains("CLAUDE_INVALID_CONFIG"), "{done}");
        }
    }
}

/// Copilot finds custom agents in its home, so that the workspace stays as the repo has it.
#[test]
fn agents_beside_the_test_case_reach_copilot() {
    let definition = "---\nname: reviewer\ndescription: Reviews\ntools:\n  - read\n---\nReview.\n";
    for place in ["cases", "."] {
        let context = yb_context();
        let seen = context.root().join("seen.md");
        let keep = format!(
            "cat \"$COPILOT_HOME/agents/reviewer.agent.md\" > '{seen}'; ls -A > '{seen}.ls'"
        );
        let options = "--output-format --allow-all-tools --agent --model";
        let ends = json!({"type": "result", "timestamp": "2026-11-01T00:00:00Z", "exitCode": 0});
        let said = json!({"type": "assistant.message", "data": {"content": "done"}});
        context.install_fake(
            "copilot",
            &json!([
                {"when_args": ["--version"], "steps": [print("1.0.102\n")]},
                {"when_args": ["--help"], "steps": [print(options)]},
                shell(&keep), {"line": said}, {"line": ends},
            ]),
        );
        let file = format!("{place}/.github/agents/reviewer.agent.md");
        write_file(&context, &file, definition);
        let agent = json!({"type": "copilot-cli", "agent_name": "reviewer"});
        let case = with(&case(), &json!({"repo": "../repo", "agent": agent}));
        let path = write_file(&context, "cases/case.json", &case.to_string());
        let program = context.bin().join("yb");
        let run = context.program(&program, ["run", "-c", path.as_str()]);
        let done = run.env("COPILOT_GITHUB_TOKEN", "fake").run();
        done.assert_code(0);
        let text = fs_err::read_to_string(&seen).unwrap();
        assert_eq!(text, definition, "{place}: {done}");
        let names = fs_err::read_to_string(format!("{seen}.ls")).unwrap();
        assert!(!names.contains(".github"), "{names}");
        let argv = context.record()["process"]["argv"].to_string();
        assert!(argv.contains("reviewer"), "{argv}");
    }
}

#[test]
fn existing_work_is_judged_into_the_directory_of_evaluations() {
    let context = yb_context();
    let eval = json!({
        "name": "done", "description": "work", "directory": "./repo", "evaluators": ["git-diff"],
    });
    let path = write_file(&context, "eval.json", &eval.to_string());
    yb(&context, &["eval", "-c", path.as_str()]).assert_code(0);
    let run = context.only_run_dir();
    assert_eq!(
        run.parent(),
        Some(context.root().join(".youbencha-eval").as_path())
    );
    context.results();
}

/// As in youBencha, directories and files of results are relative to the working directory.
#[test]
fn results_of_a_test_case_elsewhere_are_in_the_working_directory() {
    let context = yb_context();
    install_claude(&context, &session(&[]));
    let file = json!({"type": "json-file", "output_path": "./history.jsonl"});
    let places = json!({
        "repo": "../repo",
        "workspace_dir": "work",
        "post_evaluation": [{"name": "database", "config": file}],
    });
    let case = with(&case(), &places).to_string();
    let path = write_file(&context, "cases/case.json", &case);
    yb(&context, &["run", "-c", path.as_str()]).assert_code(0);
    let history = fs_err::read_to_string(context.root().join("history.jsonl")).unwrap();
    assert_eq!(history.lines().count(), 1, "{history}");
    let runs = fs_err::read_dir(context.root().join("work")).unwrap();
    assert!(runs.count() > 0);
    assert!(!context.root().join("cases/work").exists());
}

/// Paths are relative to the working directory, which may be judged with results in it.
#[test]
fn working_directory_is_judged_without_results_of_earlier_evaluations() {
    let context = yb_context();
    let plain = context.root().join("plain");
    let named = json!({"output_dir": ".youbencha-eval", "expected_directory": "."});
    let eval = json!({
        "name": "done", "description": "work", "directory": ".", "evaluators": ["git-diff"],
    });
    let program = context.bin().join("yb");
    for folder in [context.repo().path(), plain.as_path()] {
        fs_err::create_dir_all(folder.join("evals")).unwrap();
        for more in [&json!({}), &json!({}), &named, &named] {
            let text = with(&eval, more).to_string();
            fs_err::write(folder.join("evals/eval.json"), text).unwrap();
            let here = context.program(&program, ["eval", "--json", "-c", "evals/eval.json"]);
            let done = here.current_dir(folder).run();
            let done: Value = serde_json::from_str(&done.assert_code(0).stdout).unwrap();
            let path = Utf8PathBuf::from(done["trials"][0]["record"].as_str().unwrap());
            assert!(path.starts_with(folder.join(".youbencha-eval")), "{path}");
            let record: Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
            assert_eq!(record["task"]["repo"], folder.as_str());
            assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
        }
    }
}

#[test]
fn hooks_get_the_workspace_and_write_json_lines() {
    let context = yb_context();
    install_claude(&context, &session(&[]));
    let script = "mkdir -p ${WORKSPACE_DIR}/config; echo {} > ${WORKSPACE_DIR}/config/auth.json";
    let script = json!({"name": "script", "config": {"command": "sh", "args": ["-c", script]}});
    let there =
        json!({"command": "touch", "args": ["there"], "working_dir": "${WORKSPACE_DIR}/config"});
    let there = json!({"name": "script", "config": there});
    let database = json!({"type": "json-file", "output_path": "history.jsonl"});
    let hooks = json!({
        "pre_execution": [script, there],
        "post_evaluation": [{"name": "database", "config": database}],
    });
    let path = write_case(&context, &with(&case(), &hooks));
    for runs in 1..=2 {
        yb(&context, &["run", "-c", path.as_str()]).assert_code(0);
        let lines = fs_err::read_to_string(context.root().join("history.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), runs);
        for line in lines.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            youbencha::check_results(&entry);
            assert!(entry["exported_at"].is_string(), "{line}");
        }
    }
    // Nothing else is left beside the file.
    assert!(!context.root().join("history.jsonl.lock").exists());
    for run in context.run_dirs() {
        assert!(run.join("src-modified/config/auth.json").is_file(), "{run}");
        assert!(run.join("src-modified/config/there").is_file(), "{run}");
    }
}

/// Files of trials that end badly are valid for youBencha, too.
#[test]
fn files_of_every_ending_are_valid() {
    let overloaded = json!({"is_error": true, "subtype": "error_during_execution", "result": "API Error: 529 overloaded_error"});
    let denied = json!({"is_error": true, "result": "Failed to authenticate. API Error: 401"});
    for (steps, more, expect) in [
        (vec![json!({"exit": 3})], json!({}), "agent_error"),
        (
            vec![json!({"sleep_ms": 60_000})],
            json!({"timeout": 300}),
            "timeout",
        ),
        (
            vec![result_with(&overloaded), json!({"exit": 1})],
            json!({}),
            "overloaded",
        ),
        (
            vec![result_with(&denied), json!({"exit": 1})],
            json!({}),
            "auth",
        ),
    ] {
        let context = context();
        install_claude(&context, &steps);
        super::support::proctor_run(&context, &with(&claude_case(), &more)).run();
        assert_eq!(
            context.record()["outcome"],
            expect,
            "{:#}",
            context.record()
        );
        assert_eq!(context.log()["execution"]["outcome"], expect);
        context.results();
    }
    let context = context();
    super::support::proctor_run(&context, &claude_case())
        .run()
        .assert_code(3);
    assert_eq!(context.record()["outcome"], "not_installed");
    assert_eq!(context.log()["execution"]["exit_code"], -1);
    assert_eq!(context.results()["agent"]["exit_code"], -1);
}

#[test]
fn errors_are_one_json_object_with_json() {
    let context = context();
    for args in [
        ["run", "--json", "-c", "missing.yaml"],
        ["run", "--json", "--no-such-option", "x"],
        ["eval", "--json", "-c", "missing.yaml"],
    ] {
        let done = context.proctor(args).run();
        done.assert_code(2);
        let error: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(
            (&error["status"], &error["exit_code"]),
            (&json!("error"), &json!(2))
        );
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
}
