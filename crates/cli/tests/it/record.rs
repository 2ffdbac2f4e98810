//! Files of a run: the record, the log and the results for every outcome, the layout of its
//! directory, and the agent's workspace.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, Running, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    claude_case, command_case, context, init, install_claude, proctor_run, result_with, run, saved,
    says, schema, session, shell, with, write, write_case,
};

/// The files of the only run fit their schemas, agree with each other, and tell this outcome.
#[track_caller]
fn check_files(context: &TestContext, outcome: &str) {
    let (record, log, results) = (context.record(), context.log(), context.results());
    schema(context, "record").assert_valid(&record);
    schema(context, "log").assert_valid(&log);
    schema(context, "results").assert_valid(&results);
    assert_eq!(record["outcome"], outcome, "{record:#}");
    assert_eq!(log["execution"]["outcome"], outcome);
    assert_eq!(results["agent"]["outcome"], outcome);
    assert_eq!(results["agent"]["status"], log["execution"]["status"]);
    assert_eq!(results["agent"]["exit_code"], log["execution"]["exit_code"]);
    for error in record["errors"].as_array().unwrap() {
        let code = error["code"].as_str().unwrap();
        assert!(
            code.bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_'),
            "{code}"
        );
        assert!(error["timestamp"].is_string(), "{error}");
    }
    let is_success = outcome == "completed";
    assert_eq!(log["execution"]["status"] == "success", is_success);
    assert_eq!(
        log["errors"].as_array().unwrap().is_empty(),
        is_success,
        "{log:#}"
    );
}

fn failed(fields: &Value) -> Vec<Value> {
    vec![
        init(),
        says("m-1", "x"),
        result_with(fields),
        json!({"exit": 1}),
    ]
}

/// SC-003, CR-3.1: the outcomes that an agent's own output brings about.
#[test]
fn files_of_every_outcome_of_the_agent_fit_their_schemas() {
    let api = |status: u16| failed(&json!({"is_error": true, "api_error_status": status}));
    let broke = json!({"is_error": true, "result": "Credit balance is too low"});
    let cases = [
        ("completed", session(&[write("a", "x\n")])),
        (
            "gave_up",
            failed(&json!({"subtype": "error_max_turns", "is_error": true})),
        ),
        ("agent_error", vec![init(), json!({"exit": 3})]),
        ("auth", api(401)),
        ("rate_limit", api(429)),
        ("overloaded", api(529)),
        ("overloaded", api(503)),
        ("network", api(500)),
        ("quota", failed(&broke)),
    ];
    for (outcome, steps) in cases {
        let context = context();
        install_claude(&context, &steps);
        run(&context, &claude_case());
        check_files(&context, outcome);
    }
}

/// SC-003: a timeout, an interruption, a program that is not there, a sandbox that is not.
#[test]
fn files_of_every_other_outcome_fit_their_schemas() {
    let context = timed_out();
    check_files(&context, "timeout");

    let context = interrupted();
    check_files(&context, "interrupted");

    let context = crate::support::context();
    run(&context, &claude_case()).assert_code(3);
    check_files(&context, "not_installed");

    let context = crate::support::context();
    let program = proctor_run(&context, &command_case("sh"));
    program.env("TMPDIR", "/proc").run().assert_code(3);
    check_files(&context, "sandbox");
}

fn timed_out() -> TestContext {
    let context = context();
    install_claude(
        &context,
        &[init(), says("m-1", "x"), json!({"sleep_ms": 60_000})],
    );
    run(&context, &with(&claude_case(), &json!({"timeout": 500}))).assert_code(1);
    context
}

/// A run whose agent is at work.
fn busy_agent() -> (TestContext, Running) {
    let context = context();
    let busy = saved(&context, "busy");
    install_claude(
        &context,
        &[
            init(),
            write(busy.as_str(), ""),
            json!({"sleep_ms": 60_000}),
        ],
    );
    let running = proctor_run(&context, &claude_case()).spawn();
    wait_until(std::time::Duration::from_secs(30), "the agent", || {
        busy.exists()
    });
    (context, running)
}

