//! A script as the upstream of a gateway, on all four wires.

use std::sync::Arc;

use proctor_gateway::{CallEnd, Gateway, Provider, Tokens, Upstream, VirtualKey};
use proctor_scripted_model::{Answer, RequestKind, Script, Usage};
use serde_json::{Value, json};

use crate::support::*;

const USAGE: Usage = Usage {
    input: 1300,
    output: 70,
    cache_read: 1200,
    cache_creation: 0,
    reasoning: 10,
};

fn scripted(script: Script) -> Gateway {
    let script = Arc::new(script);
    let all = Provider::ALL.map(|provider| (provider, Upstream::Script(Arc::clone(&script))));
    start(all.to_vec())
}

fn post(gateway: &Gateway, key: &VirtualKey, path: &str, body: &Value) -> Got {
    let head = format!("POST {path} HTTP/1.1\r\nx-api-key: {}", key.expose());
    ask(gateway, &head, body.to_string().as_bytes())
}

/// Each wire's path, streaming and not, with a request that offers a tool for files.
fn wires() -> Vec<(&'static str, &'static str, Value)> {
    let schema = json!({"type": "object", "properties": {"path": {}, "content": {}}});
    let function = json!({"name": "write_file", "parameters": schema});
    let mut flat = function.clone();
    flat["type"] = "function".into();
    vec![
        (
            "/v1/messages",
            "/v1/messages",
            json!({"model": "claude-sonnet-4-5", "messages": [],
                "tools": [{"name": "Write", "input_schema": schema}]}),
        ),
        (
            "/v1/chat/completions",
            "/v1/chat/completions",
            json!({"model": "gpt-4o", "messages": [],
                "tools": [{"type": "function", "function": function}]}),
        ),
        (
            "/v1/responses",
            "/v1/responses",
            json!({"model": "gpt-5.5", "input": "go", "tools": [flat]}),
        ),
        (
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            "/v1beta/models/gemini-2.5-pro:generateContent",
            json!({"contents": [], "tools": [{"functionDeclarations": [function]}]}),
        ),
    ]
}

#[test]
fn script_is_metered_alike_on_every_api() {
    for (streaming, plain, request) in wires() {
        let answers = || Answer::write_file("a.txt", "content-42").usage(USAGE);
        let gateway = scripted(Script::new([answers(), answers()]));
        let key = mint(&gateway);
        let mut stream_request = request.clone();
        stream_request["stream"] = true.into();
        let streamed = post(&gateway, &key, streaming, &stream_request);
        assert!(
            streamed.whole && streamed.head.contains("text/event-stream"),
            "{streamed:?}"
        );
        let whole = post(&gateway, &key, plain, &request);
        for got in [&streamed, &whole] {
            let text = got.text();
            assert!(
                text.contains("content-42") && text.contains("a.txt"),
                "{text}"
            );
            assert!(text.contains("rite"), "the client's own tool: {text}");
        }
        let ledger = ledger_of(&gateway, &key, 2);
        let reasoning = if plain == "/v1/messages" { 0 } else { 10 };
        let one = Tokens {
            input: 1300,
            output: 70,
            cache_read: 1200,
            reasoning,
            ..Tokens::default()
        };
        for call in &ledger.calls {
            assert_eq!(
                (call.usage, call.ended),
                (Some(one), CallEnd::Complete),
                "{plain}"
            );
        }
        assert!(ledger.totals.cost().unwrap().0 > 0);
    }
}

#[test]
fn each_key_plays_the_script_from_the_beginning() {
    let gateway = scripted(Script::new([Answer::text("first"), Answer::text("second")]));
    let body = json!({"model": "m", "messages": []});
    for _ in 0..2 {
        let key = mint(&gateway);
        assert!(
            post(&gateway, &key, "/v1/messages", &body)
                .text()
                .contains("first")
        );
        assert!(
            post(&gateway, &key, "/v1/chat/completions", &body)
                .text()
                .contains("second")
        );
        let requests = gateway.scripted_requests(&key, Provider::Anthropic);
        assert_eq!(
            requests.len(),
            2,
            "providers with the same script share one performance"
        );
        assert_eq!(requests[0].kind, RequestKind::Turn);
    }
}

#[test]
fn errors_delays_and_cuts_of_a_script_reach_the_client() {
    let script = Script::new([
        Answer::error(429).retry_after(3),
        Answer::text("half of it").cut_after(2).usage(USAGE),
    ]);
    for (streaming, _, mut request) in wires() {
        let gateway = scripted(script.clone());
        let key = mint(&gateway);
        request["stream"] = true.into();
        let refused = post(&gateway, &key, streaming, &request);
        assert_eq!(refused.status, 429, "{streaming}");
        assert_eq!(refused.header("retry-after").as_deref(), Some("3"));
        assert!(
            refused.json()["error"]["message"].is_string(),
            "{streaming}"
        );
        // The shared pause of Retry-After is for providers, not for scripts.
        let cut = post(&gateway, &key, streaming, &request);
        if streaming.contains("gemini") {
            // One event says it all there.
            continue;
        }
        assert!(!cut.whole, "{streaming}: {cut:?}");
        let ledger = ledger_of(&gateway, &key, 2);
        assert_eq!(ledger.calls[1].ended, CallEnd::Cut);
    }
}

#[test]
fn a_script_can_be_written_down() {
    let script: Script = serde_json::from_value(json!({"answers": [
        {"message": {"content": [{"write_file": {"path": "a", "content": "b"}}, {"run_command": "ls"}],
            "usage": {"output": 3, "reasoning": 1}}},
        {"error": {"status": 529}, "delay_ms": 1},
    ]}))
    .unwrap();
    let gateway = scripted(script);
    let key = mint(&gateway);
    let body = json!({"model": "m", "messages": [], "tools": [
        {"name": "Bash", "input_schema": {"properties": {"command": {}}}},
    ]});
    let content = post(&gateway, &key, "/v1/messages", &body).json()["content"].clone();
    assert_eq!(
        content[0]["input"],
        json!({"command": "printf %s 'b' > 'a'"})
    );
    assert_eq!(content[1]["input"], json!({"command": "ls"}));
    assert_eq!(post(&gateway, &key, "/v1/messages", &body).status, 529);
}
