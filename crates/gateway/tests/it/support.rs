//! An upstream that answers with given bytes, and a client that returns raw bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proctor_gateway::{
    Gateway, GatewayConfig, HttpUpstream, KeySpec, Ledger, Provider, Secret, Upstream, VirtualKey,
};

/// Long enough for a slow machine, short enough to end a test that hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The API key, which only the upstream may see.
pub(crate) const REAL_KEY: &str = "sk-real-canary-0123456789";

/// A request as it reached the upstream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        header(&self.head, name)
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.to_owned())
}

/// Answers one request on its connection.
pub(crate) type Script = Arc<dyn Fn(&Seen, &mut TcpStream) + Send + Sync>;

/// An upstream on loopback. Its threads end with the test's process.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    /// Answers every request like this, on connections that stay open.
    pub(crate) fn start(answer: impl Fn(&Seen, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Script = Arc::new(answer);
        let connections = Arc::new(AtomicUsize::new(0));
        let (all, count) = (Arc::clone(&seen), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let (answer, all) = (Arc::clone(&answer), Arc::clone(&all));
                thread::spawn(move || serve(stream, &answer, &all));
            }
        });
        Self {
            address,
            seen,
            connections,
        }
    }

    /// Answers every request with these bytes.
    pub(crate) fn says(reply: impl Into<Vec<u8>>) -> Self {
        let reply = reply.into();
        Self::start(move |_, stream| stream.write_all(&reply).unwrap_or_default())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn upstream(&self) -> HttpUpstream {
        HttpUpstream::new(
            format!("http://{}", self.address),
            Some(Secret::new(REAL_KEY)),
        )
    }
}

fn serve(mut stream: TcpStream, answer: &Script, all: &Mutex<Vec<Seen>>) {
    stream.set_nodelay(true).unwrap();
    while let Some(seen) = read_request(&mut stream) {
        all.lock().unwrap().push(seen.clone());
        answer(&seen, &mut stream);
    }
}

fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at;
        }
        read_more(stream, &mut bytes)?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
    while bytes.len() < end + 4 + length {
        read_more(stream, &mut bytes)?;
    }
    Some(Seen {
        head,
        body: bytes[end + 4..].to_vec(),
    })
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut part = [0; 8192];
    let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
    bytes.extend_from_slice(&part[..count]);
    Some(())
}

/// A JSON answer with its length.
pub(crate) fn json_reply(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A stream of events in chunks of its own bytes.
pub(crate) fn sse_reply(body: &str) -> Vec<u8> {
    let mut reply =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    write!(reply, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).unwrap();
    reply
}

/// A gateway with this upstream for all providers.
pub(crate) fn gateway(upstream: &HttpUpstream) -> Gateway {
    let all = Provider::ALL.map(|provider| (provider, Upstream::Http(upstream.clone())));
    start(all.to_vec())
}

pub(crate) fn start(upstreams: Vec<(Provider, Upstream)>) -> Gateway {
    let config = GatewayConfig {
        upstreams,
        workers: Some(2),
        ..GatewayConfig::default()
    };
    Gateway::start(config).unwrap()
}

pub(crate) fn mint(gateway: &Gateway) -> VirtualKey {
    gateway
        .mint(KeySpec {
            label: "test".to_owned(),
            ..KeySpec::default()
        })
        .unwrap()
}

/// The response that a client got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The answer ended as it should.
    pub(crate) whole: bool,
}

impl Got {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        header(&self.head, name)
    }
}

pub(crate) fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request with these lines of a head, and reads the answer to its end.
pub(crate) fn ask(gateway: &Gateway, head: &str, body: &[u8]) -> Got {
    exchange(connect(gateway), head, body)
}

/// The same over any connection.
pub(crate) fn exchange(mut stream: impl Read + Write, head: &str, body: &[u8]) -> Got {
    let length = body.len();
    let head =
        format!("{head}\r\nhost: gw\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut bytes = Vec::new();
    let clean = stream.read_to_end(&mut bytes).is_ok();
    parse(&bytes, clean)
}

/// Connects to a local socket.
#[cfg(unix)]
pub(crate) fn knock(path: &std::path::Path) -> std::io::Result<std::os::unix::net::UnixStream> {
    std::os::unix::net::UnixStream::connect(path)
}

/// Connects to a local socket: a port that wants to hear what stands in the file after its number.
#[cfg(windows)]
pub(crate) fn knock(path: &std::path::Path) -> std::io::Result<std::net::TcpStream> {
    let file = std::fs::read(path)?;
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", u16::from_le_bytes([file[0], file[1]])))?;
    stream.write_all(&file[2..])?;
    Ok(stream)
}

/// Asks for a message with this key.
pub(crate) fn ask_message(gateway: &Gateway, key: &VirtualKey, body: &str) -> Got {
    let head = format!("POST /v1/messages HTTP/1.1\r\nx-api-key: {}", key.expose());
    ask(gateway, &head, body.as_bytes())
}

fn parse(bytes: &[u8], clean: bool) -> Got {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let rest = &bytes[end + 4..];
    let (body, whole) = if header(&head, "transfer-encoding").as_deref() == Some("chunked") {
        dechunk(rest)
    } else {
        let length = header(&head, "content-length").and_then(|text| text.parse().ok());
        (
            rest.to_vec(),
            length.is_none_or(|length: usize| length == rest.len()),
        )
    };
    Got {
        status,
        head,
        body,
        whole: whole && clean,
    }
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|part| part == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            return (body, true);
        }
        let here = size.min(rest.len());
        body.extend_from_slice(&rest[..here]);
        if rest.len() < size + 2 {
            return (body, false);
        }
        rest = &rest[size + 2..];
    }
}

/// Waits until the ledger is as it should be, and gives it.
pub(crate) fn ledger_when(
    gateway: &Gateway,
    key: &VirtualKey,
    ready: impl Fn(&Ledger) -> bool,
) -> Ledger {
    let began = Instant::now();
    loop {
        let ledger = gateway.ledger(key).unwrap();
        if ready(&ledger) {
            return ledger;
        }
        assert!(began.elapsed() < DEADLINE, "never ready: {ledger:#?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The ledger once so many calls are in it.
pub(crate) fn ledger_of(gateway: &Gateway, key: &VirtualKey, calls: usize) -> Ledger {
    ledger_when(gateway, key, |ledger| ledger.calls.len() == calls)
}

/// The whole answer of a model that used so much, as Anthropic has it.
pub(crate) fn message_of(input: u64, output: u64) -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","model":"claude-sonnet-4-5-20250929","content":[],"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
    )
}
