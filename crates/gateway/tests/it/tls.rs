//! Providers behind TLS: trusted by a certificate that was given, streamed as they come, and refused in
//! the API's own words when they cannot be trusted. The certificates in `tests/tls` are for `localhost`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use proctor_gateway::{
    CallEnd, Gateway, GatewayConfig, GatewayError, HttpUpstream, Provider, Secret, Upstream,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use crate::support::*;

const FIRST: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n";
const REST: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn server_config() -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// A provider behind TLS that streams an answer in two parts, the second on demand.
fn provider(go_on: Receiver<()>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = server_config();
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, tcp);
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n{}") && stream.read(&mut byte).is_ok_and(|n| n == 1)
            {
                request.push(byte[0]);
            }
            if request.is_empty() {
                continue;
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let _ = write!(stream, "{head}{:x}\r\n{FIRST}\r\n", FIRST.len());
            let _ = stream.flush();
            let _ = go_on.recv();
            let _ = write!(stream, "{:x}\r\n{REST}\r\n0\r\n\r\n", REST.len());
            let _ = stream.flush();
        }
    });
    port
}

fn gateway(base_url: &str, roots: Vec<PathBuf>) -> Gateway {
    let upstream = HttpUpstream::new(base_url, Some(Secret::new(REAL_KEY)));
    Gateway::start(GatewayConfig {
        upstreams: Provider::ALL
            .map(|provider| (provider, Upstream::Http(upstream.clone())))
            .to_vec(),
        extra_roots: roots,
        workers: Some(1),
        ..GatewayConfig::default()
    })
    .unwrap()
}

#[test]
fn provider_with_tls_streams() {
    let (go_on, wait) = channel();
    let port = provider(wait);
    let gateway = gateway(&format!("https://localhost:{port}"), vec![file("ca.pem")]);
    let key = mint(&gateway);
    let mut stream = connect(&gateway);
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: gw\r\nx-api-key: {}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}",
        key.expose()
    )
    .unwrap();
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&got).contains("message_start\"") {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&chunk[..count]);
    }
    assert!(!String::from_utf8_lossy(&got).contains("message_stop"));
    go_on.send(()).unwrap();
    stream.read_to_end(&mut got).unwrap();
    assert!(String::from_utf8_lossy(&got).contains("message_stop"));
    let call = ledger_of(&gateway, &key, 1).calls.remove(0);
    assert_eq!(call.ended, CallEnd::Complete);
    let usage = call.usage.unwrap();
    assert_eq!((usage.input, usage.output), (9, 7));
}

/// The answer of a gateway that does not trust its provider, on every wire.
fn refused(gateway: &Gateway) {
    let key = mint(gateway);
    for (path, place) in [
        ("/v1/messages", "/error/type"),
        ("/v1/chat/completions", "/error/message"),
        ("/v1/responses", "/error/message"),
        ("/v1beta/models/m:generateContent", "/error/status"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nx-api-key: {}", key.expose());
        let got = ask(gateway, &head, b"{}");
        assert_eq!(got.status, 502, "{path}");
        assert!(
            got.json().pointer(place).is_some(),
            "{path}: {}",
            got.text()
        );
        assert!(!got.text().contains(REAL_KEY));
    }
    let ledger = ledger_of(gateway, &key, 4);
    assert_eq!(ledger.totals.calls_unreachable, 4);
    for call in &ledger.calls {
        assert_eq!(call.ended, CallEnd::Unreachable);
        let error = call.error.as_deref().unwrap();
        assert!(error.to_lowercase().contains("certificate"), "{error}");
    }
}

#[test]
fn provider_with_unknown_certificate_is_refused() {
    let (_go_on, wait) = channel();
    let port = provider(wait);
    refused(&gateway(&format!("https://localhost:{port}"), Vec::new()));
}

#[test]
fn provider_with_another_name_is_refused() {
    let (_go_on, wait) = channel();
    let port = provider(wait);
    refused(&gateway(
        &format!("https://127.0.0.1:{port}"),
        vec![file("ca.pem")],
    ));
}

#[test]
fn file_without_certificates_is_an_error() {
    for name in ["nothing.pem", "server.key"] {
        let config = GatewayConfig {
            extra_roots: vec![file(name)],
            ..GatewayConfig::default()
        };
        let error = Gateway::start(config).unwrap_err();
        assert!(
            matches!(error, GatewayError::Certificates { .. }),
            "{error:?}"
        );
    }
}
