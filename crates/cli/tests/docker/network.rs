//! A container without a network reaches one socket of ours, and nothing else.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use proctor_process::{Limits, Relay};
use proctor_sandbox::docker::ContainerNetwork;

use crate::support::{Rig, finish, sh};

/// Answers every connection once.
fn serve<S: Read + Write>(mut connection: S) {
    let mut request = [0; 4096];
    let count = connection.read(&mut request).unwrap_or(0);
    let request = String::from_utf8_lossy(&request[..count]);
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let body = format!("the host says {path}\n");
    let answer = format!(
        "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = connection.write_all(answer.as_bytes());
}

#[tokio::test]
async fn a_relay_is_the_only_way_out() {
    let Some(rig) = Rig::new().await else { return };
    let sockets = rig.path().join("sockets");
    std::fs::create_dir(&sockets).unwrap();
    let gateway = UnixListener::bind(sockets.join("gateway.sock")).unwrap();
    // Agents are seldom the user that we are.
    let everyone = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(sockets.join("gateway.sock"), everyone).unwrap();
    std::thread::spawn(move || gateway.incoming().flatten().for_each(serve));
    let other = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || other.incoming().flatten().for_each(serve));
    // The port is open outside the container.
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());

    let mut spec = rig.spec();
    spec.network = ContainerNetwork::None;
    spec.sockets = Some(sockets);
    spec.user = Some("1000:1000".to_owned());
    let container = rig.engine.create(spec).await.unwrap();
    // Not wget: a static busybox crashes in it without a C library.
    let tries = format!(
        "ask() {{ printf 'GET %s HTTP/1.0\\r\\n\\r\\n' $3 | nc -w 2 $1 $2 2>/dev/null | grep says; }}
         ask 127.0.0.1 4100 /one; ask 127.0.0.1 4100 /two
         for address in 127.0.0.1 172.17.0.1 172.18.0.1 host.docker.internal; do
           ask $address {port} /host && echo reached $address
         done
         for address in 1.1.1.1 192.168.0.1 10.0.0.1; do nc -w 2 $address 80 </dev/null && echo reached $address; done
         nslookup example.com >/dev/null 2>&1 && echo resolved
         ls /sys/class/net"
    );
    let mut job = sh(&tries);
    job.relays = vec![Relay {
        listen: "127.0.0.1:4100".parse().unwrap(),
        socket: "/proctor/run/gateway.sock".into(),
    }];
    let mut process = container.start(job, Limits::default()).await.unwrap();
    let run = finish(&mut process).await.unwrap();
    let lines: Vec<&str> = run.text().lines().collect();
    assert!(lines.len() > 2, "{run:?}");
    assert_eq!(lines[..2], ["the host says /one", "the host says /two"]);
    let rest: Vec<&&str> = lines[2..].iter().filter(|name| **name != "lo").collect();
    assert!(
        rest.iter()
            .all(|line| line.contains("tunl") || line.contains("sit")),
        "{rest:?}"
    );
    container.remove().await.unwrap();
}

#[tokio::test]
async fn relay_without_a_socket_closes_the_connection() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let mut job = sh("echo | nc -w 5 127.0.0.1 4100; echo closed");
    job.relays = vec![Relay {
        listen: "127.0.0.1:4100".parse().unwrap(),
        socket: "/proctor/run/gateway.sock".into(),
    }];
    let mut process = container.start(job, Limits::default()).await.unwrap();
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "closed\n");
    container.remove().await.unwrap();
}