fn interrupted() -> TestContext {
    let (context, running) = busy_agent();
    running.signal(Signal::INT);
    running.wait().assert_code(130);
    context
}

/// The record that is there while the trial runs fits the schema too.
#[test]
fn the_first_record_fits_its_schema() {
    let (context, running) = busy_agent();
    let record = context.record();
    schema(&context, "record").assert_valid(&record);
    assert_eq!(record["outcome"], "interrupted");
    running.signal(Signal::TERM);
    running.wait().assert_code(130);
}

/// The published schemas are those that the program prints.
#[test]
fn published_schemas_are_current() {
    let context = context();
    let folder = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for name in ["suite", "eval", "log", "results", "record"] {
        let output = context.proctor(["schema", name]).run();
        output.assert_code(0);
        let file = folder.join(format!("{name}.json"));
        let published = fs_err::read_to_string(&file).unwrap_or_default();
        assert!(
            published == output.stdout,
            "{file} is not current: write it anew with `proctor schema {name}`"
        );
    }
}

/// The schema for editors takes what `proctor` takes, and refuses a typo.
#[test]
fn the_schema_of_test_cases_fits_test_cases() {
    let context = context();
    let schema = schema(&context, "suite");
    schema.assert_valid(&claude_case());
    schema.assert_valid(&command_case("agent"));
    let typo = with(&claude_case(), &json!({"evaluator": []}));
    assert!(!schema.is_valid(&typo));
    let typo = with(
        &claude_case(),
        &json!({"agent": {"config": {"promt": "x"}}}),
    );
    assert!(!schema.is_valid(&typo));
}

/// `--json` prints one object, by the names that scripts rely on.
#[test]
fn json_output_is_one_object() {
    let context = context();
    install_claude(&context, &session(&[]));
    let output = proctor_run(&context, &claude_case()).arg("--json").run();
    output.assert_code(0);
    assert_eq!(output.stderr, "");
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        keys(&summary),
        ["run_dir", "run_id", "status", "tasks", "trials"]
    );
    assert_eq!(summary["run_dir"], context.only_run_dir().as_str());
    assert_eq!(summary["status"], "passed");
    let trial = &summary["trials"][0];
    assert_eq!(
        keys(trial),
        [
            "agent", "cost_usd", "outcome", "record", "score", "status", "task", "trial", "type",
            "usage"
        ]
    );
    assert_eq!(trial["agent"], "claude-code");
    assert_eq!(trial["task"], "case");
    assert_eq!(trial["trial"], 1);
    assert_eq!(trial["cost_usd"], 0.0153);
    assert_eq!(trial["usage"]["output_tokens"], 40);
    assert!(Utf8Path::new(trial["record"].as_str().unwrap()).is_file());
    // Unknown is null.
    context.install_fake("agent", &json!([]));
    let output = proctor_run(&context, &command_case("agent"))
        .arg("--json")
        .run();
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"][0]["usage"], Value::Null);
    assert_eq!(summary["trials"][0]["cost_usd"], Value::Null);
}

/// All files below a folder, timestamps masked, git's own left out.
fn files(folder: &Utf8Path) -> Vec<String> {
    let mut found = Vec::new();
    list(folder, folder, &mut found);
    found.sort();
    found
}

fn list(root: &Utf8Path, folder: &Utf8Path, found: &mut Vec<String>) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            list(root, entry.path(), found);
        } else {
            let name = entry.path().strip_prefix(root).unwrap().to_string();
            let masked = name.split_once("terminal-output-");
            found.push(masked.map_or(name.clone(), |(before, _)| {
                format!("{before}terminal-output-*")
            }));
        }
    }
}

