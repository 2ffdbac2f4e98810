//! Clients that disconnect before the usage is known: the provider bills the call to its end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use proctor_gateway::{CallEnd, Gateway, HttpUpstream, KeySpec, Limits, NanoUsd, VirtualKey};

use crate::support::*;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-sonnet-4-5\",\"usage\":{\"input_tokens\":1000,\"output_tokens\":1}}}\n\n";

const END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2000}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const BODY: &str = r#"{"model":"claude-sonnet-4-5","stream":true,"max_tokens":4000}"#;

/// 1000 tokens in, 2000 out.
const TRUE_COST: NanoUsd = NanoUsd(1000 * 3_000 + 2000 * 15_000);

/// 1000 tokens in, the longest answer that was asked for out.
const MOST_COST: NanoUsd = NanoUsd(1000 * 3_000 + 4000 * 15_000);

fn chunk(stream: &mut TcpStream, text: &str) {
    // The gateway may have hung up.
    let _ = write!(stream, "{:x}\r\n{text}\r\n", text.len());
}

/// An upstream that begins an answer, waits for a word, and ends it.
fn two_parts(first: &'static str, last: &'static str) -> (Fake, Sender<()>) {
    let (go, wait) = channel();
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let fake = Fake::start(move |_, stream| {
        if !first.is_empty() {
            write!(stream, "{HEAD}").unwrap();
            chunk(stream, first);
        }
        let wait = wait.lock().unwrap_or_else(PoisonError::into_inner);
        if wait.recv_timeout(DEADLINE).is_err() {
            return;
        }
        if first.is_empty() {
            let _ = write!(stream, "{HEAD}");
            chunk(stream, START);
        }
        if last.is_empty() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        chunk(stream, last);
        let _ = write!(stream, "0\r\n\r\n");
    });
    (fake, go)
}

fn send(gateway: &Gateway, key: &VirtualKey, body: &str) -> TcpStream {
    let mut client = connect(gateway);
    write!(
        client,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
        key.expose(),
        body.len()
    )
    .unwrap();
    client
}

/// Reads until this was seen. Gives what was read.
fn read_until(client: &mut TcpStream, word: &str) -> String {
    let mut got = String::new();
    while !got.contains(word) {
        let mut part = [0; 512];
        let count = client.read(&mut part).unwrap();
        if count == 0 {
            break;
        }
        got += &String::from_utf8_lossy(&part[..count]);
    }
    got
}

fn budget(gateway: &Gateway, usd: f64) -> VirtualKey {
    let limits = Limits {
        usd: Some(NanoUsd::from_usd(usd)),
        ..Limits::default()
    };
    gateway
        .mint(KeySpec {
            limits,
            ..KeySpec::default()
        })
        .unwrap()
}

#[test]
fn stream_is_read_to_its_usage_after_disconnect() {
    let (fake, go) = two_parts(START, END);
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let mut client = send(&gateway, &key, BODY);
    read_until(&mut client, "message_start");
    drop(client);
    // Time for the gateway to see that the client is gone.
    std::thread::sleep(std::time::Duration::from_millis(50));
    go.send(()).unwrap();
    let ledger = ledger_of(&gateway, &key, 1);
    let call = &ledger.calls[0];
    assert_eq!((call.ended, call.incomplete), (CallEnd::ClientGone, false));
    assert_eq!(call.usage.unwrap().output, 2000);
    assert_eq!(ledger.totals.cost(), Some(TRUE_COST));
    assert_eq!(ledger.totals.cost_at_most(), Some(TRUE_COST));
    assert_eq!(ledger.totals.calls_cut, 0);
}

#[test]
fn call_is_read_to_its_usage_after_early_disconnect() {
    let (fake, go) = two_parts("", END);
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let client = send(&gateway, &key, BODY);
    while fake.seen().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    drop(client);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(gateway.ledger(&key).unwrap().calls.is_empty(), "under way");
    go.send(()).unwrap();
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.calls[0].ended, CallEnd::ClientGone);
    assert_eq!(ledger.totals.cost(), Some(TRUE_COST));
}

