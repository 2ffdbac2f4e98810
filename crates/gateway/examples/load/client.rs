//! Clients that ask one thing after the other, each on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;

use super::upstream::PACED;

/// The requests of clients.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    pub stream: bool,
    pub paced: bool,
    /// Bytes of the prompt.
    pub size: usize,
}

impl Load {
    pub fn request(&self, key: &str) -> Vec<u8> {
        let Load { stream, size, .. } = self;
        let begin = if self.paced { PACED } else { "hello" };
        let prompt = "lorem ipsum dolor ".repeat(size / 18);
        let body = format!(
            r#"{{"model":"claude-sonnet-4-5","max_tokens":100,"stream":{stream},"messages":[{{"role":"user","content":"{begin} {prompt}"}}]}}"#
        );
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nx-api-key: {key}\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// How long each request took, and all of them together.
pub struct Seen {
    pub times: Vec<Duration>,
    pub all: Duration,
}

/// Requests from so many clients for so long; at least one from each.
pub fn run(address: SocketAddr, request: &[u8], clients: usize, time: Duration) -> Seen {
    let began = Instant::now();
    let times = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|_| scope.spawn(move || one(address, request, began + time)))
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    });
    Seen {
        times,
        all: began.elapsed(),
    }
}

fn one(address: SocketAddr, request: &[u8], until: Instant) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let mut times = Vec::new();
    loop {
        let began = Instant::now();
        stream.write_all(request).unwrap();
        read_answer(&mut stream, &mut buffer);
        times.push(began.elapsed());
        if Instant::now() >= until {
            return times;
        }
    }
}

fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    let mut end = None;
    loop {
        let count = stream.read(&mut buffer[filled..]).unwrap();
        filled += count;
        let seen = &buffer[..filled];
        assert!(count > 0, "{}", String::from_utf8_lossy(seen));
        if end.is_none()
            && let Some(head) = memmem::find(seen, b"\r\n\r\n")
        {
            let is_good = seen.starts_with(b"HTTP/1.1 200");
            assert!(is_good, "{}", String::from_utf8_lossy(seen));
            // Without a length it is chunked.
            end = Some(content_length(&seen[..head]).map(|length| head + 4 + length));
        }
        let is_over = match end {
            None => false,
            Some(Some(end)) => filled >= end,
            Some(None) => seen.ends_with(b"0\r\n\r\n"),
        };
        if is_over {
            return;
        }
    }
}

/// The body length according to a response head.
pub fn content_length(head: &[u8]) -> Option<usize> {
    let head = String::from_utf8_lossy(head);
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse().ok())?
    })
}