/// SC-010, FR-016: the layout of a run's folder.
#[test]
fn the_folder_of_a_run_has_its_layout() {
    let context = context();
    install_claude(&context, &session(&[write("new.txt", "x\n")]));
    let command = json!({"name": "command", "config": {"command": "echo hello"}});
    let case = with(
        &claude_case(),
        &json!({
            "workspace_name": "my-run", "workspace_dir": "../runs", "evaluators": ["git-diff", command],
        }),
    );
    run(&context, &case).assert_code(0);
    let folder = context.only_run_dir();
    assert_eq!(folder.parent().unwrap(), context.root().join("runs"));
    assert!(
        folder.file_name().unwrap().starts_with("my-run-"),
        "{folder}"
    );
    let expected = [
        ".lock",
        "artifacts/claude-code-logs/terminal-output-*",
        "artifacts/evaluators/command-2/output.log",
        "artifacts/evaluators/command-2/stderr",
        "artifacts/evaluators/command-2/stdout",
        "artifacts/events.ndjson",
        "artifacts/git-diff.patch",
        "artifacts/prompt.md",
        "artifacts/raw/stderr",
        "artifacts/raw/stdout",
        "artifacts/record.json",
        "artifacts/results.json",
        "artifacts/youbencha-log.json",
        "commits.ndjson",
        "diff.patch",
        "meta.json",
        "plan.json",
        "src-modified/README.md",
        "src-modified/new.txt",
        "summary.json",
    ];
    let mut found = files(&folder);
    found.retain(|file| !file.starts_with("claims/"));
    assert_eq!(found, expected);
    let results = context.results();
    assert_eq!(results["artifacts"]["agent_log"], "youbencha-log.json");
    for path in results["artifacts"]["evaluator_artifacts"]
        .as_array()
        .unwrap()
    {
        assert!(
            folder
                .join("artifacts")
                .join(path.as_str().unwrap())
                .is_file(),
            "{path}"
        );
    }
}

#[test]
fn workspaces_can_be_deleted_and_artifacts_stay() {
    let context = context();
    install_claude(&context, &session(&[]));
    let output = proctor_run(&context, &claude_case())
        .arg("--delete-workspace")
        .run();
    output.assert_code(0);
    assert!(!context.only_run_dir().join("src-modified").exists());
    assert_eq!(context.record()["status"], "passed");
}

/// Edge case of seed 000: artifacts that cannot be written are found before the agent starts.
#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_agent_starts() {
    let context = context();
    let started = saved(&context, "started");
    install_claude(&context, &session(&[write(started.as_str(), "")]));
    fs_err::write(context.root().join("cases/file"), "").unwrap();
    for place in ["file", "file/below", "/proc/nowhere"] {
        let output = run(
            &context,
            &with(&claude_case(), &json!({"workspace_dir": place})),
        );
        output.assert_code(2);
        assert!(output.stderr.contains("cannot write to"), "{output}");
        assert!(output.stderr.contains("workspace_dir"), "{output}");
        assert!(!started.exists());
    }
}

/// Edge case of seed 000: a folder that does not exist is made.
#[test]
fn a_missing_folder_is_made() {
    let context = context();
    install_claude(&context, &session(&[]));
    let case = with(
        &claude_case(),
        &json!({"workspace_dir": "../not/there/yet"}),
    );
    run(&context, &case).assert_code(0);
    assert!(
        context
            .only_run_dir()
            .starts_with(context.root().join("not/there/yet"))
    );
}

/// Git in a folder.
fn git(context: &TestContext, folder: &Utf8Path, args: &[&str]) -> Output {
    let all = ["-C", folder.as_str()]
        .into_iter()
        .chain(args.iter().copied());
    context
        .program("/usr/bin/git".into(), all.collect::<Vec<&str>>())
        .run()
}

