//! Requests and responses are forwarded byte for byte, and only with a valid key.

use proctor_gateway::{CallEnd, KeySpec, Provider};
use serde_json::json;

use crate::support::*;

#[test]
fn bytes_and_headers_are_unchanged_except_for_the_key() {
    let body = "{ \"odd\" : [1,\t2 ],\"model\":\"claude-sonnet-4-5\", \"\\u00fc\":\"\u{fc}\" }";
    let reply = "HTTP/1.1 200 Fine\r\nX-Odd: A b\r\nrequest-id: r1\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{ \"a\" : [1 ] }";
    let fake = Fake::says(reply);
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let head = format!(
        "POST /v1/messages?beta=true HTTP/1.1\r\nX-Api-Key: {}\r\nanthropic-beta: a-1,b-2\r\nuser-agent: claude-cli/2.1.197\r\nx-custom: \u{e4}",
        key.expose()
    );
    let got = ask(&gateway, &head, body.as_bytes());
    assert_eq!(got.text(), "{ \"a\" : [1 ] }");
    assert_eq!(
        (got.status, got.header("x-odd").as_deref()),
        (200, Some("A b"))
    );
    assert_eq!(got.header("request-id").as_deref(), Some("r1"));
    let seen = &fake.seen()[0];
    assert_eq!(seen.body, body.as_bytes());
    assert_eq!(seen.line(), "POST /v1/messages?beta=true HTTP/1.1");
    assert_eq!(seen.header("anthropic-beta").as_deref(), Some("a-1,b-2"));
    assert_eq!(
        seen.header("user-agent").as_deref(),
        Some("claude-cli/2.1.197")
    );
    assert_eq!(seen.header("x-custom").as_deref(), Some("\u{e4}"));
    assert_eq!(seen.header("x-api-key").as_deref(), Some(REAL_KEY));
    assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
    assert_eq!(seen.header("host").unwrap(), fake.address.to_string());
    assert!(!seen.head.contains(key.expose()));
}

#[test]
fn only_known_endpoints_reach_the_provider() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let ask_for = |line: &str| {
        let head = format!("{line} HTTP/1.1\r\nx-api-key: {}", key.expose());
        ask(&gateway, &head, b"{}").status
    };
    for line in [
        "GET /v1/models/../files",
        "GET /v1/models/%2e%2e/files",
        "GET /v1/models/..%2Ffiles?limit=9",
        "GET /v1beta/files",
        "GET /v1beta/models/../cachedContents",
        "POST /v1/messages/../files",
        "POST /v1/messages/batches",
    ] {
        assert_eq!(ask_for(line), 404, "{line}");
    }
    assert!(fake.seen().is_empty(), "{:?}", fake.seen());
    for line in [
        "POST //v1/messages?beta=true",
        "GET /v1/models/claude-sonnet-4-5",
        "GET /v1/x/../models?limit=9",
    ] {
        assert_eq!(ask_for(line), 200, "{line}");
    }
    let lines: Vec<String> = fake
        .seen()
        .iter()
        .map(|seen| seen.line().to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "POST /v1/messages?beta=true HTTP/1.1",
            "GET /v1/models/claude-sonnet-4-5 HTTP/1.1",
            "GET /v1/models?limit=9 HTTP/1.1",
        ]
    );
}

#[test]
fn keys_are_accepted_in_every_place_that_clients_use() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let key = key.expose();
    let cases = [
        (
            "/v1/messages",
            format!("x-api-key: {key}"),
            "x-api-key",
            REAL_KEY.to_owned(),
        ),
        (
            "/v1/messages",
            format!("authorization: Bearer {key}"),
            "x-api-key",
            REAL_KEY.to_owned(),
        ),
        (
            "/v1/chat/completions",
            format!("authorization: Bearer {key}"),
            "authorization",
            format!("Bearer {REAL_KEY}"),
        ),
        (
            "/v1beta/models/g:generateContent",
            format!("x-goog-api-key: {key}"),
            "x-goog-api-key",
            REAL_KEY.to_owned(),
        ),
        (
            &*format!("/models/g:streamGenerateContent?alt=sse&key={key}"),
            "x-other: 1".to_owned(),
            "x-goog-api-key",
            REAL_KEY.to_owned(),
        ),
    ];
    for (path, header, sent, expected) in cases {
        let got = ask(
            &gateway,
            &format!("POST {path} HTTP/1.1\r\n{header}"),
            b"{}",
        );
        assert_eq!(got.status, 200, "{path}");
        let seen = fake.seen().pop().unwrap();
        assert_eq!(
            seen.header(sent).as_deref(),
            Some(expected.as_str()),
            "{path}"
        );
        assert!(!seen.head.contains(key), "{}", seen.head);
    }
    let last = fake.seen().pop().unwrap();
    assert_eq!(
        last.line(),
        "POST /v1beta/models/g:streamGenerateContent?alt=sse HTTP/1.1"
    );
}

