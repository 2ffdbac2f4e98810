//! Two accounts of what a trial used: the agent's own and the gateway's. The gateway's counts; the
//! agent's stays in `meta.json`, and a difference is a finding.

use camino::Utf8PathBuf;
use proctor_scripted_model::{Answer, Script, ScriptedModel, Usage};
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{context, init, install_claude, result, says, with, write};

/// Answers of a model, for `--model-script`.
const SCRIPT: &str = r#"{"answers": [{"message": {"content": [{"text": "hello"}], "usage": {"input": 100, "output": 20, "cache_read": 1000, "cache_creation": 300}}, "repeat": "forever"}]}"#;

/// Asks the model of this name once, through the gateway.
fn ask(model: &str) -> String {
    format!(
        r#"url=${{ANTHROPIC_BASE_URL:-$PROXY_URL}}; url=${{url#http://}}
exec 3<>"/dev/tcp/${{url%:*}}/${{url#*:}}" || exit 9
body='{{"model":"{model}","max_tokens":100,"messages":[{{"role":"user","content":"hi"}}]}}'
printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' "$ANTHROPIC_API_KEY" "${{#body}}" "$body" >&3
cat <&3 | grep -q hello || exit 8
"#
    )
}

/// Runs a suite with these agents, whose models are behind the gateway if it has one.
fn run(context: &TestContext, agents: &Value) -> Output {
    let repo = context.repo();
    if !repo.path().join("TASK.md").exists() {
        repo.commit("v1", &[("TASK.md", "Write 42.\n")]);
        repo.git(["tag", "v1"]);
    }
    let task = json!({
        "repo": "./repo", "tag": "v1", "category": "x", "test_cmd": "grep -qx 42 answer",
        "time_limit_minutes": 5,
    });
    let suite = with(&json!({"tasks": [task]}), agents);
    let path = context.root().join("thunderdome.yaml");
    fs_err::write(&path, suite.to_string()).unwrap();
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 1000,
        cache_creation: 300,
        reasoning: 0,
    };
    let answer = Answer::text("hello").usage(usage).forever();
    let model = ScriptedModel::start_blocking(Script::new([answer])).unwrap();
    let program = context.proctor(["run", path.as_str()]);
    program.model(&model).run()
}

/// An orchestrator whose script this is.
fn script(context: &TestContext, text: &str) -> Value {
    fs_err::write(context.root().join("adapter.sh"), text).unwrap();
    let env = json!({"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"});
    json!({"orchestrators": [{"name": "one", "adapter": "./adapter.sh", "env": env}]})
}

/// The same, with the gateway between the script and the models.
fn metered(context: &TestContext, text: &str) -> Value {
    with(&script(context, text), &json!({"gateway": {}}))
}

fn trial(context: &TestContext, file: &str) -> Value {
    let folder = Utf8PathBuf::from("results/latest/trials/one/repo/trial-1");
    let path = context.root().join(folder).join(file);
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

fn notes(context: &TestContext) -> String {
    let output = context
        .proctor(["report", "results/latest", "--format", "json"])
        .run();
    let report: Value = serde_json::from_str(&output.assert_code(0).stdout).unwrap();
    report["notes"].to_string()
}

#[test]
fn the_sidecar_stays_in_meta_json_and_the_gateways_figures_count() {
    let context = context();
    let sidecar = json!({
        "input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 0, "cache_creation_tokens": 0,
        "turns": 1, "tools_used": ["Bash"], "total_cost_usd": 0.000_001, "duration_ms": 77,
    });
    let text = format!(
        "{}echo 42 > answer\necho '{sidecar}' > .thunderdome-metrics.json\n",
        ask("claude-sonnet-4-5")
    );
    let output = run(&context, &metered(&context, &text));
    output.assert_code(0);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["usage_source"], "sidecar", "{meta:#}");
    assert_eq!(meta["input_tokens"], 10);
    assert_eq!(meta["total_tokens"], 12);
    assert_eq!(meta["total_cost_usd"], 0.000_001);
    assert_eq!(meta["tools_used"], json!(["Bash"]));
    assert_eq!(meta["duration_ms"], 77);
    assert_eq!(meta["gateway"]["calls"], 1);
    assert_eq!(meta["gateway"]["input_tokens"], 100);
    assert_eq!(meta["gateway"]["total_tokens"], 1420, "all four kinds");
    let differences = meta["differences"].to_string();
    for reported in [
        "input_tokens: 10 by the agent, 100 by the gateway",
        "cache_read_tokens: 0 by the agent, 1000 by the gateway",
        "cost_usd: 0.000001 by the agent, ",
    ] {
        assert!(differences.contains(reported), "{reported}: {differences}");
    }
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(record["usage"]["source"], "gateway", "{record:#}");
    assert_eq!(record["usage"]["input_tokens"], 100);
    assert_eq!(record["agent_usage"]["source"], "sidecar");
    assert_eq!(record["agent_usage"]["input_tokens"], 10);
    let counted = &record["gateway"]["cost_usd"];
    let csv = ["report", "results/latest", "--format", "csv"];
    let csv = context.proctor(csv).run().stdout;
    let row: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(row[8], counted.to_string(), "the report's cost: {csv}");
    assert_eq!(row[10..12], ["120", "1300"], "the report's tokens: {csv}");
    let notes = notes(&context);
    assert!(
        notes.contains("one: in 1 of 1 trial the agent's own figures differ from the gateway's by more than 1 %"),
        "{notes}"
    );
    let listed = context.proctor(["list", "runs", "--json"]).run();
    assert!(
        listed.stdout.contains(&counted.to_string()),
        "{counted}: {listed}"
    );
}

