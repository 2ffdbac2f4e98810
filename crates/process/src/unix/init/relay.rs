//! Carries every connection to a loopback port of the container on to a Unix socket that was mounted into it.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

use tokio::net::UnixStream;

use super::start::thread;
use crate::{JobFailure, Relay};

/// A port that is listened on, and where its connections go.
pub(super) struct Listening {
    listener: TcpListener,
    socket: PathBuf,
}

/// Listens at once, so that early connections are served later.
pub(super) fn listen(relays: &[Relay]) -> Result<Vec<Listening>, JobFailure> {
    let listen = |relay: &Relay| {
        let listener = TcpListener::bind(relay.listen).map_err(|error| JobFailure::Relay {
            listen: relay.listen,
            reason: error.to_string(),
        })?;
        Ok(Listening {
            listener,
            socket: relay.socket.clone(),
        })
    };
    relays.iter().map(listen).collect()
}

/// Serves all of them from one thread, to the end of this process.
pub(super) fn serve(relays: Vec<Listening>) {
    if !relays.is_empty() {
        // Without a thread or a runtime, connections of the agent are not answered.
        let _ = thread(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build();
            if let Ok(runtime) = runtime {
                tokio::task::LocalSet::new().block_on(&runtime, accept_all(relays));
            }
        });
    }
}

async fn accept_all(relays: Vec<Listening>) {
    let mut ports = tokio::task::JoinSet::new();
    for relay in relays {
        ports.spawn_local(accept(relay));
    }
    while ports.join_next().await.is_some() {}
}

async fn accept(relay: Listening) -> io::Result<()> {
    relay.listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(relay.listener)?;
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    connections.spawn_local(forward(connection, relay.socket.clone()));
                }
                // Usually out of file descriptors; others may be closed meanwhile.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Copies both ways until both sides are closed. If there is no listener on the socket, the
/// connection is closed.
async fn forward(mut connection: tokio::net::TcpStream, socket: PathBuf) -> io::Result<()> {
    // Tokens of a stream are small and should not be delayed.
    connection.set_nodelay(true)?;
    let mut outside = UnixStream::connect(&socket).await?;
    tokio::io::copy_bidirectional(&mut connection, &mut outside).await?;
    Ok(())
}
