//! Models on nodes: the real Claude Code with the gateway in each trial or on the head, and a budget of all of them
//! together. The real key is found nowhere.

use proctor_scripted_model::{Answer, Script, ScriptedModel};
use proctor_testkit::{Cluster, TestContext, files_with, llm};
use serde_json::{Value, json};

use crate::support::Rig;

/// The real key.
const CANARY: &str = "sk-ant-canary-0123456789";

/// Runs three trials with the gateway at this place; gives their records.
fn run(place: &str) -> Option<Vec<Value>> {
    let cluster = Cluster::find()?;
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    context.install_real_claude("latest")?;
    let mut script = llm::writes_file_then_says("new.txt", "hello\n", "done");
    // One trial after the other has the same said to it.
    let once = script.answers.clone();
    script.answers.extend(once.iter().chain(&once).cloned());
    let model = ScriptedModel::start_blocking(script).unwrap();
    let executor = match place {
        "head" => {
            json!({"type": "slurm", "memory": "900m", "gateway": "head", "address": "localhost"})
        }
        _ => json!({"type": "slurm", "memory": "900m"}),
    };
    let more = json!({
        "trials": 3, "parallel": 1, "executor": executor,
        "gateway": {"run_budget_usd": 3.0},
    });
    let agent = json!({"type": "claude-code"});
    let rig = Rig::of(cluster, context, &agent, &more);
    let program = rig.run(&[]).model(&model).env("ANTHROPIC_API_KEY", CANARY);
    program.run().assert_code(0);
    assert_eq!(
        files_with(&rig.latest(), CANARY),
        Vec::<camino::Utf8PathBuf>::new()
    );
    let records = rig.finished();
    assert_eq!(records.len(), 3);
    Some(records.into_values().collect())
}

fn check(place: &str) {
    let Some(records) = run(place) else {
        return;
    };
    for record in records {
        assert_eq!(record["outcome"], "completed", "{record}");
        assert_eq!(record["gateway"]["place"], place);
        assert!(
            record["gateway"]["calls"].as_u64().unwrap() >= 2,
            "{record}"
        );
        assert_eq!(record["diff"]["files_changed"], 1);
    }
}

#[test]
fn real_claude_on_nodes_has_a_gateway_in_each_trial() {
    check("trial");
}

#[test]
fn real_claude_on_nodes_reaches_the_gateway_of_the_head() {
    check("head");
}

/// An agent that asks a model once, and prints how many seconds that took.
fn asker() -> Value {
    let ask = "began=$(date +%s); curl -sS -m 90 --fail-with-body \"$ANTHROPIC_BASE_URL/v1/messages\" -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' -d '{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}'; code=$?; echo; echo $(($(date +%s) - began)); exit $code";
    json!({"name": "asker", "type": "command", "config": {"command": ["sh", "-c", ask]}})
}

#[test]
fn retry_after_of_a_provider_pauses_all_nodes() {
    let Some(cluster) = Cluster::find() else {
        return;
    };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let refusal = Answer::error(429).retry_after(30);
    let script = Script::new([refusal, Answer::text("hi").usage(llm::USAGE)]);
    let model = ScriptedModel::start_blocking(script).unwrap();
    let more = json!({
        "trials": 2, "parallel": 1, "gateway": {},
        "executor": {"type": "slurm", "memory": "200m", "gateway": "head", "address": "localhost"},
    });
    let rig = Rig::of(cluster, context, &asker(), &more);
    let program = rig.run(&[]).model(&model).env("ANTHROPIC_API_KEY", CANARY);
    program.run().assert_code(3);
    let records = rig.finished().into_values();
    let (refused, answered): (Vec<Value>, Vec<Value>) =
        records.partition(|record| record["outcome"] == "rate_limit");
    assert_eq!((refused.len(), answered.len()), (1, 1), "{refused:?}");
    assert_eq!(answered[0]["outcome"], "completed", "{answered:?}");
    let trial = format!("trials/asker/task/trial-{}", answered[0]["trial"]);
    let printed = rig.latest().join(trial).join("artifacts/raw/stdout");
    let printed = fs_err::read_to_string(printed).unwrap();
    let waited: u64 = printed.lines().last().unwrap().parse().unwrap();
    assert!(
        waited > 5,
        "another trial got the pause, at most half a minute before: {waited}"
    );
}

#[test]
fn run_budget_is_enforced_by_the_head() {
    let Some(cluster) = Cluster::find() else {
        return;
    };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    let agent = asker();
    let more = json!({
        "trials": 3, "parallel": 1, "gateway": {"run_budget_usd": 0.000_001},
        "executor": {"type": "slurm", "memory": "200m", "gateway": "head", "address": "localhost"},
    });
    let rig = Rig::of(cluster, context, &agent, &more);
    let program = rig.run(&[]).model(&model).env("ANTHROPIC_API_KEY", CANARY);
    program.run().assert_code(1);
    let records = rig.finished();
    let outcomes = records
        .values()
        .map(|record| record["outcome"].as_str().unwrap());
    let mut outcomes: Vec<&str> = outcomes.collect();
    outcomes.sort_unstable();
    // The first one spends all there is, and each on a node of its own hears of it.
    assert_eq!(
        outcomes,
        ["budget_exceeded", "budget_exceeded", "completed"]
    );
}