#[test]
fn meta_json_has_gateway_figures_without_a_sidecar() {
    let context = context();
    let text = format!("{}echo 42 > answer\n", ask("claude-sonnet-4-5"));
    run(&context, &metered(&context, &text)).assert_code(0);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["usage_source"], "gateway", "{meta:#}");
    assert_eq!(meta["input_tokens"], 100);
    assert_eq!(meta["total_tokens"], 1420);
    assert!(meta["total_cost_usd"].as_f64().unwrap() > 0.0, "{meta:#}");
    assert_eq!(meta["tools_used"], Value::Null, "the script tells nothing");
    assert!(meta["duration_ms"].as_u64().is_some(), "{meta:#}");
    assert_eq!(meta["differences"], json!([]));
    // A sidecar as the seed has it names no cost: that one is the gateway's.
    let sidecar = json!({"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 1000, "cache_creation_tokens": 300});
    let text = format!("{text}echo '{sidecar}' > .thunderdome-metrics.json\n");
    run(&context, &metered(&context, &text)).assert_code(0);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["usage_source"], "sidecar");
    assert_eq!(meta["total_cost_usd"], meta["gateway"]["total_cost_usd"]);
    assert_eq!(meta["differences"], json!([]), "{meta:#}");
    assert!(!notes(&context).contains("differ from"), "the same figures");
}

/// The seed's own file, without a gateway.
#[test]
fn a_sidecar_alone_is_all_there_is() {
    let context = context();
    let sidecar = json!({
        "input_tokens": 12_000, "output_tokens": 4500, "cache_read_tokens": 7, "cache_creation_tokens": 3,
        "turns": 15, "tools_used": ["Bash", "Read"],
    });
    let text = format!("echo 42 > answer\necho '{sidecar}' > .thunderdome-metrics.json\n");
    run(&context, &script(&context, &text)).assert_code(0);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["total_tokens"], 16_510, "{meta:#}");
    assert_eq!(meta["total_cost_usd"], Value::Null);
    assert_eq!(meta["gateway"], Value::Null);
    assert_eq!(meta["turns"], 15);
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(record["usage"]["source"], "sidecar");
    assert!(record.get("agent_usage").is_none());
}

/// A model without a price: the agent's own cost is the only one, and the report says whose it is.
#[test]
fn a_cost_without_a_price_is_the_agents_and_is_reported_as_such() {
    let context = context();
    let text = format!(
        "{}echo 42 > answer\necho '{{\"input_tokens\": 100, \"output_tokens\": 20, \"total_cost_usd\": 0.25}}' > .thunderdome-metrics.json\n",
        ask("no-such-model-1")
    );
    run(&context, &metered(&context, &text)).assert_code(0);
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(record["usage"]["source"], "gateway", "{record:#}");
    assert_eq!(record["usage"]["cost_usd"], 0.25);
    let notes = notes(&context);
    assert!(
        notes.contains("the gateway has no price for the model"),
        "{notes}"
    );
}

#[test]
fn agent_that_bypasses_the_gateway_is_detected() {
    let context = context();
    let text = "echo 42 > answer\necho '{\"input_tokens\": 100, \"output_tokens\": 20}' > .thunderdome-metrics.json\n";
    run(&context, &metered(&context, text)).assert_code(0);
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(record["usage"]["source"], "sidecar", "{record:#}");
    let notes = notes(&context);
    assert!(notes.contains("no call through the gateway"), "{notes}");
}

