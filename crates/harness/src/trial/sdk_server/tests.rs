//! Tests of the SDK server with clients of both protocol forms.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use proctor_record::{outcome::Outcome, record::metrics_file::AgentMetrics};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::oneshot};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};
use tokio_util::sync::CancellationToken;

use super::{SdkServer, Served};

const PATIENT: Duration = Duration::from_secs(20);

/// A server with the task "do it" on its own thread, and its result after it is closed.
async fn server(silence: Duration) -> (u16, oneshot::Receiver<Served>) {
    let (reported, port) = oneshot::channel();
    let (done, result) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut server = SdkServer::listen(0, silence).await.unwrap();
            reported.send(server.port()).unwrap();
            let cancel = CancellationToken::new();
            let mut show = |_: &str| {};
            let ended = server.serve("do it".to_owned(), &mut show, &cancel).await;
            server.close().await;
            done.send(ended).unwrap();
        });
    });
    (port.await.unwrap(), result)
}

struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let url = format!("ws://127.0.0.1:{port}");
        let (stream, _) = client_async(url, stream).await.ok()?;
        Some(Client(stream))
    }

    async fn send(&mut self, message: &Value) {
        let line = Message::text(format!("{message}\n"));
        self.0.send(line).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            other => panic!("expected a message, got {other:?}"),
        }
    }

    /// The code of the next close frame.
    async fn closed(&mut self) -> CloseCode {
        match self.0.next().await {
            Some(Ok(Message::Close(Some(frame)))) => frame.code,
            other => panic!("expected a close frame, got {other:?}"),
        }
    }

    async fn initialize_flat(&mut self) {
        self.send(&json!({"type": "control_request", "subtype": "initialize", "supportedApiVersions": ["1"]}))
            .await;
        let answer = self.read().await;
        assert_eq!(answer["subtype"], "initialize", "{answer}");
        let prompt = self.read().await;
        assert_eq!(
            prompt,
            json!({"type": "user", "content": [{"type": "text", "text": "do it"}]})
        );
    }
}

#[tokio::test]
async fn flat_client_is_served() {
    let (port, serving) = server(PATIENT).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    for tool in ["Read", "Bash", "Read"] {
        client
            .send(&json!({"type": "control_request", "subtype": "can_use_tool", "toolName": tool, "input": {}}))
            .await;
        assert_eq!(
            client.read().await,
            json!({"type": "control_response", "subtype": "can_use_tool", "allowed": true})
        );
        client
            .send(&json!({"type": "assistant", "content": [{"type": "text", "text": "hm"}]}))
            .await;
    }
    client
        .send(&json!({"type": "result", "result": "done", "usage": {"input_tokens": 12_000, "output_tokens": 4500}}))
        .await;
    assert_eq!(client.closed().await, CloseCode::Normal);
    let served = serving.await.unwrap();
    assert_eq!(served.outcome, Outcome::Completed, "{served:?}");
    let expect = AgentMetrics {
        input_tokens: Some(12_000),
        output_tokens: Some(4500),
        cache_read_tokens: Some(0),
        cache_creation_tokens: Some(0),
        turns: Some(3),
        tools_used: Some(vec!["Bash".to_owned(), "Read".to_owned()]),
        total_cost_usd: None,
        duration_ms: None,
    };
    assert_eq!(served.sidecar, Some(expect));
}

#[tokio::test]
async fn missing_figures_of_a_result_are_zeros() {
    let (port, serving) = server(PATIENT).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    client.send(&json!({"type": "result", "result": ""})).await;
    let sidecar = serving.await.unwrap().sidecar.unwrap();
    assert_eq!(
        serde_json::to_value(sidecar).unwrap(),
        json!({
            "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0,
            "cache_creation_tokens": 0, "turns": 0, "tools_used": [],
        })
    );
}

/// A client that waits for the server gets the nested form. After its result it gets a close frame
/// with an error code, is refused once, and only then loses the first connection.
#[tokio::test]
async fn nested_client_cannot_reconnect_after_its_result() {
    let (port, serving) = server(PATIENT).await;
    let mut client = Client::connect(port).await.unwrap();
    let greeting = client.read().await;
    assert_eq!(greeting["request"]["subtype"], "initialize", "{greeting}");
    let answer = json!({"subtype": "success", "request_id": greeting["request_id"]});
    client
        .send(&json!({"type": "control_response", "response": answer}))
        .await;
    let prompt = client.read().await;
    assert_eq!(prompt["message"]["content"][0]["text"], "do it");
    client
        .send(&json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 2}))
        .await;
    // The client library reports an invalid code as a protocol error.
    assert_eq!(client.closed().await, CloseCode::Protocol);
    assert!(
        Client::connect(port).await.is_none(),
        "the client reconnected"
    );
    let served = serving.await.unwrap();
    assert_eq!(served.outcome, Outcome::Completed, "{served:?}");
    assert_eq!(served.sidecar.unwrap().turns, Some(2));
}

#[tokio::test]
async fn second_client_is_refused_while_one_is_served() {
    let (port, serving) = server(PATIENT).await;
    let mut first = Client::connect(port).await.unwrap();
    first.initialize_flat().await;
    assert!(Client::connect(port).await.is_none(), "a second client");
    // A port check such as `nc -z` connects without sending data.
    drop(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    first
        .send(&json!({"type": "result", "result": "done"}))
        .await;
    assert_eq!(first.closed().await, CloseCode::Normal);
    assert_eq!(serving.await.unwrap().outcome, Outcome::Completed);
}

#[tokio::test]
async fn reconnected_client_continues_its_session() {
    let (port, serving) = server(PATIENT).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    drop(client);
    let mut again = loop {
        // The server may not have noticed the lost connection yet.
        match Client::connect(port).await {
            Some(client) => break client,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let result = json!({"type": "result", "result": "done", "usage": {"input_tokens": 1, "output_tokens": 1}});
    again.send(&result).await;
    assert_eq!(
        again.closed().await,
        CloseCode::Normal,
        "the prompt was sent twice"
    );
    assert_eq!(serving.await.unwrap().outcome, Outcome::Completed);
}

#[tokio::test]
async fn malformed_messages_are_skipped() {
    let (port, serving) = server(PATIENT).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"type\":7}",
        "{\"type\":\"control_request\",\"subtype\":[]}",
    ] {
        client.0.send(Message::text(text)).await.unwrap();
    }
    client
        .0
        .send(Message::binary(vec![0xff, 0xfe]))
        .await
        .unwrap();
    client
        .send(&json!({"type": "result", "result": "done"}))
        .await;
    assert_eq!(client.closed().await, CloseCode::Normal);
    assert_eq!(serving.await.unwrap().outcome, Outcome::Completed);
}

#[tokio::test]
async fn silent_client_fails_without_figures() {
    let (port, serving) = server(Duration::from_millis(600)).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    let served = serving.await.unwrap();
    assert_eq!(served.outcome, Outcome::Timeout, "{served:?}");
    assert_eq!(served.sidecar, None, "unknown figures are not 0");
    // A client that disconnects before its result fails, and so does one that never connects.
    let (port, serving) = server(Duration::from_millis(600)).await;
    let mut client = Client::connect(port).await.unwrap();
    client.initialize_flat().await;
    drop(client);
    let served = serving.await.unwrap();
    assert_eq!(served.outcome, Outcome::AgentError, "{served:?}");
    assert!(served.errors[0].contains("did not reconnect"), "{served:?}");
    let (_, serving) = server(Duration::from_millis(100)).await;
    assert_ne!(serving.await.unwrap().outcome, Outcome::Completed);
}
