//! Clients that are slow, rude or many.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use proctor_gateway::HttpUpstream;
use proctor_scripted_model::{Answer, Script, ScriptedModel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

#[test]
fn oversized_heads_and_bodies_are_refused() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let mut client = connect(&gateway);
    let long = "x".repeat(100 << 10);
    // The gateway may hang up before everything is sent.
    let _ = write!(
        client,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n"
    );
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n",
        key.expose(),
        65 << 20
    );
    let mut client = connect(&gateway);
    client.write_all(head.as_bytes()).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(fake.seen().is_empty());
}

#[test]
fn body_of_many_megabytes_is_complete() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let body = format!("{{\"model\":\"m\",\"x\":\"{}\"}}", "ab".repeat(10 << 20));
    assert_eq!(ask_message(&gateway, &key, &body).status, 200);
    assert_eq!(fake.seen()[0].body, body.as_bytes());
}

#[test]
fn slow_senders_do_not_block_others() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let slow: Vec<_> = (0..200)
        .map(|_| {
            let mut client = connect(&gateway);
            client
                .write_all(b"POST /v1/messages HTTP/1.1\r\nx-slow: ")
                .unwrap();
            client
        })
        .collect();
    let began = Instant::now();
    assert_eq!(ask_message(&gateway, &key, "{}").status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(slow);
}

#[test]
fn key_with_many_calls_does_not_block_another() {
    let fake = Fake::start(|seen, stream| {
        if seen.body.starts_with(b"{\"slow") {
            // Until the gateway hangs up.
            let _ = stream.read(&mut [0]);
        }
        let _ = stream.write_all(&json_reply("{}"));
    });
    let gateway = gateway(&fake.upstream());
    let (greedy, other) = (mint(&gateway), mint(&gateway));
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 10\r\n\r\n",
        greedy.expose()
    );
    // 64 under way, 256 that wait, and 10 that are refused.
    let clients: Vec<_> = (0..330)
        .map(|_| {
            let mut client = connect(&gateway);
            write!(client, "{head}{{\"slow\":1}}").unwrap();
            client
        })
        .collect();
    let began = Instant::now();
    assert_eq!(ask_message(&gateway, &other, "{}").status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    while fake.seen().len() < 65 {
        assert!(began.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(2));
    }
    let is_refused = |client: &std::net::TcpStream| {
        let mut answer = [0; 12];
        client.set_nonblocking(true).unwrap();
        client.peek(&mut answer).is_ok() && &answer == b"HTTP/1.1 429"
    };
    let refused = || clients.iter().filter(|client| is_refused(client)).count();
    while refused() < 10 {
        assert!(began.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(refused(), 10);
    assert_eq!(fake.seen().len(), 65, "64 of the one key, one of the other");
    gateway.cut_off(&greedy);
}

#[test]
fn key_with_stalled_bodies_does_not_block_another() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let (greedy, other) = (mint(&gateway), mint(&gateway));
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{{",
        greedy.expose(),
        60 << 20
    );
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let mut client = connect(&gateway);
            client.write_all(head.as_bytes()).unwrap();
            client
        })
        .collect();
    let began = Instant::now();
    assert_eq!(ask_message(&gateway, &other, "{}").status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(clients);
    assert_eq!(
        ask_message(&gateway, &greedy, "{}").status,
        200,
        "what clients held that are gone is free again"
    );
}

#[test]
fn shutdown_ends_every_call() {
    let model = ScriptedModel::start_blocking(Script::new([Answer::hang()])).unwrap();
    let gateway = gateway(&HttpUpstream::new(model.url(), None));
    let key = mint(&gateway);
    let mut client = connect(&gateway);
    write!(
        client,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 13\r\n\r\n{{\"model\":\"m\"}}",
        key.expose()
    )
    .unwrap();
    let began = Instant::now();
    while model.requests().is_empty() {
        assert!(began.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(2));
    }
    let began = Instant::now();
    gateway.shutdown();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    let mut rest = Vec::new();
    // Closed or reset: both are an end.
    let _ = client.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_keys_streams_end_and_are_in_its_account() {
    let script = Script::new([Answer::text("x".repeat(400_000)).pace_ms(50)]);
    let model = ScriptedModel::start(script).await.unwrap();
    let gateway = gateway(&HttpUpstream::new(model.url(), None));
    let key = mint(&gateway);
    let mut client = tokio::net::TcpStream::connect(gateway.address())
        .await
        .unwrap();
    let body = r#"{"model":"m","stream":true}"#;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
        key.expose(),
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut part = [0; 64];
    client.read_exact(&mut part).await.unwrap();
    let ledger = gateway.revoke(&key).await.unwrap();
    assert_eq!((ledger.calls.len(), ledger.totals.calls_cut), (1, 1));
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, client.read_to_end(&mut rest))
        .await
        .unwrap();
}

/// Memory that this process uses now, in bytes.
#[cfg(target_os = "linux")]
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

// Linux only: nowhere else is one's own memory a file.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_streams_at_once_are_served_and_metered_in_flat_memory() {
    use proctor_gateway::KeySpec;
    use proctor_scripted_model::Usage;
    const STREAMS: u64 = 1000;
    let usage = Usage {
        input: 3,
        output: 5,
        ..Usage::default()
    };
    let answer = Answer::text("word ".repeat(40))
        .pace_ms(60)
        .usage(usage)
        .forever();
    let model = ScriptedModel::start(Script::new([answer])).await.unwrap();
    let gateway = std::sync::Arc::new(gateway(&HttpUpstream::new(model.url(), None)));
    // As many keys as it takes for none to wait.
    let keys: Vec<_> = (0..20)
        .map(|_| gateway.mint(KeySpec::default()).unwrap())
        .collect();
    let body = r#"{"model":"claude-sonnet-4-5","stream":true,"messages":[]}"#;
    let request = |stream: u64| {
        let key = keys[usize::try_from(stream).unwrap() % keys.len()].expose();
        let length = body.len();
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let before = memory();
    let mut clients = tokio::task::JoinSet::new();
    for stream in 0..STREAMS {
        let (address, request) = (gateway.address(), request(stream));
        clients.spawn(async move {
            let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert!(String::from_utf8_lossy(&answer).contains("message_stop"));
        });
    }
    let mut most = 0;
    while let Some(client) = clients.join_next().await {
        client.unwrap();
        most = most.max(memory());
    }
    let grown = most.saturating_sub(before);
    // Clients, gateway and upstream together: less than 150 KB for each stream.
    assert!(grown < STREAMS * 150_000, "{grown} bytes more");
    for key in &keys {
        let calls = STREAMS / keys.len() as u64;
        let ledger = ledger_when(&gateway, key, |ledger| ledger.totals.calls == calls);
        assert_eq!(ledger.totals.usage.input, 3 * calls);
        assert_eq!(ledger.totals.usage.output, 5 * calls);
        assert_eq!(ledger.totals.calls_cut, 0);
    }
}
