//! Policies, limits per provider, retries and faults, seen from both ends.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proctor_gateway::{Fault, Faults, KeySpec, NumberSetting, RequestPolicy, Throttle};

use crate::support::*;

#[test]
fn policy_changes_are_noted() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let policy = RequestPolicy {
        models: vec!["claude-*".to_owned()],
        rename: vec![("claude-opus-4-8".to_owned(), "claude-haiku-4-5".to_owned())],
        temperature: Some(NumberSetting::Set(0.0)),
        max_tokens: Some(NumberSetting::AtMost(50)),
        ..RequestPolicy::default()
    };
    let key = gateway
        .mint(KeySpec {
            policy,
            ..KeySpec::default()
        })
        .unwrap();
    let got = ask_message(
        &gateway,
        &key,
        r#"{"model":"claude-opus-4-8","max_tokens":64000,"x":[ 1 ]}"#,
    );
    assert_eq!(got.status, 200);
    let sent = String::from_utf8(fake.seen()[0].body.clone()).unwrap();
    assert_eq!(
        sent,
        r#"{"temperature":0,"model":"claude-haiku-4-5","max_tokens":50,"x":[ 1 ]}"#
    );
    let refused = ask_message(&gateway, &key, r#"{"model":"gpt-4o"}"#);
    assert_eq!((refused.status, fake.seen().len()), (403, 1));
    let ledger = ledger_of(&gateway, &key, 2);
    let call = &ledger.calls[0];
    assert_eq!(call.sent_model.as_deref(), Some("claude-haiku-4-5"));
    let notes = [
        "model: claude-opus-4-8 -> claude-haiku-4-5",
        "max_tokens: 64000 -> 50",
        "temperature: unset -> 0",
    ];
    assert_eq!(call.notes, notes);
}

#[test]
fn usage_of_chat_streams_is_requested() {
    let fake = Fake::says(sse_reply("data: [DONE]\n\n"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer {}",
        key.expose()
    );
    ask(&gateway, &head, br#"{"model":"gpt-4o","stream":true}"#);
    let sent = String::from_utf8(fake.seen()[0].body.clone()).unwrap();
    assert_eq!(
        sent,
        r#"{"stream_options":{"include_usage":true},"model":"gpt-4o","stream":true}"#
    );
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(
        ledger.calls[0].notes,
        ["stream_options.include_usage: added"]
    );
}

#[test]
fn retry_after_applies_to_all_keys() {
    let count = AtomicUsize::new(0);
    let fake = Fake::start(move |_, stream| {
        let reply = match count.fetch_add(1, Ordering::Relaxed) {
            0 => b"HTTP/1.1 429 Slow\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
            _ => json_reply("{}"),
        };
        stream.write_all(&reply).unwrap();
    });
    let gateway = gateway(&fake.upstream());
    let (one, two) = (mint(&gateway), mint(&gateway));
    let began = Instant::now();
    assert_eq!(ask_message(&gateway, &one, "{}").status, 429);
    // On a slow machine part of the pause may be over by now.
    assert_eq!(ask_message(&gateway, &two, "{}").status, 200);
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let ledger = ledger_of(&gateway, &two, 1);
    assert!(ledger.calls[0].waited_ms > 0, "{:?}", ledger.calls[0]);
}

#[test]
fn retries_are_opt_in_and_counted() {
    let count = AtomicUsize::new(0);
    let fake = Fake::start(move |_, stream| {
        let reply = match count.fetch_add(1, Ordering::Relaxed) {
            0 => b"HTTP/1.1 500 Oops\r\nretry-after-ms: 5\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
            _ => json_reply("{}"),
        };
        stream.write_all(&reply).unwrap();
    });
    let mut upstream = fake.upstream();
    upstream.retries = 1;
    upstream.throttle = Throttle {
        // The call that waits to ask again must not hold the only place.
        concurrent: Some(1),
        per_minute: None,
    };
    let gateway = gateway(&upstream);
    let key = mint(&gateway);
    assert_eq!(ask_message(&gateway, &key, "{}").status, 200);
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!((ledger.calls[0].retries, fake.seen().len()), (1, 2));
    assert_eq!(ledger.totals.retries, 1);
    assert_eq!(ledger.calls[0].notes, ["retried after status 500"]);
}

#[test]
fn injected_faults_look_like_provider_errors() {
    let fake = Fake::says(json_reply(&message_of(1, 1)));
    let gateway = gateway(&fake.upstream());
    let with = |kinds: Vec<Fault>| {
        let faults = Some(Faults {
            seed: 1,
            rate: 1.0,
            kinds,
        });
        gateway
            .mint(KeySpec {
                faults,
                ..KeySpec::default()
            })
            .unwrap()
    };
    let overloaded = with(vec![Fault::Status(529)]);
    let got = ask_message(&gateway, &overloaded, "{}");
    assert_eq!(
        (got.status, &got.json()["error"]["type"]),
        (529, &"overloaded_error".into())
    );
    assert!(fake.seen().is_empty());
    let late = with(vec![Fault::Latency(Duration::from_millis(120))]);
    let began = Instant::now();
    assert_eq!(ask_message(&gateway, &late, "{}").status, 200);
    assert!(began.elapsed() >= Duration::from_millis(120));
    let cut = with(vec![Fault::CutAfter(10)]);
    let got = ask_message(&gateway, &cut, "{}");
    assert_eq!((got.body.len(), got.whole), (10, false));
    let ledger = ledger_of(&gateway, &cut, 1);
    assert_eq!(ledger.calls[0].notes, ["fault: cut after 10 bytes"]);
}

#[test]
fn refused_server_tool_is_in_the_account() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = gateway
        .mint(KeySpec {
            policy: RequestPolicy {
                server_tools: proctor_gateway::ServerTools::Refuse,
                ..RequestPolicy::default()
            },
            ..KeySpec::default()
        })
        .unwrap();
    let body = r#"{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"}]}"#;
    let got = ask_message(&gateway, &key, body);
    let error = &got.json()["error"];
    assert_eq!(
        (got.status, &error["type"]),
        (400, &"invalid_request_error".into())
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("web_search_20250305")
    );
    assert!(fake.seen().is_empty());
    assert_eq!(ledger_of(&gateway, &key, 1).refused, 1);
    let open = mint(&gateway);
    assert_eq!(ask_message(&gateway, &open, body).status, 200);
    assert_eq!(fake.seen()[0].body, body.as_bytes());
}
