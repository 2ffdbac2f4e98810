//! A provider that answers at once, or paced when the prompt says so.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;

const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}}"#;

/// The marker in a prompt whose response takes two seconds.
pub const PACED: &str = "take your time";
/// Deltas in a streamed answer.
const DELTAS: u32 = 200;
/// Between two of them in a paced one.
const PAUSE: Duration = Duration::from_millis(10);

pub fn serve(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for stream in listener.incoming().flatten() {
        thread::spawn(move || answer_all(stream));
    }
}

fn answer_all(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let json = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{MESSAGE}",
        MESSAGE.len()
    );
    let mut buffer = vec![0; 512 << 10];
    while let Some(body) = read_request(&mut stream, &mut buffer) {
        let has = |text: &str| memmem::find(body, text.as_bytes()).is_some();
        let answered = if has("\"stream\":true") || has("\"stream\": true") {
            let pause = has(PACED).then_some(PAUSE);
            answer_events(&mut stream, pause)
        } else {
            stream.write_all(json.as_bytes())
        };
        if answered.is_err() {
            return;
        }
    }
}

/// The body of the next request.
fn read_request<'a>(stream: &mut TcpStream, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).ok().filter(|n| *n > 0)?;
        filled += count;
        let Some(head) = memmem::find(&buffer[..filled], b"\r\n\r\n") else {
            continue;
        };
        let end = head + 4 + super::client::content_length(&buffer[..head]).unwrap_or(0);
        while filled < end {
            filled += stream.read(&mut buffer[filled..]).ok().filter(|n| *n > 0)?;
        }
        return Some(&buffer[head + 4..end]);
    }
}

fn chunk(kind: &str, data: &str) -> String {
    let event = format!("event: {kind}\ndata: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn answer_events(stream: &mut TcpStream, pause: Option<Duration>) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let mut send = |kind: &str, data: &str| stream.write_all(chunk(kind, data).as_bytes());
    send(
        "message_start",
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}"#,
    )?;
    send(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    )?;
    // By the clock: what one delta is late, the next is not.
    let began = Instant::now();
    for number in 1..=DELTAS {
        if let Some(pause) = pause {
            thread::sleep((began + pause * number).saturating_duration_since(Instant::now()));
        }
        send(
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words"}}"#,
        )?;
    }
    send(
        "content_block_stop",
        r#"{"type":"content_block_stop","index":0}"#,
    )?;
    send(
        "message_delta",
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":200}}"#,
    )?;
    send("message_stop", r#"{"type":"message_stop"}"#)?;
    stream.write_all(b"0\r\n\r\n")
}
