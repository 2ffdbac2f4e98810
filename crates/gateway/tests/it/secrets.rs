//! No key shows anywhere: not in logs, recordings, errors, `Debug`.

use proctor_gateway::{KeySpec, RecordingSpec, Secret, VirtualKey};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_key_is_found_nowhere() {
    // A provider that says everything it knows.
    let fake = Fake::start(|seen, stream| {
        use std::io::Write;
        let body = format!(
            "{{\"error\":{:?},\"sent\":{:?}}}",
            seen.head,
            String::from_utf8_lossy(&seen.body)
        );
        let reply = format!(
            "HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(reply.as_bytes()).unwrap();
    });
    let gateway = gateway(&fake.upstream());
    let folder = tempfile::tempdir().unwrap();
    let (log, tape) = (
        folder.path().join("calls.ndjson"),
        folder.path().join("tape.ndjson"),
    );
    let spec = KeySpec {
        label: "canary".to_owned(),
        log: Some(log.clone()),
        recording: Some(RecordingSpec::Record(tape.clone())),
        ..KeySpec::default()
    };
    let key: VirtualKey = gateway.mint(spec).unwrap();
    let body = format!("{{\"model\":\"{}\",\"note\":\"{REAL_KEY}\"}}", key.expose());
    let got = ask_message(&gateway, &key, &body);
    assert_eq!(got.status, 401);
    assert!(
        !got.text().contains(REAL_KEY),
        "the client never sees the real key: {}",
        got.text()
    );
    // A panic shows what is formatted into it, and nothing else.
    let broken = std::panic::AssertUnwindSafe(|| {
        panic!(
            "{gateway:?} {key:?} {:?} {:?} {:?}",
            fake.upstream(),
            Secret::new(REAL_KEY),
            gateway.overview()
        );
    });
    let shown = std::panic::catch_unwind(broken).unwrap_err();
    let shown = shown.downcast::<String>().unwrap();
    let ledger = gateway.revoke(&key).await.unwrap();
    let ledger = format!(
        "{:?} {}",
        ledger.totals,
        serde_json::to_string(&ledger.calls[0].error).unwrap()
    );
    let written = [&log, &tape].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(written[0].contains("\"status\":401") && written[1].contains("fingerprint"));
    for text in [&*shown, &ledger, &written[0], &written[1]] {
        for secret in [REAL_KEY, key.expose()] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_log_has_a_line_for_every_call() {
    let fake = Fake::says(json_reply(&message_of(3, 4)));
    let gateway = gateway(&fake.upstream());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls.ndjson");
    let key = gateway
        .mint(KeySpec {
            log: Some(log.clone()),
            ..KeySpec::default()
        })
        .unwrap();
    for _ in 0..3 {
        ask_message(&gateway, &key, r#"{"model":"claude-sonnet-4-5"}"#);
    }
    gateway.revoke(&key).await.unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["call"], 3);
    assert_eq!(lines[0]["usage"]["input"], 3);
    assert_eq!(lines[0]["cost_nano_usd"], 3 * 3_000 + 4 * 15_000);
    assert_eq!(lines[0]["ended"], "complete");
}
