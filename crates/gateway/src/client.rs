//! A client for the few requests that Proctor makes itself: to its own gateway, and to webhooks.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;

use crate::error::GatewayError;
use crate::upstream::{DialConfig, Dialer, Target};

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 16 << 20;

/// Sends single requests.
#[derive(Debug)]
pub struct Client {
    dialer: Dialer,
}

/// A request.
#[derive(Clone)]
pub struct Outgoing {
    /// Such as `POST`.
    pub method: String,
    /// Where, `http` or `https`.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// A client that trusts the well-known roots and those in these files.
    pub fn new(extra_roots: &[PathBuf]) -> Result<Client, GatewayError> {
        let config = DialConfig::new(Vec::new(), extra_roots)?;
        Ok(Client {
            dialer: Dialer::new(Arc::new(config)),
        })
    }

    /// The reason why a URL is not valid, if it is not.
    pub fn problem_of(url: &str) -> Option<&'static str> {
        target(url).err()
    }

    /// Send a request and read its whole answer within `limit`.
    pub async fn send(&self, outgoing: Outgoing, limit: Duration) -> io::Result<Reply> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        tokio::time::timeout(limit, self.exchange(outgoing))
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(&self, outgoing: Outgoing) -> io::Result<Reply> {
        let (target, uri) = target(&outgoing.url).map_err(io::Error::other)?;
        let connection = self.dialer.connect(&target).await?;
        let (mut sender, driver) = http1::handshake(TokioIo::new(connection))
            .await
            .map_err(io::Error::other)?;
        let request = request(outgoing, &uri)?;
        let asking = async move {
            let response = sender
                .send_request(request)
                .await
                .map_err(io::Error::other)?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), LONGEST_ANSWER);
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            Ok(Reply { status, body })
        };
        // The driver's errors reach the request.
        let (reply, _) = tokio::join!(asking, driver);
        reply
    }
}

fn request(outgoing: Outgoing, uri: &Uri) -> io::Result<Request<Full<Bytes>>> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder()
        .method(outgoing.method.as_str())
        .uri(path)
        .header(HOST, host)
        .header(CONNECTION, HeaderValue::from_static("close"));
    for (name, value) in &outgoing.headers {
        request = request.header(name, value);
    }
    request
        .body(Full::new(outgoing.body))
        .map_err(io::Error::other)
}

fn target(url: &str) -> Result<(Target, Uri), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "not a valid URL")?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("must start with http:// or https://"),
    };
    let authority = uri.authority().ok_or("missing host")?;
    if authority.as_str().contains('@') {
        return Err("must not contain a password");
    }
    let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
    let host = authority.host().to_owned();
    Ok((Target { host, port, tls }, uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_urls_are_refused() {
        for (url, expect) in [
            ("https://example.com/hook?x=1", None),
            ("http://127.0.0.1:80", None),
            ("example.com", Some("must start with http:// or https://")),
            ("ftp://x/", Some("must start with http:// or https://")),
            ("https://u:p@x/", Some("must not contain a password")),
            ("https://a b", Some("not a valid URL")),
        ] {
            assert_eq!(Client::problem_of(url), expect, "{url}");
        }
    }
}
