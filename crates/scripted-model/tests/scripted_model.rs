//! Drives the scripted model over plain TCP, as an agent that knows nothing of this crate would.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proctor_scripted_model::{Answer, RequestKind, Script, ScriptedModel, Usage};
use serde_json::{Value, json};

/// Long enough for a slow machine, short enough to end a test that hangs.
const DEADLINE: Duration = Duration::from_secs(20);

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// The names of the streamed events.
    fn events(&self) -> Vec<&str> {
        let names = self.body.lines();
        names
            .filter_map(|line| line.strip_prefix("event: "))
            .collect()
    }
}

fn connect(model: &ScriptedModel) -> TcpStream {
    let url = model.url();
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends a request and reads until the server closes; says how the reading ended.
fn exchange(model: &ScriptedModel, head: &str, body: &str) -> Result<Response, String> {
    let mut stream = connect(model);
    let length = body.len();
    write!(
        stream,
        "{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).map_err(|e| e.to_string())? == 0 {
            return Err(format!("closed in the head: {head:?}"));
        }
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.contains("transfer-encoding: chunked") {
        read_chunks(&mut reader)?
    } else {
        let mut body = String::new();
        reader
            .read_to_string(&mut body)
            .map_err(|e| e.to_string())?;
        body
    };
    Ok(Response { status, head, body })
}

fn read_chunks(reader: &mut impl BufRead) -> Result<String, String> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).map_err(|e| e.to_string())?;
        let so_far = String::from_utf8_lossy(&body).into_owned();
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            return Err(format!("cut: {so_far}"));
        };
        let mut chunk = vec![0; size + 2];
        if reader.read_exact(&mut chunk).is_err() {
            return Err(format!("cut: {so_far}"));
        }
        if size == 0 {
            return String::from_utf8(body).map_err(|e| e.to_string());
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

fn ask(model: &ScriptedModel, extra: &Value) -> Result<Response, String> {
    let mut body = json!({"model": "m-1", "messages": [{"role": "user", "content": "go"}]});
    let extra = extra.as_object().expect("an object").clone();
    body.as_object_mut().unwrap().extend(extra);
    exchange(
        model,
        "POST /v1/messages?beta=true HTTP/1.1\r\nx-api-key: k-1",
        &body.to_string(),
    )
}

fn text(response: &Response) -> String {
    response.json()["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn answers_are_in_order_and_end_with_done() {
    let script = Script::new([Answer::text("one"), Answer::text("two")]);
    let model = ScriptedModel::start_blocking(script).unwrap();
    let said: Vec<String> = (0..4)
        .map(|_| text(&ask(&model, &json!({})).unwrap()))
        .collect();
    assert_eq!(said, ["one", "two", "done", "done"]);
    let answers: Vec<_> = model.requests().iter().map(|r| r.answer).collect();
    assert_eq!(answers, [Some(0), Some(1), None, None]);
}

#[test]
fn a_stream_has_the_events_of_the_real_api_in_order() {
    let usage = Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_creation: 4,
        reasoning: 0,
    };
    let script = Script::new([Answer::text("hi").usage(usage)]);
    let model = ScriptedModel::start_blocking(script).unwrap();
    let response = ask(&model, &json!({"stream": true})).unwrap();
    assert!(response.head.contains("content-type: text/event-stream"));
    assert_eq!(
        response.events(),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(response.body.contains(r#""cache_creation_input_tokens":4"#));
}

#[test]
fn a_refusal_has_status_shape_and_retry_after() {
    let refusal = Answer::error(429).retry_after(7);
    let model = ScriptedModel::start_blocking(Script::new([refusal, Answer::text("now")])).unwrap();
    let response = ask(&model, &json!({"stream": true})).unwrap();
    assert_eq!(response.status, 429);
    assert!(
        response.head.contains("retry-after: 7"),
        "{}",
        response.head
    );
    assert_eq!(response.json()["error"]["type"], "rate_limit_error");
    assert_eq!(text(&ask(&model, &json!({})).unwrap()), "now");
}

#[test]
fn stream_is_cut_after_the_configured_events() {
    let script = Script::new([Answer::text("hi").cut_after(2).times(2)]);
    let model = ScriptedModel::start_blocking(script).unwrap();
    let streamed = ask(&model, &json!({"stream": true}))
        .err()
        .expect("a broken stream");
    assert!(
        streamed.contains("event: content_block_start"),
        "{streamed}"
    );
    assert!(!streamed.contains("content_block_delta"), "{streamed}");
    let plain = ask(&model, &json!({})).err().expect("a broken body");
    assert!(plain.contains("cut: {"), "{plain}");
}

#[test]
fn a_hanging_answer_ends_with_the_server() {
    let model = ScriptedModel::start_blocking(Script::new([Answer::hang()])).unwrap();
    let mut stream = connect(&model);
    let body = r#"{"model":"m","messages":[]}"#;
    let length = body.len();
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let began = Instant::now();
    while model.requests().is_empty() && began.elapsed() < DEADLINE {
        std::thread::sleep(Duration::from_millis(5));
    }
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    assert!(stream.read(&mut [0]).is_err(), "an answer came");
    let began = Instant::now();
    drop(model);
    assert!(began.elapsed() < Duration::from_secs(10), "the drop hung");
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut rest = Vec::new();
    // Reset or closed: both are an end.
    let _ = stream.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("done"));
}

#[test]
fn delay_and_pace_are_kept() {
    let delayed = Answer::text("late").after(Duration::from_millis(150));
    let script = Script::new([delayed, Answer::text("slow").pace_ms(40)]);
    let model = ScriptedModel::start_blocking(script).unwrap();
    let began = Instant::now();
    ask(&model, &json!({})).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(150));
    let began = Instant::now();
    let events = ask(&model, &json!({"stream": true}))
        .unwrap()
        .events()
        .len();
    assert_eq!(events, 6);
    assert!(began.elapsed() >= Duration::from_millis(5 * 40));
}

#[test]
fn probes_counts_and_unknown_paths_take_no_answer() {
    let model = ScriptedModel::start_blocking(Script::new([Answer::text("one")])).unwrap();
    for probe in [
        "HEAD / HTTP/1.1",
        "HEAD /api/hello HTTP/1.1",
        "GET / HTTP/1.1",
    ] {
        assert_eq!(exchange(&model, probe, "").unwrap().status, 200);
    }
    let count = exchange(
        &model,
        "POST /v1/messages/count_tokens?beta=true HTTP/1.1",
        r#"{"model":"m"}"#,
    );
    assert!(count.unwrap().json()["input_tokens"].is_u64());
    let unknown = exchange(&model, "POST /v1/complete HTTP/1.1", "{}").unwrap();
    assert_eq!(
        (unknown.status, unknown.json()["error"]["type"].as_str()),
        (404, Some("not_found_error"))
    );
    let broken = exchange(&model, "POST /v1/messages HTTP/1.1", "{nonsense").unwrap();
    assert_eq!(broken.status, 400);
    assert_eq!(text(&ask(&model, &json!({})).unwrap()), "one");
    assert_eq!(model.turns().len(), 1);
}

#[test]
fn side_request_of_claude_code_takes_no_answer() {
    let model = ScriptedModel::start_blocking(Script::new([Answer::text("one")])).unwrap();
    let head = "POST /v1/messages HTTP/1.1\r\nuser-agent: claude-cli/2.1.30 (external, sdk-cli)";
    let side = exchange(&model, head, r#"{"model":"small","messages":[]}"#).unwrap();
    assert_eq!(text(&side), "done");
    assert_eq!(model.requests()[0].kind, RequestKind::Side);
    assert_eq!(text(&ask(&model, &json!({})).unwrap()), "one");
}

#[test]
fn requests_can_be_inspected() {
    let model = ScriptedModel::start_blocking(Script::default()).unwrap();
    let tools = json!([{"name": "Bash"}]);
    ask(
        &model,
        &json!({"temperature": 0.5, "system": "be brief", "tools": tools}),
    )
    .unwrap();
    let request = &model.requests()[0];
    assert_eq!(request.path, "/v1/messages?beta=true");
    assert_eq!(request.api_key(), Some("k-1"));
    assert_eq!(request.model(), Some("m-1"));
    assert_eq!(request.temperature(), Some(0.5));
    assert_eq!(request.system_text(), "be brief");
    assert_eq!(request.last_user_text().as_deref(), Some("go"));
    assert_eq!(request.tool_names(), ["Bash"]);
}

#[test]
fn prompt_of_many_megabytes_is_accepted() {
    let model = ScriptedModel::start_blocking(Script::default()).unwrap();
    let prompt = "x".repeat(5_000_000);
    let messages = json!([{"role": "user", "content": prompt}]);
    assert_eq!(
        ask(&model, &json!({"messages": messages})).unwrap().status,
        200
    );
    assert_eq!(
        model.turns()[0].last_user_text().map(|t| t.len()),
        Some(5_000_000)
    );
}

#[tokio::test]
async fn server_runs_on_the_callers_runtime() {
    let model = ScriptedModel::start(Script::new([Answer::text("one")]))
        .await
        .unwrap();
    let (model, said) = tokio::task::spawn_blocking(move || {
        let said = text(&ask(&model, &json!({})).unwrap());
        (model, said)
    })
    .await
    .unwrap();
    assert_eq!(said, "one");
    let address = model.url();
    drop(model);
    let address = address.strip_prefix("http://").unwrap().to_owned();
    tokio::time::timeout(DEADLINE, async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the port is closed after the drop");
}