/// Case 31: the workspace is one commit without remotes, without history, without other objects.
#[test]
fn workspace_has_one_commit_without_history() {
    let context = context();
    let repo = context.repo();
    repo.commit("tests", &[("hidden_test.txt", "the answer is 42\n")]);
    let secret = repo.git(["rev-parse", "HEAD:hidden_test.txt"]);
    repo.git(["rm", "-q", "hidden_test.txt"]);
    let head = repo.commit("no tests", &[("src.txt", "x\n")]);
    repo.git(["tag", "v1"]);
    repo.git(["remote", "add", "origin", "https://example.com/x.git"]);
    install_claude(&context, &session(&[]));
    run(&context, &claude_case()).assert_code(0);
    let workspace = context.only_run_dir().join("src-modified");
    let out = |args: &[&str]| {
        git(&context, &workspace, args)
            .assert_code(0)
            .stdout
            .trim()
            .to_owned()
    };
    assert_eq!(out(&["rev-list", "--all", "--count"]), "1");
    assert_eq!(out(&["remote"]), "");
    assert_eq!(out(&["tag"]), "");
    assert_eq!(out(&["status", "--porcelain"]), "");
    assert_eq!(out(&["reflog"]), "");
    // One commit, one tree, two files.
    let objects = out(&["cat-file", "--batch-check", "--batch-all-objects"]);
    assert_eq!(objects.lines().count(), 4, "{objects}");
    let found = git(&context, &workspace, &["cat-file", "-e", &secret]);
    assert_ne!(found.code, Some(0));
    let found = git(&context, &workspace, &["cat-file", "-e", &head]);
    assert_ne!(
        found.code,
        Some(0),
        "not even the commit itself, with its parents' ids"
    );
    assert_eq!(context.record()["task"]["commit"], head);
}

/// Runs on this source and returns the files of the workspace.
#[track_caller]
fn workspace_of(context: &TestContext, fields: &Value) -> Vec<String> {
    install_claude(context, &session(&[]));
    let dir = format!("../runs/{}", context.run_dirs().len());
    let case = with(
        &with(&claude_case(), fields),
        &json!({"workspace_dir": dir}),
    );
    run(context, &case).assert_code(0);
    let parent = context.root().join("cases").join(dir);
    let run_dir: Vec<Utf8PathBuf> = parent
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().path().to_owned())
        .collect();
    files(&run_dir[0].join("src-modified"))
}

#[test]
fn a_branch_a_commit_a_url_a_folder_can_be_the_source() {
    let context = context();
    let repo = context.repo();
    let first = repo.head();
    repo.commit("second", &[("sub/second.txt", "x\n")]);
    repo.git(["checkout", "-q", "-b", "feature"]);
    repo.commit("feature", &[("feature.txt", "x\n")]);
    repo.git(["checkout", "-q", "--detach"]);
    let lost = repo.commit("on no branch", &[("lost.txt", "x\n")]);
    repo.git(["checkout", "-q", "main"]);
    let url = format!("file://{}", repo.path());

    let main = ["README.md", "sub/second.txt"];
    assert_eq!(workspace_of(&context, &json!({})), main);
    assert_eq!(workspace_of(&context, &json!({"repo": url})), main);
    let feature = workspace_of(&context, &json!({"repo": url, "branch": "feature"}));
    assert_eq!(feature, ["README.md", "feature.txt", "sub/second.txt"]);
    assert_eq!(
        workspace_of(&context, &json!({"commit": first})),
        ["README.md"]
    );
    let lost = workspace_of(&context, &json!({"branch": "main", "commit": lost}));
    assert_eq!(
        lost,
        ["README.md", "feature.txt", "lost.txt", "sub/second.txt"]
    );
    assert_eq!(
        workspace_of(&context, &json!({"repo": "../repo/sub"})),
        ["second.txt"]
    );
    let folder = context.root().join("cases/plain/deep");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("a.txt"), "x\n").unwrap();
    assert_eq!(
        workspace_of(&context, &json!({"repo": "plain"})),
        ["deep/a.txt"]
    );
}

/// The user's own checkout is never touched: not its files, not its index, not its stash.
#[test]
fn the_users_checkout_is_never_touched() {
    let context = context();
    let repo = context.repo();
    fs_err::write(repo.path().join("README.md"), "edited\n").unwrap();
    fs_err::write(repo.path().join("untracked.txt"), "mine\n").unwrap();
    repo.git(["add", "README.md"]);
    let before = (
        repo.git(["status", "--porcelain"]),
        repo.git(["ls-files", "-s"]),
        repo.git(["for-each-ref"]),
    );
    install_claude(
        &context,
        &session(&[shell("test \"$(cat README.md)\" = '# Fixture'")]),
    );
    run(&context, &claude_case()).assert_code(0);
    let after = (
        repo.git(["status", "--porcelain"]),
        repo.git(["ls-files", "-s"]),
        repo.git(["for-each-ref"]),
    );
    assert_eq!(before, after);
}