/// The agent's log says 1 token; the gateway counted 120.
#[test]
fn limits_of_a_trajectory_are_held_against_the_gateways_figures() {
    let context = context();
    let lie = json!({"type": "usage", "input": 1, "output": 0, "cost": 0.0});
    let agent = format!("{}echo '{lie}'\n", ask("claude-sonnet-4-5"));
    fs_err::write(context.root().join("agent.sh"), agent).unwrap();
    fs_err::write(context.root().join("answers.json"), SCRIPT).unwrap();
    for (limit, code) in [
        (json!({"max_tokens": 119}), 1),
        (json!({"max_tokens": 120}), 0),
        (json!({"max_cost_usd": 0.0005}), 1),
        (json!({"max_cost_usd": 1}), 0),
    ] {
        let case = json!({
            "name": "call", "description": "asks a model once", "repo": context.repo().path(),
            "agent": {"type": "command", "config": {
                "command": ["bash", context.root().join("agent.sh")], "prompt": "ask", "output": "ndjson",
                "usage": {"input_tokens": "input", "output_tokens": "output", "cost_usd": "cost"},
            }},
            "evaluators": [{"name": "trajectory", "config": limit}],
            "workspace_dir": context.root().join("runs"),
        });
        let path = context.root().join("case.json");
        fs_err::write(&path, case.to_string()).unwrap();
        let command = ["run", "-c", path.as_str(), "--model-script", "answers.json"];
        let program = context
            .proctor(command)
            .env("ANTHROPIC_API_KEY", "sk-ant-fake");
        let output = program.run();
        assert_eq!(output.code, Some(code), "{limit}: {output}");
    }
}

#[test]
fn a_timeout_has_code_124_and_the_score_of_its_work() {
    let context = context();
    let text = "echo 42 > answer; trap 'exit 3' TERM; while :; do sleep 0.1; done\n";
    let more = json!({"tasks": [{
        "repo": "./repo", "tag": "v1", "category": "x", "test_cmd": "grep -qx 42 answer",
        "time_limit_minutes": 0.02,
    }]});
    let agents = with(&script(&context, text), &more);
    run(&context, &agents).assert_code(1);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["exit_code"], 124, "{meta:#}");
    assert_eq!(meta["exit_reason"], "timeout");
    assert_eq!(meta["outcome"], "timeout");
    assert_eq!(meta["composite_score"], 1.0, "{meta:#}");
    assert_eq!(meta["scores"], json!({"tests": 1.0}));
    assert_eq!(meta["status"], "failed");
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(record["score"]["value"], 0.0, "{record:#}");
    // An agent that crashed has its own code, and the score of what it left.
    let agents = script(&context, "echo 41 > answer; exit 7\n");
    run(&context, &agents).assert_code(1);
    let meta = trial(&context, "meta.json");
    assert_eq!(
        (&meta["exit_code"], &meta["composite_score"]),
        (&json!(7), &json!(0.0))
    );
}

#[test]
fn a_native_agents_tools_and_time_come_from_its_session() {
    let context = context();
    let call = |name: &str| {
        json!({"line": {"type": "assistant", "message": {
            "id": "m-1", "model": "claude-sonnet-4-5", "content": [{
                "type": "tool_use", "id": name, "name": name, "input": {},
            }],
        }}})
    };
    let steps = [
        init(),
        call("Write"),
        call("Bash"),
        call("Write"),
        write("answer", "42\n"),
        says("m-2", "done"),
        result(),
    ];
    install_claude(&context, &steps);
    let agents = json!({
        "agents": [{"name": "one", "type": "claude-code"}],
        "results": {"dir": "results"},
    });
    run(&context, &agents).assert_code(0);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["tools_used"], json!(["Bash", "Write"]), "{meta:#}");
    let record = trial(&context, "artifacts/record.json");
    assert_eq!(meta["duration_ms"], record["session_ms"], "{meta:#}");
    assert!(meta["duration_ms"].as_u64().is_some(), "{meta:#}");
    assert_eq!(meta["usage_source"], "result_event");
    // A session that was read to its end and used none.
    install_claude(
        &context,
        &[
            init(),
            write("answer", "42\n"),
            says("m-2", "done"),
            result(),
        ],
    );
    run(&context, &agents).assert_code(0);
    assert_eq!(trial(&context, "meta.json")["tools_used"], json!([]));
}
