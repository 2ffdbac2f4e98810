//! Usage and cost for all four APIs, also for broken responses.

use std::io::{Read, Write};
use std::time::Duration;

use proctor_gateway::{CallEnd, NanoUsd, Tokens};

use crate::support::*;

/// The truth behind every answer here: 2500 tokens in, 1200 of them cached; 70 out, 10 of them reasoning.
const TRUTH: Tokens = Tokens {
    input: 1300,
    output: 70,
    cache_read: 1200,
    cache_write_5m: 0,
    cache_write_1h: 0,
    reasoning: 10,
};

struct Case {
    path: &'static str,
    model: &'static str,
    stream: &'static str,
    plain: &'static str,
    /// Anthropic does not tell reasoning.
    reasoning: u64,
    cost: i64,
}

const CASES: &[Case] = &[
    Case {
        path: "/v1/messages",
        model: "claude-sonnet-4-5",
        stream: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input_tokens\":1300,\"cache_read_input_tokens\":1200,\"cache_creation_input_tokens\":0,\"output_tokens\":1}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"ü \\\"usage\\\":{}\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":70}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        plain: "{\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input_tokens\":1300,\"cache_read_input_tokens\":1200,\"output_tokens\":70}}",
        reasoning: 0,
        cost: 1300 * 3_000 + 1200 * 300 + 70 * 15_000,
    },
    Case {
        path: "/v1/chat/completions",
        model: "gpt-4o",
        stream: "data: {\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"delta\":{\"content\":\"ü\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":2500,\"completion_tokens\":70,\"prompt_tokens_details\":{\"cached_tokens\":1200},\"completion_tokens_details\":{\"reasoning_tokens\":10}}}\n\ndata: [DONE]\n\n",
        plain: "{\"model\":\"gpt-4o-2024-08-06\",\"usage\":{\"prompt_tokens\":2500,\"completion_tokens\":70,\"prompt_tokens_details\":{\"cached_tokens\":1200},\"completion_tokens_details\":{\"reasoning_tokens\":10}}}",
        reasoning: 10,
        cost: 1300 * 2_500 + 1200 * 1_250 + 70 * 10_000,
    },
    Case {
        path: "/v1/responses",
        model: "gpt-5.5",
        stream: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-5.5\",\"usage\":null}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"ü\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-5.5\",\"usage\":{\"input_tokens\":2500,\"input_tokens_details\":{\"cached_tokens\":1200},\"output_tokens\":70,\"output_tokens_details\":{\"reasoning_tokens\":10}}}}\n\n",
        plain: "{\"model\":\"gpt-5.5\",\"usage\":{\"input_tokens\":2500,\"input_tokens_details\":{\"cached_tokens\":1200},\"output_tokens\":70,\"output_tokens_details\":{\"reasoning_tokens\":10}}}",
        reasoning: 10,
        cost: 1300 * 5_000 + 1200 * 500 + 70 * 30_000,
    },
    Case {
        path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        model: "gemini-2.5-pro",
        stream: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ü\"}]}}],\"usageMetadata\":{\"promptTokenCount\":2500,\"candidatesTokenCount\":1}}\r\n\r\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":2500,\"cachedContentTokenCount\":1200,\"candidatesTokenCount\":60,\"thoughtsTokenCount\":10},\"modelVersion\":\"gemini-2.5-pro\"}\r\n\r\n",
        plain: "[{\"candidates\":[]},\r\n{\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":2500,\"cachedContentTokenCount\":1200,\"candidatesTokenCount\":60,\"thoughtsTokenCount\":10},\"modelVersion\":\"gemini-2.5-pro\"}]",
        reasoning: 10,
        cost: 1300 * 1_250 + 1200 * 125 + 70 * 10_000,
    },
];

fn check(case: &Case, reply: Vec<u8>, expected_body: &str) {
    let fake = Fake::says(reply);
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let head = format!("POST {} HTTP/1.1\r\nx-api-key: {}", case.path, key.expose());
    let body = format!("{{\"model\":\"{}\",\"stream\":true}}", case.model);
    let got = ask(&gateway, &head, body.as_bytes());
    assert_eq!((got.status, got.whole), (200, true), "{got:?}");
    assert_eq!(got.text(), expected_body);
    let ledger = ledger_of(&gateway, &key, 1);
    let truth = Tokens {
        reasoning: case.reasoning,
        ..TRUTH
    };
    assert_eq!(ledger.calls[0].usage, Some(truth), "{}", case.path);
    assert_eq!(ledger.calls[0].ended, CallEnd::Complete, "{}", case.path);
    assert_eq!(
        ledger.totals.cost(),
        Some(NanoUsd(case.cost)),
        "{}",
        case.path
    );
    assert_eq!(ledger.models[case.model].usage, truth);
}

