//! The forward proxy: connects clients to the hosts that their key allows.

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

use super::tls_hello;
use super::worker::{ListenerAccess, Worker};
use crate::call::Body;
use crate::key::Key;
use crate::state::GatewayState;

/// How long a client may take to send its TLS hello.
const HELLO_TIME: Duration = Duration::from_secs(20);

/// A line in the call log about a tunnel.
#[derive(Serialize)]
struct TunnelLogLine<'a> {
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
    state: Arc<GatewayState>,
    key: Arc<Key>,
    host: String,
    port: u16,
    /// The client asked for an address, so there is no name to check.
    by_address: bool,
}

/// Answers CONNECT.
pub(crate) async fn handle(
    worker: &Arc<Worker>,
    access: &ListenerAccess,
    request: Request<Incoming>,
) -> Response<Body> {
    let Some(key) = key_of(worker, access, request.headers()) else {
        let response = Response::builder()
            .status(407)
            .header(PROXY_AUTHENTICATE, "Basic realm=\"proctor\"")
            .body(Body::from(
                "proxy authentication required: use the key as the password\n".to_owned(),
            ));
        return response.expect("a constant status and a constant header");
    };
    let authority = request.uri().authority();
    let Some((host, port)) = authority.and_then(|a| Some((a.host(), a.port_u16()?))) else {
        return text(400, "CONNECT requires host:port\n");
    };
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let by_address = host.parse::<IpAddr>().is_ok();
    let tunnel = Tunnel {
        state: Arc::clone(&worker.state),
        key,
        host,
        port,
        by_address,
    };
    if !tunnel.key.hosts.allow(&tunnel.host) {
        return tunnel.refuse("host not allowed");
    }
    let Some(permit) = tunnel.key.bounds.tunnel() else {
        return tunnel.refuse("too many open tunnels with this key");
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
        Ok(None) => tunnel.refuse("address of the host not allowed"),
        Err(error) => {
            tunnel.log("unreachable", Some(&error.to_string()), None);
            text(502, "cannot reach the host\n")
        }
    }
}

/// Refuses a plain HTTP request through the proxy: without TLS the server does not prove its name.
pub(crate) fn refuse_plain<B>(
    worker: &Worker,
    access: &ListenerAccess,
    request: &Request<B>,
) -> Response<Body> {
    let host = request
        .uri()
        .host()
        .unwrap_or_default()
        .to_ascii_lowercase();
    if let Some(key) = key_of(worker, access, request.headers()) {
        let port = request.uri().port_u16().unwrap_or(80);
        let state = Arc::clone(&worker.state);
        return Tunnel {
            state,
            key,
            host,
            port,
            by_address: false,
        }
        .refuse("only TLS connections are allowed");
    }
    text(403, "only TLS connections are allowed\n")
}

/// The key in the proxy password, or that of the listener.
fn key_of(worker: &Worker, access: &ListenerAccess, headers: &HeaderMap) -> Option<Arc<Key>> {
    let key = match headers.get(PROXY_AUTHORIZATION) {
        Some(value) => {
            let (scheme, shown) = value.to_str().ok()?.split_once(' ')?;
            let secret = if scheme.eq_ignore_ascii_case("basic") {
                let pair = String::from_utf8(STANDARD.decode(shown.trim()).ok()?).ok()?;
                pair.split_once(':')?.1.to_owned()
            } else {
                shown.trim().to_owned()
            };
            worker.state.keys.find(&secret)
        }
        None => access.keyless(),
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
            let hello = tokio::time::timeout(HELLO_TIME, tls_hello::read(&mut client)).await;
            let Ok(Ok(hello)) = hello else {
                self.deny("no TLS hello received");
                return;
            };
            if hello.name.as_deref() != Some(self.host.as_str()) {
                self.deny("the TLS hello names another host");
                return;
            }
            if server.write_all(&hello.bytes).await.is_err() {
                return;
            }
        }
        let copied = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        self.log("tunnel", None, copied.ok());
        let _ = client.shutdown().await;
        // Waits until the server has closed its side.
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
        let entry = TunnelLogLine {
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
            self.state
                .log
                .write(log, self.state.redactor.text(&line).into_owned());
        }
    }
}

fn text(status: u16, message: &str) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .body(Body::from(message.to_owned()));
    response.expect("a status of three digits")
}