#[test]
fn call_without_usage_counts_with_its_upper_bound() {
    for (first, known, most) in [
        (START, Some(NanoUsd(1000 * 3_000 + 15_000)), MOST_COST),
        // Nothing is known: 1000 hidden tokens and half of the bytes, all written to the cache for an hour.
        (
            ": nothing\n\n",
            None,
            NanoUsd((1000 + i64::try_from(BODY.len()).unwrap() / 2) * 6_000 + 4000 * 15_000),
        ),
    ] {
        let (fake, go) = two_parts(first, "");
        let gateway = gateway(&fake.upstream());
        let key = mint(&gateway);
        let mut client = send(&gateway, &key, BODY);
        read_until(&mut client, first.trim());
        drop(client);
        go.send(()).unwrap();
        let ledger = ledger_of(&gateway, &key, 1);
        let call = &ledger.calls[0];
        assert_eq!((call.incomplete, ledger.totals.calls_cut), (true, 1));
        assert_eq!(call.cost_nano_usd, known);
        assert_eq!(call.at_most_nano_usd, Some(most));
        assert_eq!(ledger.totals.cost_at_most(), Some(most));
    }
}

#[test]
fn call_without_output_limit_has_no_upper_bound() {
    let (fake, go) = two_parts(START, "");
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let mut client = send(&gateway, &key, r#"{"model":"claude-sonnet-4-5"}"#);
    read_until(&mut client, "message_start");
    drop(client);
    go.send(()).unwrap();
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.calls[0].at_most_nano_usd, None);
    assert_eq!(ledger.totals.cost_at_most(), None);
}

#[test]
fn disconnecting_clients_exceed_a_budget_by_at_most_one_call() {
    let fake = Fake::start(|_, stream| {
        write!(stream, "{HEAD}").unwrap();
        chunk(stream, START);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let _ = stream.shutdown(Shutdown::Both);
    });
    let gateway = gateway(&fake.upstream());
    let key = budget(&gateway, 0.05);
    let mut refused = 0;
    for _ in 0..20 {
        let mut client = send(&gateway, &key, BODY);
        let got = read_until(&mut client, "\r\n\r\n");
        refused += usize::from(got.starts_with("HTTP/1.1 403"));
    }
    let ledger = ledger_of(&gateway, &key, 20);
    assert_eq!((fake.seen().len(), refused), (1, 19));
    let spent = ledger.totals.cost_at_most().unwrap();
    assert!(
        spent >= NanoUsd::from_usd(0.05) && spent <= MOST_COST,
        "{spent:?}"
    );
}

#[test]
fn many_disconnecting_clients_cannot_exceed_a_budget() {
    let (fake, go) = two_parts(START, "");
    let gateway = gateway(&fake.upstream());
    let key = budget(&gateway, 0.05);
    let mut first = send(&gateway, &key, BODY);
    read_until(&mut first, "message_start");
    let others: Vec<TcpStream> = (0..20).map(|_| send(&gateway, &key, BODY)).collect();
    drop(first);
    go.send(()).unwrap();
    for mut client in others {
        let got = read_until(&mut client, "\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 403"), "{got}");
    }
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_not_waited_for_long() {
    let (fake, _go) = two_parts(START, END);
    let upstream: HttpUpstream = fake.upstream();
    let gateway = gateway(&upstream);
    let key = mint(&gateway);
    let mut client = send(&gateway, &key, BODY);
    read_until(&mut client, "message_start");
    drop(client);
    let began = std::time::Instant::now();
    let ledger = gateway.revoke(&key).await.unwrap();
    assert!(began.elapsed() < std::time::Duration::from_secs(2));
    assert_eq!((ledger.calls.len(), ledger.totals.calls_cut), (1, 1));
    assert_eq!(ledger.totals.cost_at_most(), Some(MOST_COST));
}
