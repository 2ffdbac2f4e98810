//! The gateway on the command line: alone, for test cases, and with what a suite may say about it.
//! Agents are shell scripts that call it; a script stands in for the models.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use camino::Utf8PathBuf;
use insta::assert_snapshot;
use proctor_testkit::{Output, Running, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::context;

/// The real key. It must not be found anywhere.
const CANARY: &str = "sk-ant-canary-0123456789";

/// An agent that asks a model once and fails unless it is answered.
const CALLER: &str = r#"#!/bin/bash
url=${ANTHROPIC_BASE_URL#http://}
exec 3<>"/dev/tcp/${url%:*}/${url#*:}" || exit 1
body='{"model":"'$1'","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}'
printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' "$ANTHROPIC_API_KEY" "${#body}" "$body" >&3
read -r line <&3
cat <&3
case $line in *" 200 "*) echo answered;; *) exit 1;; esac
"#;

const SCRIPT: &str = r#"{"answers": [{"message": {"content": [{"text": "hello"}], "usage": {"input": 100, "output": 20}}, "repeat": "forever"}]}"#;

/// A test case whose agent asks this model once, beside a script of answers.
fn caller(context: &TestContext, model: &str, more: &Value) -> Utf8PathBuf {
    let agent = context.root().join("caller.sh");
    fs_err::write(&agent, CALLER).unwrap();
    fs_err::write(context.root().join("answers.yaml"), SCRIPT).unwrap();
    let mut case = json!({
        "name": "call",
        "description": "asks a model once",
        "repo": context.repo().path(),
        "agent": {"type": "command", "model": model, "config": {"command": ["bash", agent, "{model}"], "prompt": "ask"}},
        "evaluators": [{"name": "git-diff"}],
        "workspace_dir": context.root().join("runs"),
    });
    let members = case.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let path = context.root().join("case.json");
    fs_err::write(&path, case.to_string()).unwrap();
    path
}

fn run(context: &TestContext, case: &Utf8PathBuf, args: &[&str]) -> Output {
    let all = ["run", "-c", case.as_str(), "--json"];
    let all = all.into_iter().chain(args.iter().copied());
    context.proctor(all).env("ANTHROPIC_API_KEY", CANARY).run()
}

