//! Adapter scripts in containers: the script and the files beside it get there, keys do not.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use camino::Utf8PathBuf;
use proctor_scripted_model::ScriptedModel;
use proctor_testkit::{BUSYBOX, DEBIAN, Output, llm};
use serde_json::{Value, json};

use super::{Rig, codes, elsewhere::over_tcp, find};

/// The real key, which no container may see.
const CANARY: &str = "sk-ant-canary-1b2c3d4e";
/// A secret that is not a provider's key.
const OTHER: &str = "other-canary-5f6a7b8c";

/// Writes a script beside the suite.
fn script(rig: &Rig, path: &str, text: &str) {
    let path = rig.context.root().join(path);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(&path, text).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Says where it runs, whether it can change its own folder, and does the task with a helper.
const WITH_HELPER: &str = "#!/bin/sh
here=$(dirname \"$0\")
(cd \"$here\" && find . -type f | sort)
touch \"$here/new\" 2>/dev/null && echo writable
. \"$here/helper.sh\"
cat \"$TASK_DESCRIPTION\" \"$PROCTOR_PROMPT_FILE\" 2>/dev/null
greet
";
const HELPER: &str = "greet() { echo hello > greeting.txt; }\n";

/// Agents with scripts in a folder of their own and beside the suite, of both kinds.
fn agents_with_helpers(rig: &Rig) -> (Value, Value) {
    for folder in ["adapters/own", "tools", "."] {
        script(rig, &format!("{folder}/run.sh"), WITH_HELPER);
        fs_err::write(rig.context.root().join(folder).join("helper.sh"), HELPER).unwrap();
    }
    script(rig, "adapters/own/lib/more.sh", "");
    fs_err::write(rig.context.root().join(".env.secrets"), "K=1\n").unwrap();
    fs_err::write(rig.context.root().join("answers.txt"), "hidden\n").unwrap();
    let agents = json!([
        {"name": "program", "type": "command", "config": {"command": ["./tools/run.sh"]}},
        {"name": "argument", "type": "command", "config": {"command": ["sh", "./tools/run.sh"]}},
    ]);
    let orchestrators = json!([
        {"name": "own", "adapter": "./adapters/own/run.sh", "image": BUSYBOX},
        {"name": "flat", "adapter": "run.sh", "image": DEBIAN},
    ]);
    (agents, orchestrators)
}

/// `writable` is what the agent prints when it can change its copy of the script.
fn check_helpers(rig: &Rig, writable: &str) {
    let (agents, orchestrators) = agents_with_helpers(rig);
    let path = rig.suite(&agents, &json!({"orchestrators": orchestrators}));
    let output = rig.run(&path, &[]);
    for (agent, files) in [
        ("own", "./helper.sh\n./lib/more.sh\n./run.sh\n"),
        ("flat", "./helper.sh\n./run.sh\n"),
        ("program", "./helper.sh\n./run.sh\n"),
        ("argument", "./helper.sh\n./run.sh\n"),
    ] {
        let record = rig.record(agent);
        assert_eq!(record["status"], "passed", "{output}\n{record:#}");
        let printed = rig.printed(agent).replace(writable, "");
        assert_eq!(printed, format!("{files}greet"), "{agent}");
    }
    output.assert_code(0);
}

#[test]
fn adapter_script_runs_in_a_container_with_neighbouring_files() {
    let Some(rig) = Rig::new() else { return };
    check_helpers(&rig, "never printed");
}

#[test]
fn adapter_script_runs_on_a_remote_engine() {
    let Some(mut rig) = Rig::new() else { return };
    rig.host = over_tcp(&rig.host);
    // podman gives the volume to the agent. It is the trial's own copy, and nothing comes back from it.
    check_helpers(&rig, "writable\n");
}

/// Prints everything that its container tells, then asks the model in each way.
const TELLER: &str = "#!/bin/sh
env; tr '\\0' '\\n' < /proc/self/cmdline; tr '\\0' '\\n' < /proc/1/environ
cat /proctor/job/* /proctor/agent/* \"$0\" 2>/dev/null
for dir in /proctor/home /proctor/scratch; do find $dir -type f -exec cat {} +; done
echo \"args: $*\"
ask() {
  curl -sS -m 20 -o /dev/null -w 'status %{http_code}\\n' \"$ANTHROPIC_BASE_URL/v1/messages\" -H \"$1\" \\
    -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \\
    -d '{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}'
}
ask \"x-api-key: $OWN_KEY\"; ask \"authorization: $AUTH\"; ask \"x-api-key: $ANTHROPIC_API_KEY\"
echo hello > greeting.txt
";

/// Agents that have the real key in their environment, their arguments and a file.
fn tellers(rig: &Rig) -> (Value, Value) {
    script(rig, "adapters/tell.sh", TELLER);
    fs_err::write(rig.context.root().join("adapters/keys"), CANARY).unwrap();
    let env = json!({
        "OWN_KEY": "${ANTHROPIC_API_KEY}", "AUTH": "Bearer ${ANTHROPIC_API_KEY}",
        "MIXED": "a=${MY_TOKEN};b=${ANTHROPIC_API_KEY}", "FILE_VALUE": "${PLAIN}",
    });
    let command = [
        "./adapters/tell.sh",
        "${ANTHROPIC_API_KEY}",
        "--token=${MY_TOKEN}",
    ];
    let agents = json!([
        {"name": "command", "type": "command", "config": {"command": command, "env": env}},
    ]);
    let orchestrators =
        json!([{"name": "script", "adapter": "./adapters/tell.sh", "image": DEBIAN, "env": env}]);
    (agents, orchestrators)
}

fn run_with_canary(rig: &Rig, suite: &Utf8PathBuf, model: &ScriptedModel, args: &[&str]) -> Output {
    let program = rig.program(suite, args).deadline(Duration::from_mins(5));
    let program = program.env("ANTHROPIC_BASE_URL", model.url());
    let program = program.env("ANTHROPIC_API_KEY", CANARY);
    let output = program.env("MY_TOKEN", OTHER).run();
    rig.assert_tidy();
    output
}

/// No file of the run holds a secret.
fn assert_no_canary(rig: &Rig) {
    for file in find(&rig.context.root().join("results/runs"), "") {
        let bytes = fs_err::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for canary in [CANARY, OTHER, "plain-canary"] {
            assert!(!text.contains(canary), "{canary} is in {file}:\n{text}");
        }
    }
}

/// The real key stays outside in every mode of the gateway, wherever a configuration puts it.
#[test]
fn no_mode_lets_a_key_into_a_container() {
    let Some(rig) = Rig::new() else { return };
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    let answers = rig.context.root().join("answers.json");
    let answer = json!({"message": {"content": [{"text": "hi"}]}});
    let script = json!({"answers": [answer, answer, answer]});
    fs_err::write(&answers, script.to_string()).unwrap();
    fs_err::write(rig.context.root().join(".env.keys"), "PLAIN=plain-canary\n").unwrap();
    let (agents, orchestrators) = tellers(&rig);
    let record = rig.context.root().join("recording");
    let all: [(&str, &[&str], bool); 5] = [
        ("the usual gateway", &[], true),
        ("a script", &["--model-script", answers.as_str()], true),
        ("recording", &["--record-models", record.as_str()], true),
        ("replay", &["--replay-models", record.as_str()], true),
        ("no network", &["--network", "none"], false),
    ];
    for (mode, args, answers) in all {
        let more = json!({"orchestrators": orchestrators, "secrets": {"env_file": ".env.keys"}});
        let path = rig.suite(&agents, &more);
        let output = run_with_canary(&rig, &path, &model, args);
        assert!(matches!(output.code, Some(0 | 1)), "{mode}: {output}");
        assert_no_canary(&rig);
        for agent in ["command", "script"] {
            let printed = rig.printed(agent);
            let good = printed.matches("status 200").count();
            assert_eq!(good, if answers { 3 } else { 0 }, "{mode}: {printed}");
            assert!(printed.contains("OWN_KEY="), "{mode}: {printed}");
        }
    }
}

#[test]
fn no_key_enters_a_container_behind_litellm() {
    let Some(rig) = Rig::new() else { return };
    if !rig.context.install_real("litellm") {
        return;
    }
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    fs_err::write(rig.context.root().join(".env.keys"), "PLAIN=plain-canary\n").unwrap();
    let (_, orchestrators) = tellers(&rig);
    let more = json!({
        "orchestrators": orchestrators, "secrets": {"env_file": ".env.keys"},
        "proxy": {"gateway": "litellm", "budget_per_trial_usd": 1},
    });
    let output = run_with_canary(&rig, &rig.suite(&json!([]), &more), &model, &[]);
    output.assert_code(0);
    assert_no_canary(&rig);
    let printed = rig.printed("script");
    assert_eq!(printed.matches("status 200").count(), 3, "{printed}");
    assert_eq!(rig.record("script")["gateway"]["calls"], 3);
}

#[test]
fn passed_through_key_is_accepted_by_the_gateway() {
    let Some(rig) = Rig::new() else { return };
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    fs_err::write(rig.context.root().join(".env.keys"), "PLAIN=plain-canary\n").unwrap();
    let (_, orchestrators) = tellers(&rig);
    let secrets = json!({"env_file": ".env.keys", "unsafe_pass_through": ["ANTHROPIC_API_KEY"]});
    let path = rig.suite(
        &json!([]),
        &json!({"orchestrators": orchestrators, "secrets": secrets}),
    );
    let output = run_with_canary(&rig, &path, &model, &[]);
    output.assert_code(0);
    let printed = rig.printed("script");
    assert!(
        printed.contains(CANARY) && !printed.contains(OTHER),
        "{printed}"
    );
    assert_eq!(printed.matches("status 200").count(), 3, "{printed}");
    let record = rig.record("script");
    assert_eq!(record["gateway"]["calls"], 3, "{record:#}");
    assert!(output.stderr.contains("ANTHROPIC_API_KEY"), "{output}");
}

#[test]
fn agent_with_an_unknown_key_is_ended_at_once() {
    let Some(rig) = Rig::new() else { return };
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    let text = "OWN_KEY=sk-something-else; AUTH=x\n".to_owned() + TELLER + "sleep 300\n";
    script(&rig, "adapters/own.sh", &text);
    let orchestrators = json!([{"name": "own", "adapter": "./adapters/own.sh", "image": DEBIAN}]);
    let path = rig.suite(&json!([]), &json!({"orchestrators": orchestrators}));
    let output = run_with_canary(&rig, &path, &model, &[]);
    output.assert_code(3);
    let record = rig.record("own");
    assert_eq!(record["outcome"], "auth", "{record:#}");
    assert!(codes(&record).contains(&"UNKNOWN_API_KEY"), "{record:#}");
    assert!(
        record["duration_ms"].as_u64().unwrap() < 45_000,
        "{record:#}"
    );
}
