//! Recordings are replayed without the provider.

use std::path::Path;

use proctor_gateway::{CallEnd, Gateway, KeySpec, OnMiss, Pace, RecordingSpec, VirtualKey};
use serde_json::{Value, json};

use crate::support::*;

const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":8}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn with(gateway: &Gateway, recording: RecordingSpec) -> VirtualKey {
    gateway
        .mint(KeySpec {
            recording: Some(recording),
            ..KeySpec::default()
        })
        .unwrap()
}

fn replay(path: &Path, on_miss: OnMiss) -> RecordingSpec {
    RecordingSpec::Replay {
        path: path.to_owned(),
        on_miss,
        pace: Pace::AtOnce,
    }
}

/// A request as a client would send it in this run.
fn request(run: &str, prompt: &str) -> String {
    let body: Value = json!({
        "model": "claude-sonnet-4-5",
        "metadata": {"user_id": run},
        "system": format!("You work in /tmp/{run}/workspace. Session {run}aaaaaaa1."),
        "messages": [{"role": "user", "content": prompt}],
    });
    body.to_string()
}

fn record(path: &Path, prompts: &[&str]) {
    let fake = Fake::says(sse_reply(STREAM));
    let gateway = gateway(&fake.upstream());
    let key = with(&gateway, RecordingSpec::Record(path.to_owned()));
    for prompt in prompts {
        assert_eq!(
            ask_message(&gateway, &key, &request("1", prompt)).text(),
            STREAM
        );
    }
    ledger_of(&gateway, &key, prompts.len());
    assert_eq!(
        gateway.recording_report(&key).unwrap().recorded,
        prompts.len()
    );
}

#[test]
fn replay_returns_the_recorded_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.ndjson");
    record(&path, &["write a poem", "write a play"]);
    let gateway = start(Vec::new());
    let key = with(&gateway, replay(&path, OnMiss::Refuse));
    let got = ask_message(&gateway, &key, &request("2", "write a play"));
    assert_eq!(
        (got.status, got.text().as_str(), got.whole),
        (200, STREAM, true)
    );
    assert_eq!(
        got.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(
        ledger.calls[0].usage.unwrap().output,
        8,
        "replays are metered too"
    );
    assert_eq!(ledger.calls[0].notes, ["replayed"]);
    let report = gateway.recording_report(&key).unwrap();
    assert_eq!((report.hits, report.misses.len(), report.unused), (1, 0, 1));
}

#[test]
fn unrecorded_request_is_refused_with_its_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.ndjson");
    record(&path, &["write a poem"]);
    let gateway = start(Vec::new());
    let key = with(&gateway, replay(&path, OnMiss::Refuse));
    let got = ask_message(&gateway, &key, &request("2", "write a novel"));
    assert_eq!(got.status, 404);
    let report = gateway.recording_report(&key).unwrap();
    let difference = &report.misses[0].differences[0];
    assert_eq!(difference.at, "/messages/0/content");
    assert!(difference.recorded.ends_with("poem") && difference.asked.ends_with("novel"));
}

#[test]
fn miss_can_be_sent_to_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.ndjson");
    record(&path, &["write a poem"]);
    let fake = Fake::says(json_reply("{\"live\":1}"));
    let gateway = gateway(&fake.upstream());
    let key = with(&gateway, replay(&path, OnMiss::PassOn));
    assert_eq!(
        ask_message(&gateway, &key, &request("2", "new")).text(),
        "{\"live\":1}"
    );
    assert_eq!(
        ask_message(&gateway, &key, &request("3", "write a poem")).text(),
        STREAM
    );
    assert_eq!(fake.seen().len(), 1);
}

#[test]
fn cut_response_is_replayed_with_cut_and_timing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.ndjson");
    let fake = Fake::start(|_, stream| {
        use std::io::Write;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        write!(stream, "{head}5\r\ndata:\r\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150));
        write!(stream, "2\r\n x\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let gateway = gateway(&fake.upstream());
    let key = with(&gateway, RecordingSpec::Record(path.clone()));
    assert!(!ask_message(&gateway, &key, "{}").whole);
    ledger_of(&gateway, &key, 1);
    let recorded = RecordingSpec::Replay {
        path,
        on_miss: OnMiss::Refuse,
        pace: Pace::Recorded,
    };
    let key = with(&gateway, recorded);
    let began = std::time::Instant::now();
    let got = ask_message(&gateway, &key, "{}");
    assert_eq!((got.text().as_str(), got.whole), ("data: x", false));
    assert!(began.elapsed().as_millis() >= 100, "{:?}", began.elapsed());
    assert_eq!(ledger_of(&gateway, &key, 1).calls[0].ended, CallEnd::Cut);
    assert_eq!(fake.seen().len(), 1);
}
