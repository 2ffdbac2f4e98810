//! A WebSocket server on loopback for agents that connect to their driver. Clients may reconnect;
//! pending messages wait for the next connection.

use std::{io, net::SocketAddr, time::Duration};

use camino::Utf8Path;
use futures_util::{SinkExt, StreamExt};
use proctor_local_socket as local;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::either::Either;

/// The maximum number of unread frames before the agent is blocked.
const WAITING_FRAMES: usize = 64;

/// The maximum size of a frame, which may contain several lines.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// The timeout of a handshake. Otherwise a probe that sends nothing would block the agent.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The timeout for the answer to a close frame.
const CLOSING: Duration = Duration::from_secs(1);

/// How long to wait for a client that reconnects after a close frame.
const RECONNECTING: Duration = Duration::from_secs(3);

/// The received data.
#[derive(Debug)]
pub enum SocketEvent {
    /// The agent connected or reconnected.
    Opened,
    /// A frame, which may contain several lines.
    Frame(Vec<u8>),
    /// The connection has ended.
    Closed,
}

/// How to end the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// A close frame with code 1000.
    Normal,
    /// The fastest way to end Claude Code, which treats every close as a lost connection: it
    /// reconnects after 1, 2 and 4 seconds, and exits after four errors. An error and the following
    /// close count as two. So the close frame has an error code (1006), the first reconnection is
    /// refused, and only then the old connection is closed, which is the fourth error.
    Final,
}

/// Messages to the client.
#[derive(Debug)]
enum Outgoing {
    Line(Vec<u8>),
    Close(Farewell),
}

/// The listening socket. Dropping it ends all connections.
#[derive(Debug)]
pub struct Socket {
    /// The address of the socket.
    pub address: SocketAddr,
    incoming: mpsc::Receiver<SocketEvent>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    _task: JoinSet<()>,
}

impl Socket {
    /// Listens on a free loopback port.
    pub async fn listen() -> io::Result<Socket> {
        Socket::listen_on(0).await
    }

    /// Listens on this loopback port.
    pub async fn listen_on(port: u16) -> io::Result<Socket> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        Ok(Socket::serve(Listener::Tcp(listener), address))
    }

    /// Listens on a local socket that all users of a container reach at this address.
    pub fn listen_local(path: &Utf8Path, address: SocketAddr) -> io::Result<Socket> {
        // A restarted agent leaves the socket of its previous start.
        let _ = std::fs::remove_file(path);
        let listener = local::Listener::bind(path.as_std_path())?;
        Ok(Socket::serve(Listener::Local(listener), address))
    }

    fn serve(listener: Listener, address: SocketAddr) -> Socket {
        let (events, incoming) = mpsc::channel(WAITING_FRAMES);
        let (outgoing, replies) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(serve(listener, events, replies));
        Socket {
            address,
            incoming,
            outgoing,
            _task: task,
        }
    }

    /// The next event. Cancel-safe.
    pub async fn next(&mut self) -> Option<SocketEvent> {
        self.incoming.recv().await
    }

    /// Sends one line as a frame, now or when the next client connects.
    pub fn send(&self, line: Vec<u8>) {
        // The receiver lives as long as the socket.
        let _ = self.outgoing.send(Outgoing::Line(line));
    }

    /// Closes the open connection and the listener. Waits up to a few seconds for the client.
    pub async fn close(mut self, farewell: Farewell) {
        let _ = self.outgoing.send(Outgoing::Close(farewell));
        let over = async { while self.incoming.recv().await.is_some() {} };
        let _ = timeout(CLOSING + RECONNECTING, over).await;
    }
}

/// The listener for connections.
enum Listener {
    Tcp(TcpListener),
    Local(local::Listener),
}

type Connection = Either<TcpStream, local::Stream>;

impl Listener {
    async fn accept(&mut self) -> io::Result<Connection> {
        match self {
            Listener::Tcp(listener) => Ok(Either::Left(listener.accept().await?.0)),
            Listener::Local(listener) => Ok(Either::Right(listener.accept().await?)),
        }
    }
}

/// Serves one connection at a time. The CLI reconnects when it has lost a connection.
async fn serve(
    mut listener: Listener,
    events: mpsc::Sender<SocketEvent>,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
) {
    while let Ok(stream) = listener.accept().await {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME_BYTES))
            .max_frame_size(Some(MAX_FRAME_BYTES));
        let accepted = tokio_tungstenite::accept_async_with_config(stream, Some(config));
        let Ok(Ok(mut connection)) = timeout(HANDSHAKE, accepted).await else {
            continue;
        };
        if events.send(SocketEvent::Opened).await.is_err() {
            return;
        }
        match converse(&mut connection, &mut listener, &events, &mut outgoing).await {
            End::Lost if events.send(SocketEvent::Closed).await.is_ok() => {}
            End::Lost | End::Unheard => return,
            End::Said(farewell) => return close(connection, &mut listener, farewell).await,
        }
    }
}

/// Why a session ended.
enum End {
    /// The connection was lost.
    Lost,
    /// The socket was dropped.
    Unheard,
    /// The session is to be closed.
    Said(Farewell),
}

/// Forwards frames in both directions until the connection ends. Further clients are refused.
async fn converse(
    connection: &mut WebSocketStream<Connection>,
    listener: &mut Listener,
    events: &mpsc::Sender<SocketEvent>,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> End {
    loop {
        let frame = tokio::select! {
            frame = connection.next() => frame,
            other = listener.accept() => {
                drop(other);
                continue;
            }
            order = outgoing.recv() => {
                let line = match order {
                    None => return End::Unheard,
                    Some(Outgoing::Close(farewell)) => return End::Said(farewell),
                    Some(Outgoing::Line(line)) => line,
                };
                let text = String::from_utf8_lossy(&line).into_owned();
                match connection.send(Message::text(text)).await {
                    Ok(()) => continue,
                    Err(_) => return End::Lost,
                }
            }
        };
        let bytes = match frame {
            Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
            Some(Ok(Message::Binary(bytes))) => bytes.to_vec(),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Lost,
            Some(Ok(_)) => continue,
        };
        if events.send(SocketEvent::Frame(bytes)).await.is_err() {
            return End::Unheard;
        }
    }
}

/// Closes the session with the client.
async fn close(
    mut connection: WebSocketStream<Connection>,
    listener: &mut Listener,
    farewell: Farewell,
) {
    let frame = CloseFrame {
        code: match farewell {
            Farewell::Normal => CloseCode::Normal,
            Farewell::Final => CloseCode::Abnormal,
        },
        reason: "done".into(),
    };
    let sent = connection.send(Message::Close(Some(frame))).await;
    if sent.is_err() {
        return;
    }
    match farewell {
        Farewell::Normal => {
            let answered = async { while let Some(Ok(_)) = connection.next().await {} };
            let _ = timeout(CLOSING, answered).await;
        }
        Farewell::Final => drop(timeout(RECONNECTING, listener.accept()).await),
    }
}
