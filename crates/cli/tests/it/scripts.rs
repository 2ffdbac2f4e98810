//! Scripts as agents on this machine: how they find the models, which keys they have, which history
//! they see, and which of their files are not their work.

use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{context, with};

/// The real key.
const CANARY: &str = "sk-ant-canary-24681357";

/// Asks the Anthropic API at `$ANTHROPIC_BASE_URL` with the key `$1`, and prints the status line.
const ASK: &str = r#"ask() {
  url=${ANTHROPIC_BASE_URL#http://}
  exec 3<>"/dev/tcp/${url%:*}/${url#*:}" || return
  body='{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
  printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' "$1" "${#body}" "$body" >&3
  head -n 1 <&3
}
"#;
const ANSWERS: &str =
    r#"{"answers": [{"message": {"content": [{"text": "hello"}]}, "repeat": "forever"}]}"#;

fn repo(context: &TestContext) {
    let repo = context.repo();
    repo.commit("first", &[("TASK.md", "Write 41.\n")]);
    repo.commit(
        "second",
        &[("TASK.md", "Write 42.\n"), (".gitignore", "build\n")],
    );
    repo.git(["tag", "v1"]);
    repo.commit("the solution", &[("answer", "42\n")]);
}

/// Runs one orchestrator with this script; `more` stands beside the usual fields of the suite.
fn run(context: &TestContext, script: &str, more: &Value) -> Output {
    fs_err::write(context.root().join("adapter.sh"), script).unwrap();
    fs_err::write(context.root().join("answers.json"), ANSWERS).unwrap();
    let mut suite = json!({
        "orchestrators": [{"name": "one", "adapter": "./adapter.sh"}],
        "tasks": [{"repo": "./repo", "tag": "v1", "test_cmd": "grep -qx 42 answer", "time_limit_minutes": 1}],
    });
    for (key, value) in more.as_object().unwrap() {
        suite[key] = value.clone();
    }
    let path = context.root().join("thunderdome.yaml");
    fs_err::write(&path, suite.to_string()).unwrap();
    let program = context.proctor(["run", path.as_str()]);
    program.env("ANTHROPIC_API_KEY", CANARY).run()
}

fn trial(context: &TestContext) -> Utf8PathBuf {
    context
        .root()
        .join("results/latest/trials/one/repo/trial-1")
}

fn record(context: &TestContext) -> Value {
    let path = trial(context).join("artifacts/record.json");
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

fn printed(context: &TestContext) -> String {
    fs_err::read_to_string(trial(context).join("artifacts/raw/stdout")).unwrap()
}

#[test]
fn a_script_finds_the_models_by_the_variables_of_every_vendor() {
    let context = context();
    repo(&context);
    let script = "env | grep -E '_(BASE|BASE_URL|API_KEY)=|PROXY_URL' | sort; echo 42 > answer\n";
    let more = json!({
        "gateway": {"script": "answers.json"},
        "orchestrators": [{"name": "one", "adapter": "./adapter.sh"}],
    });
    run(&context, script, &more).assert_code(0);
    let printed = printed(&context);
    let value = |name: &str| {
        let line = printed
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name}: {printed}"))
            .to_owned()
    };
    let proxy = value("PROXY_URL");
    assert!(proxy.starts_with("http://127.0.0.1:"), "{proxy}");
    for name in [
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_BASE",
        "GOOGLE_GEMINI_BASE_URL",
    ] {
        assert_eq!(value(name), proxy, "{name}");
    }
    for name in ["OPENAI_API_BASE", "OPENAI_BASE_URL"] {
        assert_eq!(value(name), format!("{proxy}/v1"), "{name}");
    }
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        assert_eq!(value(name), value("ANTHROPIC_API_KEY"));
    }
    assert!(!printed.contains(CANARY), "{printed}");
}

#[test]
fn real_key_is_replaced_in_scripts() {
    let context = context();
    repo(&context);
    let script = format!("{ASK}env; ask \"$OWN\"; ask \"${{AUTH#Bearer }}\"; echo 42 > answer\n");
    let env = json!({"OWN": "${ANTHROPIC_API_KEY}", "AUTH": "Bearer ${ANTHROPIC_API_KEY}"});
    let more = json!({
        "gateway": {"script": "answers.json"},
        "orchestrators": [{"name": "one", "adapter": "./adapter.sh", "env": env}],
    });
    run(&context, &script, &more).assert_code(0);
    let printed = printed(&context);
    assert!(!printed.contains(CANARY), "{printed}");
    assert_eq!(printed.matches("HTTP/1.1 200").count(), 2, "{printed}");
}

#[test]
fn a_script_with_an_unknown_key_is_ended_at_once_with_a_hint() {
    let context = context();
    repo(&context);
    let script = format!("{ASK}ask sk-ant-something-else; sleep 50\n");
    let output = run(
        &context,
        &script,
        &json!({"gateway": {"script": "answers.json"}}),
    );
    output.assert_code(3);
    let record = record(&context);
    assert_eq!(record["outcome"], "auth", "{record:#}");
    assert_eq!(record["score"], Value::Null, "{record:#}");
    assert!(
        record["duration_ms"].as_u64().unwrap() < 20_000,
        "{record:#}"
    );
    let error = record["errors"].to_string();
    assert!(
        error.contains("UNKNOWN_API_KEY") && error.contains("unsafe_pass_through"),
        "{error}"
    );
}