#[test]
fn a_wrong_key_gets_the_401_of_its_api() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let post = |path: &str| {
        ask(
            &gateway,
            &format!("POST {path} HTTP/1.1\r\nx-api-key: no"),
            b"{}",
        )
    };
    let anthropic = post("/v1/messages");
    assert_eq!(anthropic.status, 401);
    assert_eq!(anthropic.json()["error"]["type"], "authentication_error");
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let openai = post(path);
        assert_eq!(
            (openai.status, &openai.json()["error"]["code"]),
            (401, &json!("invalid_api_key"))
        );
    }
    let gemini = post("/v1beta/models/g:generateContent");
    assert_eq!(
        (gemini.status, &gemini.json()["error"]["status"]),
        (401, &json!("UNAUTHENTICATED"))
    );
    assert_eq!(
        ask(&gateway, "POST /v1/messages HTTP/1.1", b"{}").status,
        401
    );
    assert!(fake.seen().is_empty(), "nothing reached the upstream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_a_wrong_key_and_its_account_is_closed() {
    let fake = Fake::says(json_reply(&message_of(3, 4)));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let body = r#"{"model":"claude-sonnet-4-5"}"#;
    assert_eq!(ask_message(&gateway, &key, body).status, 200);
    let ledger = gateway.revoke(&key).await.unwrap();
    assert_eq!((ledger.totals.calls, ledger.totals.usage.input), (1, 3));
    assert_eq!(ask_message(&gateway, &key, body).status, 401);
    assert!(gateway.revoke(&key).await.is_none());
}

#[test]
fn probes_models_and_websockets_get_expected_responses() {
    let fake = Fake::says(json_reply("{\"data\":[]}"));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let probe = ask(&gateway, "HEAD / HTTP/1.1", b"");
    assert_eq!(probe.status, 200);
    let upgrade = format!(
        "GET /v1/responses HTTP/1.1\r\nauthorization: Bearer {}\r\nupgrade: websocket\r\nsec-websocket-key: x",
        key.expose()
    );
    assert_eq!(ask(&gateway, &upgrade, b"").status, 426);
    let models = format!(
        "GET /v1/models HTTP/1.1\r\nauthorization: Bearer {}",
        key.expose()
    );
    assert_eq!(ask(&gateway, &models, b"").text(), "{\"data\":[]}");
    assert_eq!(fake.seen().len(), 1);
    let unknown = format!(
        "POST /v1/embeddings HTTP/1.1\r\nauthorization: Bearer {}",
        key.expose()
    );
    assert_eq!(ask(&gateway, &unknown, b"{}").status, 404);
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!((ledger.free_calls, ledger.totals.calls), (1, 0));
}

#[test]
fn client_without_network_uses_a_socket() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw.sock");
    let key = mint(&gateway);
    let socket = gateway.listen_local(&path, Some(&key)).unwrap();
    let ask = |head: &str| exchange(knock(&path).unwrap(), head, b"{}").status;
    assert_eq!(
        ask(&format!(
            "POST /v1/messages HTTP/1.1\r\nx-api-key: {}",
            key.expose()
        )),
        200
    );
    assert_eq!(
        ask("POST /v1/messages HTTP/1.1"),
        200,
        "the socket stands for the key"
    );
    assert_eq!(ask("POST /v1/messages HTTP/1.1\r\nx-api-key: wrong"), 401);
    drop(socket);
    assert!(!path.exists());
    assert!(knock(&path).is_err());
}

#[test]
fn errors_of_the_provider_pass_with_their_status_and_text() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let fake = Fake::says(format!(
        "HTTP/1.1 529 Overloaded\r\nretry-after: 7\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let got = ask_message(&gateway, &key, "{}");
    assert_eq!((got.status, got.text().as_str()), (529, body));
    assert_eq!(got.header("retry-after").as_deref(), Some("7"));
    assert_eq!(fake.seen().len(), 1, "no hidden retry");
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(
        (
            ledger.totals.calls_failed,
            ledger.totals.calls_without_usage
        ),
        (1, 0)
    );
}

#[test]
fn unreachable_provider_is_reported() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let upstream = proctor_gateway::HttpUpstream::new(format!("http://{gone}"), None);
    let gateway = start(vec![(
        Provider::Anthropic,
        proctor_gateway::Upstream::Http(upstream),
    )]);
    let key = mint(&gateway);
    assert_eq!(ask_message(&gateway, &key, "{}").status, 502);
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.calls[0].ended, CallEnd::Unreachable);
    let other = format!(
        "POST /v1/responses HTTP/1.1\r\nauthorization: Bearer {}",
        key.expose()
    );
    assert_eq!(
        ask(&gateway, &other, b"{}").status,
        404,
        "no upstream for this provider"
    );
}

#[test]
fn connections_to_the_provider_are_reused() {
    let fake = Fake::says(json_reply("{}"));
    let gateway = gateway(&fake.upstream());
    let spec = KeySpec::default();
    let key = gateway.mint(spec).unwrap();
    for _ in 0..20 {
        assert_eq!(ask_message(&gateway, &key, "{}").status, 200);
    }
    assert_eq!(fake.seen().len(), 20);
    assert!(
        fake.connections() <= 2,
        "one for each worker, not {}",
        fake.connections()
    );
}