#[test]
fn usage_of_all_apis_is_converted_to_one_convention() {
    for case in CASES {
        check(case, sse_reply(case.stream), case.stream);
        check(case, json_reply(case.plain), case.plain);
    }
}

#[test]
fn stream_of_single_bytes_is_metered_exactly() {
    for case in CASES {
        let mut reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for byte in case.stream.as_bytes() {
            reply.extend_from_slice(&[b"1\r\n", &[*byte][..], b"\r\n"].concat());
        }
        reply.extend_from_slice(b"0\r\n\r\n");
        check(case, reply, case.stream);
    }
}

#[test]
fn cut_stream_is_metered_and_flagged() {
    let case = &CASES[0];
    let seen = case
        .stream
        .split_once("event: message_delta")
        .unwrap()
        .0
        .to_owned();
    let rude = seen.clone();
    let cuts: [Fake; 2] = [
        // The connection breaks.
        Fake::start(move |_, stream| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            write!(stream, "{head}{:x}\r\n{rude}\r\n", rude.len()).unwrap();
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }),
        // It ends politely and too early.
        Fake::says(sse_reply(&seen)),
    ];
    for fake in cuts {
        let gateway = gateway(&fake.upstream());
        let key = mint(&gateway);
        let got = ask_message(
            &gateway,
            &key,
            r#"{"model":"claude-sonnet-4-5","stream":true}"#,
        );
        assert_eq!(got.text(), seen);
        let ledger = ledger_of(&gateway, &key, 1);
        let call = &ledger.calls[0];
        assert_eq!((call.ended, ledger.totals.calls_cut), (CallEnd::Cut, 1));
        let usage = call.usage.unwrap();
        assert_eq!(
            (usage.input, usage.cache_read, usage.output),
            (1300, 1200, 1)
        );
        assert_eq!(
            call.cost_nano_usd,
            Some(NanoUsd(1300 * 3_000 + 1200 * 300 + 15_000))
        );
    }
}

#[test]
fn an_unknown_model_has_tokens_and_no_cost() {
    let fake = Fake::says(json_reply(
        &message_of(5, 6).replace("claude-sonnet-4-5-20250929", "new"),
    ));
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    ask_message(&gateway, &key, r#"{"model":"new"}"#);
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.totals.usage.input, 5);
    assert_eq!(
        (ledger.calls[0].cost_nano_usd, ledger.totals.cost()),
        (None, None)
    );
}

#[test]
fn compressed_response_is_metered_and_stays_compressed() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(CASES[0].stream.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let mut reply = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", packed.len()).into_bytes();
    reply.extend_from_slice(&packed);
    let fake = Fake::says(reply);
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\naccept-encoding: gzip, br\r\nx-api-key: {}",
        key.expose()
    );
    let got = ask(&gateway, &head, br#"{"model":"claude-sonnet-4-5"}"#);
    assert_eq!(got.body, packed);
    assert_eq!(
        fake.seen()[0].header("accept-encoding").as_deref(),
        Some("gzip, br")
    );
    let ledger = ledger_of(&gateway, &key, 1);
    assert_eq!(ledger.calls[0].usage.unwrap().output, 70);
}

#[test]
fn first_byte_is_sent_immediately() {
    let fake = Fake::start(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        write!(stream, "{head}8\r\ndata: 1\n\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(400));
        write!(stream, "1\r\n\n\r\n0\r\n\r\n").unwrap();
    });
    let gateway = gateway(&fake.upstream());
    let key = mint(&gateway);
    let mut client = connect(&gateway);
    let began = std::time::Instant::now();
    write!(
        client,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 2\r\n\r\n{{}}",
        key.expose()
    )
    .unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("data: 1") {
        let mut part = [0; 1024];
        let count = client.read(&mut part).unwrap();
        assert!(count > 0);
        got.extend_from_slice(&part[..count]);
    }
    assert!(
        began.elapsed() < Duration::from_millis(390),
        "{:?}",
        began.elapsed()
    );
}
