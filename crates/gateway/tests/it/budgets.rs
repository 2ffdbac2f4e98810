//! Budgets hold, also when fifty calls come at once.

use std::sync::Arc;
use std::thread;

use proctor_gateway::{Budget, Exhausted, Gateway, KeySpec, Limits, NanoUsd, VirtualKey};

use crate::support::*;

const BODY: &str = r#"{"model":"claude-sonnet-4-5","max_tokens":100}"#;

fn limited(gateway: &Gateway, limits: Limits) -> VirtualKey {
    gateway
        .mint(KeySpec {
            limits,
            ..KeySpec::default()
        })
        .unwrap()
}

#[test]
fn concurrent_calls_exceed_a_budget_by_less_than_one_call() {
    // Each costs 100 × 3 + 100 × 15 = 1800 micro-dollars.
    let fake = Fake::says(json_reply(&message_of(100, 100)));
    let gateway = gateway(&fake.upstream());
    let most = NanoUsd(10_000_000);
    let key = limited(
        &gateway,
        Limits {
            usd: Some(most),
            ..Limits::default()
        },
    );
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asks: Vec<_> = (0..50)
            .map(|_| scope.spawn(|| ask_message(&gateway, &key, BODY).status))
            .collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(served, 6, "5 × 1.8 is below 10, 6 × 1.8 is not");
    assert!(
        statuses.iter().all(|status| [200, 403].contains(status)),
        "{statuses:?}"
    );
    let ledger = ledger_of(&gateway, &key, 50);
    assert_eq!(ledger.totals.cost(), Some(NanoUsd(6 * 1_800_000)));
    assert_eq!(
        (ledger.exhausted, ledger.refused),
        (Some(Exhausted::Usd), 44)
    );
    assert_eq!(fake.seen().len(), 6);
}

#[test]
fn exhausted_budget_is_reported_in_the_form_of_each_api() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = limited(
        &gateway,
        Limits {
            calls: Some(0),
            ..Limits::default()
        },
    );
    let post = |path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nx-api-key: {}", key.expose());
        let got = ask(&gateway, &head, b"{}");
        (got.status, got.json()["error"].clone())
    };
    let (status, error) = post("/v1/messages");
    assert_eq!(
        (status, error["type"].as_str()),
        (403, Some("permission_error"))
    );
    let (status, error) = post("/v1/responses");
    assert_eq!(
        (status, error["code"].as_str()),
        (429, Some("insufficient_quota"))
    );
    let (status, error) = post("/v1beta/models/g:generateContent");
    assert_eq!(
        (status, error["status"].as_str()),
        (403, Some("PERMISSION_DENIED"))
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("budget exceeded")
    );
    let (status, _) = post("/v1/messages/count_tokens");
    assert_eq!(status, 200, "what costs nothing needs no budget");
}

#[test]
fn keys_share_the_budget_of_their_run() {
    let fake = Fake::says(json_reply(&message_of(10, 10)));
    let gateway = gateway(&fake.upstream());
    let run = Arc::new(Budget::new(Limits {
        tokens: Some(30),
        ..Limits::default()
    }));
    let keys: Vec<VirtualKey> = (0..2)
        .map(|_| {
            gateway
                .mint(KeySpec {
                    shared: vec![Arc::clone(&run)],
                    ..KeySpec::default()
                })
                .unwrap()
        })
        .collect();
    let statuses: Vec<u16> = [0, 1, 0, 1]
        .iter()
        .map(|i| ask_message(&gateway, &keys[*i], BODY).status)
        .collect();
    assert_eq!(statuses, [200, 200, 403, 403]);
    assert_eq!(run.spent(), NanoUsd(2 * (10 * 3_000 + 10 * 15_000)));
}

#[test]
fn a_budget_in_money_needs_a_price() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = limited(
        &gateway,
        Limits {
            usd: Some(NanoUsd::from_usd(1.0)),
            ..Limits::default()
        },
    );
    assert_eq!(
        ask_message(&gateway, &key, r#"{"model":"unknown"}"#).status,
        403
    );
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.exhausted, Some(Exhausted::UnknownPrice));
    assert!(fake.seen().is_empty());
    assert!(!gateway.knows_price("unknown") && gateway.knows_price("claude-opus-4-8[1m]"));
}
