//! The status page and the metrics show figures and no keys.

use proctor_gateway::{Gateway, GatewayConfig, Pages, Provider, Upstream};

use crate::support::*;

fn showing(fake: &Fake) -> Gateway {
    let upstream = Upstream::Http(fake.upstream());
    Gateway::start(GatewayConfig {
        upstreams: Provider::ALL.map(|p| (p, upstream.clone())).to_vec(),
        pages: Pages::Shown,
        workers: Some(2),
        ..GatewayConfig::default()
    })
    .unwrap()
}

fn get(gateway: &Gateway, path: &str) -> Got {
    ask(gateway, &format!("GET {path} HTTP/1.1"), b"")
}

#[test]
fn page_and_metrics_show_figures_without_keys() {
    let fake = Fake::says(json_reply(&message_of(1300, 70)));
    let gateway = showing(&fake);
    let key = mint(&gateway);
    ask_message(&gateway, &key, r#"{"model":"claude-sonnet-4-5"}"#);
    ask_message(&gateway, &key, r#"{"model":"<b>&\"x"}"#);
    ledger_of(&gateway, &key, 2);
    let page = get(&gateway, "/");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type").unwrap(),
        "text/html; charset=utf-8"
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let text = page.text();
    for part in [
        "claude-sonnet-4-5",
        "2 calls",
        "2740 tokens",
        "0 in flight",
        "<td>test</td>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        text.contains("&lt;b&gt;&amp;&quot;x") && !text.contains("<b>"),
        "{text}"
    );
    assert!(text.contains("$0.0099"), "{text}");
    for outside in ["src=", "http://", "https://", "<script", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}: {text}");
    }
    let metrics = get(&gateway, "/metrics").text();
    for line in [
        "proctor_gateway_calls_total{key=\"test\",model=\"claude-sonnet-4-5\"} 1",
        "proctor_gateway_tokens_total{key=\"test\",model=\"claude-sonnet-4-5\",kind=\"input\"} 1300",
        "proctor_gateway_cost_usd_total{key=\"test\",model=\"claude-sonnet-4-5\"} 0.00495",
        "proctor_gateway_calls_total{key=\"test\",model=\"<b>&\\\"x\"} 1",
        "proctor_gateway_calls_ended_total{ended=\"complete\"} 2",
        "proctor_gateway_in_flight{key=\"test\"} 0",
        "proctor_gateway_call_seconds_bucket{le=\"+Inf\"} 2",
        "proctor_gateway_call_seconds_count 2",
    ] {
        assert!(
            metrics.lines().any(|known| known == line),
            "{line}\n{metrics}"
        );
    }
    for text in [text, metrics] {
        assert!(
            !text.contains(REAL_KEY) && !text.contains(key.expose()),
            "{text}"
        );
    }
}

#[test]
fn client_probes_are_unaffected_by_pages() {
    let fake = Fake::says(json_reply("{\"data\":[]}"));
    let gateway = showing(&fake);
    let key = mint(&gateway);
    let probe = ask(&gateway, "HEAD / HTTP/1.1", b"");
    assert_eq!((probe.status, probe.body.len()), (200, 0));
    let head = format!(
        "GET /v1/models HTTP/1.1\r\nauthorization: Bearer {}",
        key.expose()
    );
    assert_eq!(ask(&gateway, &head, b"").text(), "{\"data\":[]}");
    assert_eq!(ask(&gateway, "POST / HTTP/1.1", b"{}").status, 404);
    assert_eq!(get(&gateway, "/v1/messages").status, 404);
}

#[test]
fn pages_are_hidden_by_default() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    for path in ["/", "/metrics"] {
        assert_eq!(get(&gateway, path).status, 404, "{path}");
    }
}
