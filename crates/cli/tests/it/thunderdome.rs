//! Thunderdome's suite file as it is: adapter scripts as agents, repos at tags as tasks, figures
//! from the sidecar.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{context, with};

/// The repository of a task: `v1`, its solution, and its hidden tests.
pub(crate) fn repo(context: &TestContext) {
    let repo = context.repo();
    repo.commit(
        "v1",
        &[
            ("TASK.md", "Write 42.\n"),
            ("install.sh", "touch installed; echo ready\n"),
        ],
    );
    repo.git(["tag", "v1"]);
    repo.commit("solution", &[("answer", "42\n")]);
    repo.git(["tag", "v1-solution"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
    repo.commit(
        "hidden",
        &[(
            "hidden/test.sh",
            "grep -qx 42 answer && test -f installed\n",
        )],
    );
    repo.git(["tag", "v1-validation"]);
    repo.git(["checkout", "--quiet", "--detach", "v1"]);
}

fn task() -> Value {
    json!({
        "repo": "./repo", "tag": "v1", "reference_tag": "v1-solution",
        "validation_tag": "v1-validation", "category": "greenfield/small",
        "install_cmd": "sh install.sh", "test_cmd": "sh hidden/test.sh", "time_limit_minutes": 5,
    })
}

/// Writes the suite with one orchestrator, whose script this is.
pub(crate) fn suite(context: &TestContext, script: &str, more: &Value) -> Utf8PathBuf {
    let adapter = context.root().join("adapter.sh");
    fs_err::write(&adapter, script).unwrap();
    let orchestrators =
        json!([{"name": "one", "adapter": "./adapter.sh", "env": {"OWN": "${OWN:-x}"}}]);
    let suite = json!({"orchestrators": orchestrators, "tasks": [task()]});
    let path = context.root().join("thunderdome.yaml");
    fs_err::write(&path, with(&suite, more).to_string()).unwrap();
    path
}

pub(crate) fn run(context: &TestContext, suite: &Utf8PathBuf) -> Output {
    context.proctor(["run", suite.as_str()]).run()
}

pub(crate) fn trial(context: &TestContext, file: &str) -> Value {
    let path = format!("results/latest/trials/one/repo/trial-1/{file}");
    serde_json::from_slice(&fs_err::read(context.root().join(path)).unwrap()).unwrap()
}

pub(crate) fn record(context: &TestContext) -> Value {
    trial(context, "artifacts/record.json")
}

#[test]
fn adapter_script_gets_the_documented_environment() {
    let context = context();
    repo(&context);
    let seen = context.root().join("seen");
    let script = format!(
        "test \"$PWD\" = \"$TASK_DIR\" || exit 3\ntest -e hidden && exit 4\ncat \"$TASK_DESCRIPTION\" > {seen}\necho \"[$PROXY_URL] $OWN\" >> {seen}\nls >> {seen}\necho 42 > answer\n"
    );
    let more = json!({"trials": 1, "keep_workspace": "all"});
    let path = suite(&context, &script, &more);
    let output = run(&context, &path);
    output.assert_code(0);
    let seen = fs_err::read_to_string(seen).unwrap();
    assert!(seen.starts_with("Write 42.\n[] x\n"), "{seen}");
    assert!(seen.contains("installed"), "{seen}");
    let record = record(&context);
    assert_eq!(record["agent"]["type"], "adapter");
    assert_eq!(record["task"]["kind"], "repo");
    assert_eq!(record["task"]["branch"], "v1");
    // Files of the installation are not the agent's work.
    assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
    assert_eq!(record["verdicts"][0]["evaluator"], "test_cmd");
    let log = "results/latest/trials/one/repo/trial-1/artifacts/install/output.log";
    let log = fs_err::read_to_string(context.root().join(log)).unwrap();
    assert_eq!(log, "ready\n");
    // Hidden tests are never in a visible workspace.
    let kept = context
        .root()
        .join("results/latest/trials/one/repo/trial-1/src-modified");
    assert!(kept.join("answer").exists() && !kept.join("hidden").exists());
    context.assert_nothing_left("");
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let context = context();
    repo(&context);
    for (code, outcome, reason) in [
        (0, "completed", "completed"),
        (2, "gave_up", "gave_up"),
        (124, "timeout", "timeout"),
        (7, "agent_error", "crashed"),
    ] {
        let path = suite(&context, &format!("exit {code}\n"), &json!({}));
        run(&context, &path);
        let meta = trial(&context, "meta.json");
        assert_eq!(meta["outcome"], outcome);
        assert_eq!(meta["exit_reason"], reason);
        assert_eq!(meta["exit_code"], code);
        assert_eq!(meta["input_tokens"], Value::Null);
    }
}

#[test]
fn figures_of_the_sidecar_go_into_the_record_and_the_file_nowhere() {
    let context = context();
    repo(&context);
    let script = "echo 42 > answer\ntouch .aider.chat.history.md\necho '{\"input_tokens\": 10, \"output_tokens\": 2, \"turns\": 3, \"tools_used\": [\"sh\"], \"total_cost_usd\": 0.5}' > .thunderdome-metrics.json\n";
    let path = suite(&context, script, &json!({}));
    run(&context, &path).assert_code(0);
    let record = record(&context);
    assert_eq!(record["usage"]["source"], "sidecar");
    assert_eq!(record["usage"]["total_tokens"], 12);
    assert_eq!(record["usage"]["cache_read_tokens"], Value::Null);
    assert_eq!(record["turns"], 3);
    assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["total_cost_usd"], 0.5);
    assert_eq!(meta["tools_used"], json!(["sh"]));
    let folder = context
        .root()
        .join("results/latest/trials/one/repo/trial-1");
    assert!(
        !folder
            .join("src-modified/.thunderdome-metrics.json")
            .exists()
    );
    assert!(folder.join("artifacts/thunderdome-metrics.json").exists());
}

#[test]
fn invalid_sidecar_is_a_warning() {
    let context = context();
    repo(&context);
    for (make, reported) in [
        (
            "echo '{\"input_tokens\": -1, \"turns\": 4}' > $F",
            "is invalid",
        ),
        ("echo oops > $F", "is not JSON"),
        ("ln -s /etc/hostname $F", "not a regular file"),
        ("mkdir $F", "not a regular file"),
        ("head -c 2000000 /dev/zero > $F", "larger than 1 MiB"),
    ] {
        let script = format!("echo 42 > answer; F=.thunderdome-metrics.json; {make}\n");
        let path = suite(&context, &script, &json!({}));
        run(&context, &path).assert_code(0);
        let record = record(&context);
        assert_eq!(record["status"], "passed", "{record:#}");
        assert_eq!(record["usage"], Value::Null);
        assert_eq!(record["turns"], Value::Null);
        assert_eq!(record["errors"][0]["code"], "SIDECAR_INVALID");
        let message = record["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(reported), "{message}");
        assert_eq!(record["diff"]["files_changed"], 1, "{make}");
    }
}

#[test]
fn hidden_tests_replace_the_agents_files() {
    let context = context();
    repo(&context);
    let script = "mkdir hidden && echo exit 0 > hidden/test.sh\n";
    let path = suite(&context, script, &json!({}));
    run(&context, &path).assert_code(1);
    let path = suite(
        &context,
        "ln -s /nowhere hidden; echo 42 > answer\n",
        &json!({}),
    );
    run(&context, &path).assert_code(0);
}

#[test]
fn failed_installation_is_not_the_agents_failure() {
    let context = context();
    repo(&context);
    let bad = with(&task(), &json!({"install_cmd": "echo no network; exit 1"}));
    let path = suite(&context, "exit 0\n", &json!({"tasks": [bad]}));
    let why = "exited with code 1: no network";
    // Thunderdome installs before the tests only: the agent works, and is not judged.
    run(&context, &path).assert_code(3);
    let record = record(&context);
    assert_eq!(record["outcome"], "completed");
    assert!(record["notes"].to_string().contains(why), "{record:#}");
    assert_eq!(record["verdicts"][0]["status"], "error", "{record:#}");
    let agents = json!([{"name": "one", "type": "adapter", "config": {"adapter": "./adapter.sh"}}]);
    let other = context.root().join("proctor.json");
    fs_err::write(
        &other,
        json!({"agents": agents, "tasks": [bad], "results": {"dir": "results"}}).to_string(),
    )
    .unwrap();
    run(&context, &other).assert_code(3);
    let record = self::record(&context);
    assert_eq!(record["outcome"], "sandbox");
    let message = record["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
    // In the clean copy there is no verdict; a failing build is the agent's failure.
    let script = "echo 42 > answer; echo exit 5 > install.sh\n";
    let path = suite(&context, script, &json!({}));
    run(&context, &path).assert_code(3);
    let built = with(&task(), &json!({"build_cmd": "test ! -e broken"}));
    let script = "echo 42 > answer; touch broken\n";
    let path = suite(&context, script, &json!({"tasks": [built]}));
    run(&context, &path).assert_code(1);
    let verdicts = &self::record(&context)["verdicts"];
    assert_eq!(verdicts[0]["evaluator"], "build_cmd");
    assert_eq!(verdicts[0]["status"], "failed");
    assert_eq!(verdicts[1]["status"], "failed");
}

#[test]
fn a_repo_is_proved_by_its_tags() {
    let context = context();
    repo(&context);
    let path = suite(&context, "", &json!({}));
    let check = ["task", "check", path.as_str(), "--times", "2"];
    let output = context.proctor(check).run();
    output.assert_code(0);
    assert!(output.stdout.starts_with("repo: ok"), "{output}");
}

/// Of a remote repo only one commit is fetched at first; solution and tests are fetched when
/// they are needed.
#[test]
fn a_remote_repo_has_its_solution_and_hidden_tests_too() {
    let context = context();
    repo(&context);
    crate::remote::install_ssh(&context);
    let url = format!("ssh://git@example.test{}", context.repo().path());
    let path = suite(
        &context,
        "",
        &json!({"tasks": [with(&task(), &json!({"repo": url}))]}),
    );
    let check = ["task", "check", path.as_str(), "--times", "1"];
    context.proctor(check).run().assert_code(0);
}

#[test]
fn secrets_come_from_their_file_and_stay_out_of_complaints() {
    let context = context();
    repo(&context);
    fs_err::write(
        context.root().join(".env.secrets"),
        "# keys\nKEY='sk-very-secret'\n",
    )
    .unwrap();
    let orchestrator =
        json!([{"name": "one", "adapter": "./adapter.sh", "env": {"KEY": "${KEY}"}}]);
    let more = json!({"secrets": {"env_file": ".env.secrets"}, "orchestrators": orchestrator});
    let path = suite(
        &context,
        "test \"$KEY\" = sk-very-secret && echo 42 > answer\n",
        &more,
    );
    run(&context, &path).assert_code(0);
    let bad = json!({"orchestrators": [{"name": "one", "adapter": "${KEY}"}]});
    let path = suite(&context, "", &with(&more, &bad));
    let output = run(&context, &path);
    output.assert_code(2);
    assert!(!output.stderr.contains("very-secret"), "{output}");
}

#[test]
fn weights_and_the_linter_make_the_composite_score() {
    let context = context();
    repo(&context);
    let lint = "! grep -q BAD answer";
    let weights = json!({"tests": 3, "static_analysis": 1});
    let fields = json!({"lint_cmd": lint, "weights": weights, "install_cmd": null});
    let fields = with(&fields, &json!({"test_cmd": "grep -qx 42 answer"}));
    let tasks = json!({"tasks": [with(&task(), &fields)]});
    let path = suite(&context, "printf '42\\nBAD\\n' > answer\n", &tasks);
    run(&context, &path).assert_code(1);
    let meta = trial(&context, "meta.json");
    assert_eq!(
        meta["scores"],
        json!({"tests": 1.0, "static_analysis": 0.0})
    );
    assert_eq!(meta["composite_score"], 0.75);
    assert_eq!(meta["budget_exceeded"], false);
}

#[test]
fn the_own_tests_of_a_new_project_count_besides_the_hidden_ones() {
    let context = context();
    repo(&context);
    let weights = json!({"hidden_tests": 3, "agent_tests": 1});
    let fields = json!({
        "greenfield": true, "green_weights": weights, "test_cmd": "cat hidden/test.sh >/dev/null && grep -qx 42 answer",
    });
    let tasks = json!({"tasks": [with(&task(), &fields)]});
    let path = suite(&context, "echo 42 > answer\n", &tasks);
    run(&context, &path).assert_code(1);
    let meta = trial(&context, "meta.json");
    assert_eq!(
        meta["scores"],
        json!({"hidden_tests": 1.0, "agent_tests": 0.0})
    );
    assert_eq!(meta["composite_score"], 0.75);
}

#[test]
fn unsupported_keys_are_refused_by_name() {
    let context = context();
    repo(&context);
    let task = |fields: &Value| json!({"tasks": [with(&task(), fields)]});
    let image = json!([{"name": "one", "adapter": "./adapter.sh", "image": "alpine:3"}]);
    for (more, reported) in [
        (
            json!({"proxy": {"budget_per_trial_usd": "much"}}),
            "`budget_per_trial_usd`",
        ),
        (json!({"proxy": {"log_dir": 1}}), "`log_dir`"),
        (
            json!({"network": {"allowlist": []}}),
            "`network` requires containers",
        ),
        (
            json!({"proxy": {"gateway": "none"}, "gateway": {}}),
            "`gateway` contradicts `proxy: {gateway: none}`",
        ),
        (
            json!({"proxy": {"gateway": "none"}, "sandbox": "docker", "network": "gateway"}),
            "`network: gateway` requires a gateway",
        ),
        (
            json!({"proxy": {"gateway": "none"}, "sandbox": "docker", "network": {"allowlist": ["example.org"]}}),
            "`network: allowlist` requires a gateway",
        ),
        (json!({"secrets": {"env_fil": "x"}}), "env_fil"),
        (
            json!({"orchestrators": image, "sandbox": "local"}),
            "an agent with an `image`",
        ),
        (json!({"orchestrators": []}), "`orchestrators` is empty"),
        (
            json!({"orchestrators": [{"name": "a", "adaptor": "x"}]}),
            "adaptor",
        ),
        (
            json!({"orchestrators": [{"name": "a", "adapter": "./none.sh"}]}),
            "adapter script not found",
        ),
        (
            json!({"orchestrators": [{"adapter": "./adapter.sh"}]}),
            "missing key `name`",
        ),
        (
            json!({"orchestrators": [{"name": "a", "adapter": "./adapter.sh", "model": "x"}]}),
            "unknown key `model`",
        ),
        (
            task(&json!({"time_limit_minutes": 0})),
            "`time_limit_minutes`",
        ),
        (
            task(&json!({"time_limit_minute": 5, "time_limit_minutes": null})),
            "did you mean `time_limit_minutes`?",
        ),
        (task(&json!({"test_cmd": " "})), "`test_cmd` is empty"),
        (
            task(&json!({"tag": "--upload-pack=x"})),
            "must not start with `-`",
        ),
        (
            task(&json!({"folder": "x"})),
            "cannot be combined in one task",
        ),
        (
            task(&json!({"repo": null})),
            "one of `testcase`, `folder`, `swebench` and `repo`",
        ),
        (
            json!({"tasks": [{"folder": "nothing/*"}]}),
            "no tasks found in nothing/*",
        ),
    ] {
        let path = suite(&context, "exit 0\n", &more);
        let output = context.proctor(["validate", path.as_str()]).run();
        assert_eq!(output.code, Some(2), "{more}: {output}");
        assert!(output.stderr.contains(reported), "{reported}: {output}");
        assert!(output.stderr.contains("thunderdome.yaml:"), "{output}");
    }
}

/// The same task in a suite of our own, where a setting without effect is an error.
#[test]
fn a_score_that_could_not_be_made_is_refused() {
    let context = context();
    repo(&context);
    for (fields, reported) in [
        (json!({"lint_cmd": " "}), "`lint_cmd` is empty"),
        (
            json!({"weights": {"rubric": 0.5}}),
            "`rubric` of `weights` has no effect without a `rubric`",
        ),
        (
            json!({"rubric": ["It is good"]}),
            "`rubric` requires an agent or a model",
        ),
        (
            json!({"weights": {"tests": -1}}),
            "a weight must be at least 0",
        ),
        (
            json!({"weights": {"static_analysis": 1}}),
            "`static_analysis` has no effect",
        ),
        (json!({"green_weights": {}}), "`green_weights`"),
        (
            json!({"greenfield": true, "validation_tag": null}),
            "a new project requires hidden tests",
        ),
        (
            json!({"time_limit_minutes": null}),
            "missing key `time_limit_minutes`",
        ),
        (json!({"validation_image": "x"}), "`validation_image`"),
        (
            json!({"inline_tests": ["src/lib.rs"], "validation_tag": null}),
            "`inline_tests` has no effect without `validation_tag`",
        ),
    ] {
        let tasks = json!([with(&task(), &fields)]);
        let suite = json!({"agents": [{"type": "null"}], "tasks": tasks});
        let path = context.root().join("proctor.yaml");
        fs_err::write(&path, suite.to_string()).unwrap();
        let output = context.proctor(["validate", path.as_str()]).run();
        output.assert_code(2);
        assert!(output.stderr.contains(reported), "{reported}: {output}");
        assert!(output.stderr.contains("proctor.yaml:"), "{output}");
    }
}