#[test]
fn a_key_that_is_passed_through_is_taken_by_the_gateway() {
    let context = context();
    repo(&context);
    let script =
        format!("{ASK}ask \"$ANTHROPIC_API_KEY\"; echo \"$ANTHROPIC_API_KEY\"; echo 42 > answer\n");
    let more = json!({
        "gateway": {"script": "answers.json"},
        "secrets": {"unsafe_pass_through": ["ANTHROPIC_API_KEY"]},
    });
    run(&context, &script, &more).assert_code(0);
    let printed = printed(&context);
    assert!(
        printed.contains("HTTP/1.1 200") && printed.contains(CANARY),
        "{printed}"
    );
    assert_eq!(record(&context)["gateway"]["calls"], 1);
}

#[test]
fn script_sees_configured_history_and_no_later_commits() {
    let context = context();
    repo(&context);
    let script = "git log --format=%s; git log --all --format=all-%s; git tag; git branch --all; echo 42 > answer\n";
    let task = json!({
        "repo": "./repo", "tag": "v1", "test_cmd": "grep -qx 42 answer", "time_limit_minutes": 1,
    });
    for (more, expect) in [
        (json!({}), 1),
        (json!({"history": "none"}), 1),
        (json!({"history": "full"}), 3),
        // The files of the installation are in one more commit.
        (
            json!({"history": "full", "install_cmd": "touch installed"}),
            4,
        ),
    ] {
        let task = with(&task, &more);
        run(&context, script, &json!({"tasks": [task]})).assert_code(0);
        let printed = printed(&context);
        let subjects = printed.lines().filter(|line| line.starts_with("all-"));
        assert_eq!(subjects.count(), expect, "{more}: {printed}");
        assert!(!printed.contains("solution"), "{printed}");
        assert_eq!(printed.contains("second"), expect > 1, "{printed}");
        assert_eq!(record(&context)["diff"]["files_changed"], 1);
    }
    let task = with(&task, &json!({"history": "some"}));
    run(&context, script, &json!({"tasks": [task]})).assert_code(2);
}

#[test]
fn an_agent_whose_image_cannot_install_starts_all_the_same() {
    let context = context();
    repo(&context);
    let task = json!({
        "repo": "./repo", "tag": "v1", "test_cmd": "grep -qx 42 answer", "time_limit_minutes": 1,
        "install_cmd": "test -e answer && touch installed",
    });
    run(&context, "echo 42 > answer\n", &json!({"tasks": [task]})).assert_code(0);
    let record = record(&context);
    assert_eq!(record["status"], "passed", "{record:#}");
    let notes = record["notes"].to_string();
    assert!(
        notes.contains("the agent started despite a failure"),
        "{notes}"
    );
}

#[test]
fn files_of_the_tools_that_a_script_uses_are_not_its_work() {
    let context = context();
    repo(&context);
    let litter = "touch .thunderdome-metrics.json .thunderdome-stdout.log .gemini-output.json .amplifier-stdout.log .aider.chat.history.md; mkdir .aider.tags.cache.v4; touch .aider.tags.cache.v4/x\n";
    let changed = |script: &str| {
        run(&context, script, &json!({}));
        let record = record(&context);
        record["diff"]["files_changed"].as_u64().unwrap()
    };
    let aider = "printf '.aider*\\n.env\\n' >> .gitignore\n";
    assert_eq!(changed(&format!("{litter}{aider}echo 42 > answer\n")), 1);
    // A file that the agent wrote itself is its work, regardless of aider's additions.
    assert_eq!(changed(&format!("{aider}echo dist >> .gitignore\n")), 1);
    // Without a file of the task's own, aider makes one.
    assert_eq!(
        changed("rm .gitignore; printf '.aider*\\n' > .gitignore\n"),
        1
    );
}

#[test]
fn a_program_that_cannot_be_started_is_found_before_any_trial() {
    let context = context();
    let file = context.root().join("not-executable.sh");
    fs_err::write(&file, "#!/bin/sh\n").unwrap();
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (command, message) in [
        ("./missing.sh", "program not found"),
        ("./not-executable.sh", "not-executable.sh is not executable"),
    ] {
        let case = json!({
            "name": "n", "description": "d", "repo": context.repo().path(), "evaluators": ["git-diff"],
            "agent": {"type": "command", "config": {"command": [command], "prompt": "p"}},
        });
        let path = context.root().join("case.json");
        fs_err::write(&path, case.to_string()).unwrap();
        for verb in ["validate", "run"] {
            let output = context.proctor([verb, "-c", path.as_str()]).run();
            output.assert_code(2);
            assert!(output.stderr.contains(message), "{verb}: {output}");
        }
    }
}