fn record(output: &Output) -> Value {
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let path = summary["trials"][0]["record"].as_str().unwrap();
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

#[test]
fn test_case_uses_the_gateway_like_a_suite() {
    let context = context();
    let settings = json!({"gateway": {"script": "answers.yaml", "temperature": 0.2, "max_tokens": {"set": 50},
        "rename": {"my-*": "claude-sonnet-4-5"}, "budget_usd": 1}});
    let case = caller(&context, "my-model", &settings);
    let output = run(&context, &case, &[]);
    let record = record(output.assert_code(0));
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["gateway"]["calls"], 1);
    assert_eq!(
        record["gateway"]["per_model"]["claude-sonnet-4-5"]["input_tokens"],
        100
    );
    assert_eq!(record["usage"]["source"], "gateway");
    let calls = Utf8PathBuf::from(record_folder(&output)).join("calls.ndjson");
    let calls = fs_err::read_to_string(calls).unwrap();
    let call: Value = serde_json::from_str(calls.lines().next().unwrap()).unwrap();
    let notes = call["notes"].to_string();
    for note in [
        "my-model -> claude-sonnet-4-5",
        "temperature: unset -> 0.2",
        "max_tokens: 100 -> 50",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

fn record_folder(output: &Output) -> String {
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let path = Utf8PathBuf::from(summary["trials"][0]["record"].as_str().unwrap());
    path.parent().unwrap().to_string()
}

#[test]
fn replay_of_a_test_case_reports_differences() {
    let context = context();
    let case = caller(&context, "claude-sonnet-4-5", &json!({}));
    let script = [
        "--model-script",
        "answers.yaml",
        "--record-models",
        "recordings",
    ];
    run(&context, &case, &script).assert_code(0);
    let replayed = run(&context, &case, &["--replay-models", "recordings"]);
    let replay = &record(replayed.assert_code(0))["gateway"]["replay"];
    assert_eq!(*replay, json!({"answered": 1, "missed": 0, "unused": 0}));

    let case = caller(&context, "claude-opus-4-8", &json!({}));
    let missed = run(&context, &case, &["--replay-models", "recordings"]);
    let reported = record(missed.assert_code(3));
    assert_eq!(
        reported["outcome"], "sandbox",
        "the recording is to blame: {reported:#}"
    );
    let replay = &reported["gateway"]["replay"];
    assert_eq!(
        (&replay["missed"], &replay["unused"]),
        (&json!(1), &json!(1))
    );
    let difference = replay["differences"][0].as_str().unwrap();
    assert!(
        difference.contains("claude-sonnet-4-5") && difference.contains("claude-opus-4-8"),
        "{difference}"
    );
    let shown = ["run", "-c", case.as_str(), "--replay-models", "recordings"];
    let shown = context.proctor(shown).run();
    assert!(
        shown
            .stdout
            .contains("0 answered, 1 not recorded, 1 recorded but not used"),
        "{shown}"
    );
    let passed_on = [
        "--replay-models",
        "recordings",
        "--on-miss",
        "fall-through",
        "--model-script",
        "answers.yaml",
    ];
    let passed_on = record(run(&context, &case, &passed_on).assert_code(0));
    assert_eq!(passed_on["gateway"]["replay"]["missed"], 1);
}

#[test]
fn faults_are_put_in_and_counted() {
    let context = context();
    let faults =
        json!({"gateway": {"script": "answers.yaml", "faults": {"rate": 1, "status": 529}}});
    let case = caller(&context, "claude-sonnet-4-5", &faults);
    let record = record(run(&context, &case, &[]).assert_code(1));
    assert_eq!(record["gateway"]["calls_with_faults"], 1);
    assert_eq!(record["gateway"]["calls_failed"], 1);
}

#[test]
fn a_provider_that_cannot_be_reached_is_infrastructure_and_a_retry_shows() {
    let context = context();
    let case = caller(
        &context,
        "claude-sonnet-4-5",
        &json!({"gateway": {"retries": 1}}),
    );
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let args = ["run", "-c", case.as_str(), "--json"];
    let program = context.proctor(args).env("ANTHROPIC_API_KEY", CANARY);
    let output = program.env("ANTHROPIC_BASE_URL", url).run();
    let record = record(output.assert_code(3));
    assert_eq!(record["outcome"], "network");
    assert_eq!(record["gateway"]["calls_unreachable"], 1);
    assert_eq!(record["gateway"]["retries"], 1);
}

#[test]
fn a_limit_in_dollars_needs_a_price() {
    let context = context();
    let case = caller(
        &context,
        "odd-model",
        &json!({"gateway": {"budget_usd": 1}}),
    );
    let refused = context.proctor(["validate", "-c", case.as_str()]).run();
    refused.assert_code(2);
    assert!(
        refused.stderr.contains("no price for `odd-model`"),
        "{refused}"
    );
    assert!(
        refused
            .stderr
            .contains("hint: add one with `gateway: {prices: FILE}`"),
        "{refused}"
    );
    let suite = json!({
        "agents": [{"type": "codex", "model": "odd-model"}],
        "tasks": [{"testcase": "case.json"}],
        "gateway": {},
    });
    fs_err::write(context.root().join("suite.json"), suite.to_string()).unwrap();
    context
        .proctor(["run", "suite.json", "--dry-run"])
        .run()
        .assert_code(0);
    let args = ["run", "suite.json", "--dry-run", "--max-cost", "1"];
    let refused = context.proctor(args).run();
    refused.assert_code(2);
    assert!(
        refused.stderr.contains("no price for `odd-model`"),
        "{refused}"
    );
    fs_err::write(context.root().join("prices.json"), PRICES).unwrap();
    let priced = args.into_iter().chain(["--prices", "prices.json"]);
    context.proctor(priced).run().assert_code(0);
}

const PRICES: &str = r#"{"prices": [{"models": ["odd-model", "gpt-4o"], "source": "our contract", "checked": "2026-11-01", "input": 1.5, "output": 6}]}"#;

#[test]
fn own_prices_take_precedence_over_built_in_ones() {
    let context = context();
    let shown = |args: &[&str]| {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(0);
        output.stdout
    };
    assert_snapshot!(shown(&["prices", "anthropic/claude-opus-4-1-20250805"]), @"
    model                       input   output cache read  write 5m  write 1h  checked     from
    anthropic/claude-opus-4-1-20250805       15       75        1.5     18.75        30  2026-11-16  built-in
      source: Anthropic's price page (platform.claude.com/docs/en/about-claude/pricing), stored copy

    USD per million tokens. `?`: not confirmed on the provider's page.
    Sources; later ones take precedence: built-in
    ");
    fs_err::write(context.root().join("prices.json"), PRICES).unwrap();
    let all = shown(&["prices", "--prices", "prices.json", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all["order"], json!(["built-in", "prices.json"]));
    let rows = all["prices"].as_array().unwrap();
    let row = |model| rows.iter().find(|row| row["model"] == model).unwrap();
    assert_eq!(row("gpt-4o")["from"], "prices.json");
    assert_eq!(row("gpt-4o")["price"]["source"], "our contract");
    assert_eq!(row("gpt-4o-mini")["from"], "built-in");
    assert_eq!(row("gpt-4o-mini")["confirmed"], false);
    fs_err::write(context.root().join(".youbencharc"), "prices: prices.json\n").unwrap();
    assert!(shown(&["prices", "odd-model"]).contains(".youbencharc"));
    let unknown = context.proctor(["prices", "unknown-model"]).run();
    unknown.assert_code(2);
    assert!(
        unknown.stderr.contains("hint: add a price with"),
        "{unknown}"
    );
}

/// A gateway that runs alone, once it has said where it is.
struct Alone {
    running: Running,
    url: String,
    keys: Value,
}

fn alone(context: &TestContext, args: &[&str]) -> Alone {
    let all = ["gateway", "--listen", "127.0.0.1:0", "--json"];
    let all = all.into_iter().chain(args.iter().copied());
    let running = context
        .proctor(all)
        .env("ANTHROPIC_API_KEY", CANARY)
        .spawn();
    let began = Instant::now();
    loop {
        let so_far = running.stdout_so_far();
        if so_far.ends_with('\n') {
            let said: Value = serde_json::from_str(so_far.trim()).unwrap();
            let url = said["url"].as_str().unwrap().to_owned();
            let keys = said["keys"].clone();
            return Alone { running, url, keys };
        }
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "{}",
            running.stderr_so_far()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Alone {
    fn ask(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn message(&self, key: &str) -> String {
        let head = format!("POST /v1/messages HTTP/1.1\r\nx-api-key: {key}");
        self.ask(&head, r#"{"model":"claude-sonnet-4-5","max_tokens":9}"#)
    }
}

#[test]
fn standalone_gateway_runs_until_a_signal() {
    let context = context();
    fs_err::write(context.root().join("answers.yaml"), SCRIPT).unwrap();
    fs_err::write(
        context.root().join("gw.yaml"),
        "script: answers.yaml\nkeys:\n  small: {budget_calls: 1}\n",
    )
    .unwrap();
    let args = ["-c", "gw.yaml", "--key-name", "ci", "--log", "calls.ndjson"];
    let gateway = alone(&context, &args);
    let key = |name: &str| gateway.keys[name].as_str().unwrap().to_owned();
    assert!(gateway.message(&key("ci")).starts_with("HTTP/1.1 200"));
    assert!(gateway.message(&key("small")).starts_with("HTTP/1.1 200"));
    let spent = gateway.message(&key("small"));
    assert!(
        spent.starts_with("HTTP/1.1 403") && spent.contains("budget exceeded"),
        "{spent}"
    );
    assert!(gateway.message(CANARY).starts_with("HTTP/1.1 401"));
    let page = gateway.ask("GET / HTTP/1.1", "");
    assert!(
        page.contains("<td>ci</td>") && page.contains("claude-sonnet-4-5"),
        "{page}"
    );
    let metrics = gateway.ask("GET /metrics HTTP/1.1", "");
    assert!(
        metrics.contains("proctor_gateway_calls_refused_total{key=\"small\"} 1"),
        "{metrics}"
    );
    let keys = [key("ci"), key("small")];
    let Alone { running, .. } = gateway;
    running.signal(Signal::INT);
    let output = running.wait();
    output.assert_code(0);
    let end: Value = serde_json::from_str(output.stdout.lines().nth(1).unwrap()).unwrap();
    assert_eq!(end["keys"]["ci"]["input_tokens"], 100);
    assert_eq!(end["keys"]["small"]["exhausted"], "calls");
    let log = fs_err::read_to_string(context.root().join("calls.ndjson")).unwrap();
    let calls: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |name| calls.iter().filter(|call| call["key"] == name).count();
    assert_eq!((of("ci"), of("small")), (1, 2));
    for text in [&log, &page, &metrics] {
        assert!(keys.iter().all(|key| !text.contains(key)), "{text}");
    }
    for text in [&log, &page, &metrics, &output.stdout, &output.stderr] {
        assert!(!text.contains(CANARY), "{text}");
    }
}

#[test]
fn keys_file_is_private() {
    let context = context();
    fs_err::write(context.root().join("answers.yaml"), SCRIPT).unwrap();
    let args = ["--model-script", "answers.yaml", "--keys-file", "keys.json"];
    let gateway = alone(&context, &args);
    assert_eq!(gateway.keys, json!(["default"]), "only names are shown");
    let file = context.root().join("keys.json");
    let mode = fs_err::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let keys: Value = serde_json::from_slice(&fs_err::read(&file).unwrap()).unwrap();
    assert_eq!(keys["url"], gateway.url);
    let key = keys["keys"]["default"].as_str().unwrap();
    assert!(gateway.message(key).starts_with("HTTP/1.1 200"));
    let Alone { running, .. } = gateway;
    running.signal(Signal::TERM);
    running.wait().assert_code(0);
    assert!(!file.exists(), "its keys are good for nothing now");
}

#[test]
fn gateway_without_upstream_or_with_bad_key_name_does_not_start() {
    let context = context();
    let output = context
        .proctor(["gateway", "--listen", "127.0.0.1:0"])
        .run();
    output.assert_code(2);
    assert!(output.stderr.contains("no upstream configured"), "{output}");
    fs_err::write(context.root().join("answers.yaml"), SCRIPT).unwrap();
    for (args, reported) in [
        (&["--key-name", "../x"][..], "invalid or duplicate key name"),
        (
            &["--key-name", "a", "--key-name", "a"],
            "invalid or duplicate key name",
        ),
        (
            &["--faults", "{rate: 3, cut: 1}"],
            "`rate` must be from 0 to 1",
        ),
        (&["--env-file", "nothing.env"], "nothing.env"),
    ] {
        let all = [
            "gateway",
            "--listen",
            "127.0.0.1:0",
            "--model-script",
            "answers.yaml",
        ];
        let output = context
            .proctor(all.into_iter().chain(args.iter().copied()))
            .run();
        output.assert_code(2);
        assert!(output.stderr.contains(reported), "{output}");
    }
}

#[test]
fn errors_in_a_gateway_section_have_positions() {
    let context = context();
    for (section, reported) in [
        (
            json!({"rate": {"antropic": 5}}),
            "did you mean `anthropic`?",
        ),
        (
            json!({"concurrency": {"openai": 0}}),
            "`concurrency` must be at least 1",
        ),
        (json!({"retries": 50}), "`retries` must be from 0 to 10"),
        (
            json!({"on_miss": "strict"}),
            "`on_miss` has no effect without `replay`",
        ),
        (json!({"faults": {"rate": 0.5}}), "`faults` injects nothing"),
        (json!({"temperature": {"least": 1}}), "unknown key `least`"),
        (json!({"prices": "nowhere.json"}), "nowhere.json"),
        (json!({"budget_usd": -1}), "must be more than 0 dollars"),
        (json!({"kind": "litellm"}), "is supported in suites only"),
    ] {
        let case = caller(&context, "m", &json!({"gateway": section}));
        let output = context.proctor(["validate", "-c", case.as_str()]).run();
        output.assert_code(2);
        assert!(output.stderr.contains(reported), "{section}: {output}");
    }
}
