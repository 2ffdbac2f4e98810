//! The forward proxy: lets a client through to the hosts that its key allows, and nowhere else.

mod hello;
mod rules;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) use rules::HostRules;

use crate::body::Body;
use crate::handler::{Door, Worker};
use crate::hub::Hub;
use crate::key::Key;

/// Whoever opens a tunnel and says nothing for so long is cut off.
const HELLO_TIME: Duration = Duration::from_secs(20);

/// A line in the call log about a tunnel.
#[derive(Serialize)]
struct Entry<'a> {
    at: Timestamp,
    proxy: &'static str,
    host: &'a str,
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<(u64, u64)>,
}

/// A tunnel that may be opened.
struct Tunnel {
    hub: Arc<Hub>,
    key: Arc<Key>,
    host: String,
    port: u16,
    /// The rule named the address itself, so there is no name to check.
    by_address: bool,
}

/// Answers CONNECT.
pub(crate) async fn handle(
    worker: &Arc<Worker>,
    door: &Door,
    request: Request<Incoming>,
) -> Response<Body> {
    let Some(key) = key_of(worker, door, request.headers()) else {
        let response = Response::builder()
            .status(407)
            .header(PROXY_AUTHENTICATE, "Basic realm=\"proctor\"")
            .body(Body::from(
                "the proxy wants a key as its password\n".to_owned(),
            ));
        return response.expect("a constant status and a constant header");
    };
    let authority = request.uri().authority();
    let Some((host, port)) = authority.and_then(|a| Some((a.host(), a.port_u16()?))) else {
        return text(400, "CONNECT wants host:port\n");
    };
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let by_address = host.parse::<IpAddr>().is_ok();
    let tunnel = Tunnel {
        hub: Arc::clone(&worker.hub),
        key,
        host,
        port,
        by_address,
    };
    if !tunnel.key.hosts.allow(&tunnel.host) {
        return tunnel.refuse("the host is not allowed");
    }
    let Some(permit) = tunnel.key.bounds.tunnel() else {
        return tunnel.refuse("too many tunnels of this key are open");
    };
    match tunnel.open(worker).await {
        Ok(Some(server)) => {
            worker.tasks.spawn(async move {
                let _permit = permit;
                let revoked = tunnel.key.revoked.clone();
                revoked
                    .run_until_cancelled_owned(tunnel.run(request, server))
                    .await;
            });
            Response::new(Body::default())
        }
        Ok(None) => tunnel.refuse("the host's address is not allowed"),
        Err(error) => {
            tunnel.log("unreachable", Some(&error.to_string()), None);
            text(502, "the host cannot be reached\n")
        }
    }
}

/// Refuses a plain request through the proxy: there is no name in it that a server has to prove.
pub(crate) fn refuse_plain<B>(
    worker: &Worker,
    door: &Door,
    request: &Request<B>,
) -> Response<Body> {
    let host = request
        .uri()
        .host()
        .unwrap_or_default()
        .to_ascii_lowercase();
    if let Some(key) = key_of(worker, door, request.headers()) {
        let port = request.uri().port_u16().unwrap_or(80);
        let hub = Arc::clone(&worker.hub);
        return Tunnel {
            hub,
            key,
            host,
            port,
            by_address: false,
        }
        .refuse("plain HTTP does not pass, only TLS does");
    }
    text(403, "the proxy passes on TLS only\n")
}

/// The key in the proxy's password, or that of the door.
fn key_of(worker: &Worker, door: &Door, headers: &HeaderMap) -> Option<Arc<Key>> {
    let key = match headers.get(PROXY_AUTHORIZATION) {
        Some(value) => {
            let (scheme, shown) = value.to_str().ok()?.split_once(' ')?;
            let secret = if scheme.eq_ignore_ascii_case("basic") {
                let pair = String::from_utf8(STANDARD.decode(shown.trim()).ok()?).ok()?;
                pair.split_once(':')?.1.to_owned()
            } else {
                shown.trim().to_owned()
            };
            worker.hub.keys.find(&secret)
        }
        None => door.keyless(),
    };
    key.filter(|key| !key.is_closed())
}

impl Tunnel {
    /// Connects to the host, unless all its addresses are forbidden.
    async fn open(&self, worker: &Worker) -> io::Result<Option<TcpStream>> {
        let dialer = worker.pool.dialer();
        let mut addresses = dialer.resolve(&self.host).await?;
        addresses.retain(|address| self.key.hosts.allow_address(*address));
        if addresses.is_empty() {
            return Ok(None);
        }
        dialer.open(&addresses, self.port).await.map(Some)
    }

    async fn run(&self, request: Request<Incoming>, mut server: TcpStream) {
        let Ok(upgraded) = hyper::upgrade::on(request).await else {
            return;
        };
        let mut client = TokioIo::new(upgraded);
        if !self.by_address {
            let hello = tokio::time::timeout(HELLO_TIME, hello::read(&mut client)).await;
            let Ok(Ok(hello)) = hello else {
                self.deny("no TLS greeting came");
                return;
            };
            if hello.name.as_deref() != Some(self.host.as_str()) {
                self.deny("the TLS greeting names another host");
                return;
            }
            if server.write_all(&hello.bytes).await.is_err() {
                return;
            }
        }
        let copied = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        self.log("tunnel", None, copied.ok());
        let _ = client.shutdown().await;
        // What the server still had to say is said.
        let _ = server.read(&mut [0]).await;
    }

    fn refuse(&self, reason: &str) -> Response<Body> {
        self.deny(reason);
        text(403, &format!("{reason}: {}\n", self.host))
    }

    fn deny(&self, reason: &str) {
        *self
            .key
            .ledger()
            .refused_hosts
            .entry(self.host.clone())
            .or_default() += 1;
        self.log("refused", Some(reason), None);
    }

    fn log(&self, proxy: &'static str, reason: Option<&str>, bytes: Option<(u64, u64)>) {
        let (host, port) = (self.host.as_str(), self.port);
        let entry = Entry {
            at: Timestamp::now(),
            proxy,
            host,
            port,
            reason,
            bytes,
        };
        if let Some(log) = &self.key.log
            && let Ok(line) = serde_json::to_string(&entry)
        {
            self.hub
                .log
                .write(log, self.hub.redactor.text(&line).into_owned());
        }
    }
}

fn text(status: u16, message: &str) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .body(Body::from(message.to_owned()));
    response.expect("a status of three digits")
}
