//! The real Claude Code through the real LiteLLM, which Proctor starts and ends.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

use camino::Utf8PathBuf;
use proctor_testkit::{TestContext, files_with, llm};
use serde_json::{Value, json};

use super::gateway::{CANARY, LITELLM, record, run};
use super::{LATEST, Trial, expect};

#[test]
fn litellm_is_started_and_ended_with_the_run() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    if !trial.ctx.install_real("litellm") {
        return;
    }
    let folder = run(&trial, &json!({"gateway": {"kind": "litellm"}}), &[], 0);
    let record = record(&folder);
    expect(&record, "/outcome", "completed");
    expect(&record, "/diff/files_changed", 1);
    expect(&record, "/gateway/calls", 2);
    expect(&record, "/gateway/output_tokens", 2 * llm::USAGE.output);
    expect(
        &record,
        "/gateway/cache_read_tokens",
        2 * llm::USAGE.cache_read,
    );
    expect(&record, "/gateway/differences", Value::Null);
    // Only the model got the real key, and from LiteLLM: it says so itself.
    assert_eq!(trial.model.turns()[0].header("x-api-key"), Some(CANARY));
    let results = trial.ctx.root().join(".proctor");
    assert_eq!(files_with(&results, CANARY), Vec::<Utf8PathBuf>::new());
    // Its own log has the same calls.
    let log = fs_err::read_to_string(results.join("latest/litellm.ndjson")).unwrap();
    let calls: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let written: u64 = calls
        .iter()
        .filter_map(|call| call["completion_tokens"].as_u64())
        .sum();
    assert_eq!(written, 2 * llm::USAGE.output, "{log}");
    let summary = fs_err::read(results.join("latest/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    expect(&summary, "/litellm/calls", 2);
    expect(&summary, "/litellm/output_tokens", 2 * llm::USAGE.output);
    expect(&summary, "/litellm/differences", Value::Null);
}

/// Stands in for a LiteLLM that runs already: says that it lives, and passes everything else on to a model.
fn running_litellm(model: &str) -> String {
    let model = model.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let model = model.clone();
            thread::spawn(move || pass_on(client, &model));
        }
    });
    url
}

fn pass_on(mut client: TcpStream, model: &str) -> io::Result<()> {
    let mut begin = [0; 16];
    client.read_exact(&mut begin)?;
    if begin.starts_with(b"GET /health") {
        return client
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    let mut upstream = TcpStream::connect(model)?;
    upstream.write_all(&begin)?;
    let (mut asks, mut to) = (client.try_clone()?, upstream.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut asks, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut upstream, &mut client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn running_litellm_is_called_with_its_own_key() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let url = running_litellm(&trial.model.url());
    let gateway = json!({"gateway": {"kind": "litellm", "url": url}});
    let folder = run(&trial, &gateway, &[], 0);
    let record = record(&folder);
    expect(&record, "/outcome", "completed");
    expect(&record, "/gateway/calls", 2);
    expect(&record, "/gateway/differences", Value::Null);
    // The provider's key is LiteLLM's business.
    let turns = trial.model.turns();
    let keys = ["x-api-key", "authorization"].map(|name| turns[0].header(name).unwrap_or_default());
    let keys = keys.concat();
    assert!(keys.contains(LITELLM) && !keys.contains(CANARY), "{keys}");
    let results = trial.ctx.root().join(".proctor");
    for key in [LITELLM, CANARY] {
        assert_eq!(files_with(&results, key), Vec::<Utf8PathBuf>::new());
    }
}

#[test]
fn a_budget_holds_with_litellm_behind_the_gateway() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let url = running_litellm(&trial.model.url());
    let gateway = json!({"gateway": {"kind": "litellm", "url": url, "budget_calls": 1}});
    let folder = run(&trial, &gateway, &[], 1);
    let record = record(&folder);
    expect(&record, "/outcome", "budget_exceeded");
    expect(&record, "/gateway/calls", 1);
}

#[test]
fn settings_of_litellm_without_it_are_refused() {
    let ctx = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let suite = json!({
        "agents": [{"type": "claude-code"}], "tasks": [{"testcase": "case.json"}],
        "gateway": {"port": 4000},
    });
    let path = ctx.root().join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    let output = ctx.proctor(["validate", path.as_str()]).run();
    output.assert_code(2);
    let reported = "has no effect without `kind: litellm`";
    assert!(output.stderr.contains(reported), "{output}");
}
