//! The forward proxy: allowed hosts and no others, by the name that TLS proves.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proctor_gateway::{Gateway, GatewayConfig, KeySpec, VirtualKey};

use crate::support::*;

/// A server that sends back what it gets.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..count]).unwrap();
                }
            });
        }
    });
    port
}

fn proxy(allow: &[&str]) -> (Gateway, VirtualKey) {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let hosts = vec![
        ("allowed.test".to_owned(), local),
        ("other.test".to_owned(), local),
    ];
    let gateway = Gateway::start(GatewayConfig {
        hosts,
        ..GatewayConfig::default()
    })
    .unwrap();
    let allow_hosts = allow.iter().map(ToString::to_string).collect();
    let key = gateway
        .mint(KeySpec {
            allow_hosts,
            ..KeySpec::default()
        })
        .unwrap();
    (gateway, key)
}

/// Opens a tunnel; the status, and the rest of the connection.
fn tunnel<S: Read + Write>(mut stream: S, target: &str, password: Option<&str>) -> (u16, S) {
    let auth = password.map(|password| STANDARD.encode(format!("proctor:{password}")));
    let auth = auth.map(|pair| format!("proxy-authorization: Basic {pair}\r\n"));
    let auth = auth.unwrap_or_default();
    write!(
        stream,
        "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{auth}\r\n"
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

/// The smallest greeting that names a server.
fn greeting(name: &str) -> Vec<u8> {
    let prefixed = |width: usize, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&length[4 - width..], body].concat()
    };
    let names = prefixed(2, &[&[0], &prefixed(2, name.as_bytes())[..]].concat());
    let extensions = prefixed(2, &[&[0, 0], &prefixed(2, &names)[..]].concat());
    let hello = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &prefixed(2, &[0x13, 1]),
        &[1, 0],
        &extensions,
    ]
    .concat();
    let message = [&[1], &prefixed(3, &hello)[..]].concat();
    [&[22, 3, 1], &prefixed(2, &message)[..]].concat()
}

fn passes(stream: &mut (impl Read + Write), bytes: &[u8]) -> bool {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).is_ok() && back == bytes
}

#[test]
fn tunnel_to_allowed_host_forwards_the_whole_hello() {
    let port = echo();
    let (gateway, key) = proxy(&["allowed.test", "127.0.0.0/8"]);
    let target = format!("allowed.test:{port}");
    let (status, mut stream) = tunnel(connect(&gateway), &target, Some(key.expose()));
    assert_eq!(status, 200);
    assert!(passes(&mut stream, &greeting("allowed.test")));
    assert!(passes(&mut stream, b"and what follows"));
}

#[test]
fn localhost_needs_a_rule_for_its_address() {
    let target = format!("localhost:{}", echo());
    for (allow, expected) in [
        (&["localhost"][..], false),
        (&["localhost", "127.0.0.1"], true),
    ] {
        let (gateway, key) = proxy(allow);
        let (status, mut stream) = tunnel(connect(&gateway), &target, Some(key.expose()));
        let reached = status == 200 && passes(&mut stream, &greeting("localhost"));
        assert_eq!(reached, expected, "{allow:?}");
    }
}

#[test]
fn every_other_host_is_refused_and_counted() {
    let port = echo();
    let (gateway, key) = proxy(&["allowed.test", "*.wild.test"]);
    for target in [
        "other.test:443",
        "wild.test:443",
        &format!("127.0.0.1:{port}"),
    ] {
        let (status, _) = tunnel(connect(&gateway), target, Some(key.expose()));
        assert_eq!(status, 403, "{target}");
    }
    // The name is allowed, and it leads into the machine.
    let target = format!("allowed.test:{port}");
    assert_eq!(
        tunnel(connect(&gateway), &target, Some(key.expose())).0,
        403
    );
    let refused = gateway.ledger(&key).unwrap().refused_hosts;
    let hosts: Vec<&str> = refused.keys().map(String::as_str).collect();
    assert_eq!(
        hosts,
        ["127.0.0.1", "allowed.test", "other.test", "wild.test"]
    );
}

#[test]
fn hello_for_another_host_is_refused() {
    let port = echo();
    let (gateway, key) = proxy(&["allowed.test", "127.0.0.1"]);
    let target = format!("allowed.test:{port}");
    for bytes in [
        &greeting("other.test")[..],
        b"GET / HTTP/1.1\r\nhost: other.test\r\n\r\n",
    ] {
        let (status, mut stream) = tunnel(connect(&gateway), &target, Some(key.expose()));
        assert_eq!(status, 200);
        assert!(!passes(&mut stream, bytes));
    }
    let ledger = ledger_when(&gateway, &key, |ledger| !ledger.refused_hosts.is_empty());
    assert!(ledger.refused_hosts.contains_key("allowed.test"));
    // An address that is allowed as such has no name to prove.
    let target = format!("127.0.0.1:{port}");
    let (status, mut stream) = tunnel(connect(&gateway), &target, Some(key.expose()));
    assert_eq!(status, 200);
    assert!(passes(&mut stream, b"anything"));
}

#[test]
fn a_tunnel_needs_a_key_or_the_socket_of_one() {
    let port = echo();
    let (gateway, key) = proxy(&["127.0.0.1"]);
    let target = format!("127.0.0.1:{port}");
    assert_eq!(tunnel(connect(&gateway), &target, None).0, 407);
    assert_eq!(tunnel(connect(&gateway), &target, Some("wrong")).0, 407);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw.sock");
    let _socket = gateway.listen_local(&path, Some(&key)).unwrap();
    let (status, mut stream) = tunnel(knock(&path).unwrap(), &target, None);
    assert_eq!(status, 200);
    assert!(passes(&mut stream, b"hello"));
    let plain = format!("GET http://127.0.0.1:{port}/ HTTP/1.1");
    assert_eq!(exchange(knock(&path).unwrap(), &plain, b"").status, 403);
}