/// A source that is not there is a mistake in the test case; nothing is left of the run.
#[test]
fn a_source_that_is_not_there_is_a_usage_error() {
    let context = context();
    install_claude(&context, &session(&[]));
    fs_err::create_dir(context.root().join("cases/plain")).unwrap();
    for (fields, said) in [
        (json!({"branch": "no-such-branch"}), "no-such-branch"),
        (json!({"commit": "deadbeef"}), "deadbeef"),
        (json!({"repo": "../nowhere"}), "folder not found"),
        (
            json!({"repo": "plain", "branch": "main"}),
            "not a git repository",
        ),
    ] {
        let output = run(&context, &with(&claude_case(), &fields));
        output.assert_code(2);
        assert!(output.stderr.contains(said), "{output}");
        assert!(context.run_dirs().is_empty(), "{:?}", context.run_dirs());
    }
}

/// A server that cannot be reached is infrastructure.
#[test]
fn a_repo_that_cannot_be_fetched_is_infrastructure() {
    let context = context();
    install_claude(&context, &session(&[]));
    let case = with(
        &claude_case(),
        &json!({"repo": "http://127.0.0.1:9/repo.git"}),
    );
    run(&context, &case).assert_code(3);
    check_files(&context, "network");
}

/// Several test cases are one run with a folder each; the worst of them decides.
#[test]
fn several_test_cases_are_one_run() {
    let context = context();
    install_claude(&context, &session(&[]));
    context.install_fake("agent", &json!([{"exit": 1}]));
    let folder = context.root().join("cases");
    fs_err::write(folder.join("a.json"), claude_case().to_string()).unwrap();
    fs_err::write(folder.join("b.json"), command_case("agent").to_string()).unwrap();
    let program = context.proctor(["run", "--json", folder.as_str()]);
    let output = program.env("ANTHROPIC_API_KEY", "sk-ant-fake").run();
    output.assert_code(1);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let statuses: Vec<&str> = summary["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["passed", "failed"]);
    assert_eq!(context.run_dirs().len(), 2);
}

/// A test case that is not valid is reported with a hint, and the others run.
#[test]
fn a_test_case_that_cannot_start_does_not_keep_others_from_running() {
    let context = context();
    context.install_fake("agent", &json!([]));
    let folder = context.root().join("cases");
    let right = command_case("agent");
    let wrong = with(&right, &json!({"branch": "no-such-branch"}));
    for (name, case) in [("a", &wrong), ("b", &right), ("c", &wrong)] {
        let case = with(case, &json!({"name": name}));
        fs_err::write(folder.join(format!("{name}.json")), case.to_string()).unwrap();
    }
    let output = context.proctor(["run", "--json", folder.as_str()]).run();
    output.assert_code(2);
    assert_eq!(
        output.stderr.matches("`no-such-branch`").count(),
        2,
        "{output}"
    );
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["failed_starts"].as_array().unwrap().len(), 2);
    assert_eq!(summary["trials"].as_array().unwrap().len(), 1);
    assert_eq!(context.run_dirs().len(), 1, "nothing is left of the others");
}

/// Every figure that says what was run: versions, hashes, commit, arguments, machine.
#[test]
fn record_has_program_and_arguments() {
    let context = context();
    install_claude(&context, &session(&[]));
    let path = write_case(&context, &claude_case());
    run(&context, &claude_case()).assert_code(0);
    let record = context.record();
    assert_eq!(record["task"]["config_file"], path.as_str());
    assert_eq!(record["task"]["commit"], context.repo().head());
    // The SHA-256 of "do it".
    assert_eq!(record["task"]["prompt_hash"].as_str().unwrap().len(), 64);
    assert_eq!(record["task"]["config_hash"].as_str().unwrap().len(), 64);
    assert_eq!(
        record["process"]["argv"][0],
        context.bin().join("claude").as_str()
    );
    assert!(
        record["process"]["resources"]["max_rss_bytes"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert_eq!(record["host"]["os"], "linux");
    assert_eq!(
        record["agent"]["program"],
        context.bin().join("claude").as_str()
    );
}
