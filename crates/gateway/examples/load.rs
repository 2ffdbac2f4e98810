//! Measures the gateway beside the direct path: upstream, gateway and clients in one process.
//!
//! `cargo run --release -p proctor-gateway --example load`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for developers"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use proctor_gateway::{Gateway, GatewayConfig, HttpUpstream, KeySpec, Provider, Upstream};

const MESSAGE: &str = r#"{"id":"msg_1","type":"message","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hello"}],"usage":{"input_tokens":10,"output_tokens":5}}"#;

fn main() {
    let began = Instant::now();
    let upstream = fake_upstream();
    let http = Upstream::Http(HttpUpstream::new(format!("http://{upstream}"), None));
    let upstreams = vec![(Provider::Anthropic, http)];
    let gateway = Gateway::start(GatewayConfig {
        upstreams,
        ..GatewayConfig::default()
    })
    .unwrap();
    println!("start {:?}, resident {} KB", began.elapsed(), resident_kb());
    let key = gateway.mint(KeySpec::default()).unwrap();
    let key = key.expose();
    println!(
        "{:24} {:>8} {:>9} {:>9}",
        "load", "req/s", "p50 ms", "p99 ms"
    );
    for (name, stream, size) in [
        ("json", false, 0),
        ("json 200 KB", false, 200 << 10),
        ("sse 200", true, 0),
    ] {
        for clients in [1, 16, 64] {
            for (way, address) in [("direct", upstream), ("gateway", gateway.address())] {
                let request = request(key, stream, size);
                let mut times = run(address, &request, clients);
                times.sort_unstable();
                let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
                let rate = times.len() as f64 / 2.0;
                let name = format!("{name} x{clients} {way}");
                println!("{name:24} {rate:8.0} {:9.3} {:9.3}", at(50), at(99));
            }
        }
    }
    println!("resident {} KB", resident_kb());
}

fn request(key: &str, stream: bool, size: usize) -> Vec<u8> {
    let prompt = "lorem ipsum dolor ".repeat(size / 18 + 1);
    let body = format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":100,"stream":{stream},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Two seconds of requests from so many clients; how long each took.
fn run(address: SocketAddr, request: &[u8], clients: usize) -> Vec<Duration> {
    let until = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let mut buffer = vec![0; 256 << 10];
                    let mut times = Vec::new();
                    while Instant::now() < until {
                        let began = Instant::now();
                        stream.write_all(request).unwrap();
                        read_answer(&mut stream, &mut buffer);
                        times.push(began.elapsed());
                    }
                    times
                })
            })
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    })
}

/// Reads one answer: both kinds end in a way that is easy to see.
fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&buffer[..filled]));
        filled += count;
        let end = &buffer[..filled];
        if end.ends_with(b"0\r\n\r\n") || end.ends_with(b"\"output_tokens\":5}}") {
            return;
        }
    }
}

fn fake_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let json = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{MESSAGE}",
        MESSAGE.len()
    );
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let json = json.clone();
            thread::spawn(move || answer_all(stream, json.as_bytes()));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, json: &[u8]) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let mut request = Vec::new();
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..count]);
        if !request.ends_with(b"}]}") {
            continue;
        }
        let head = &request[..request.len().min(1000)];
        if memchr::memmem::find(head, b"\"stream\":true").is_some() {
            answer_events(&mut stream);
        } else {
            stream.write_all(json).unwrap();
        }
        request.clear();
    }
}

fn answer_events(stream: &mut TcpStream) {
    let send = |stream: &mut TcpStream, event: &str| {
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).unwrap();
    };
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    send(
        stream,
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n",
    );
    for _ in 0..200 {
        send(
            stream,
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n",
        );
    }
    send(
        stream,
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":200}}\n\n",
    );
    send(
        stream,
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    stream.write_all(b"0\r\n\r\n").unwrap();
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
