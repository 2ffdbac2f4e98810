//! A WebSocket on loopback for agents that connect to their driver. Connections may come and
//! go; what is to be sent waits for the next one.

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

/// Frames that may wait for their reader before the agent has to.
const WAITING_FRAMES: usize = 64;

/// A frame may hold several lines; one that is larger breaks the connection.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// How long a client may take for the handshake. A probe that connects and says nothing would
/// keep the agent out.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a client may take to answer a close frame.
const CLOSING: Duration = Duration::from_secs(1);

/// How long to wait for a client that connects again after a close frame.
const RECONNECTING: Duration = Duration::from_secs(3);

/// The received data.
#[derive(Debug)]
pub enum SocketEvent {
    /// The agent connected, or connected again.
    Opened,
    /// A frame; it may hold several lines.
    Frame(Vec<u8>),
    /// The connection has ended.
    Closed,
}

/// How to end the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// A close frame with code 1000.
    Normal,
    /// The quickest end of a Claude Code, which takes every close for a lost connection: it tries
    /// again after 1, 2 and 4 seconds, and exits when four errors have been counted. An error and
    /// the close behind it count as two. So the close frame has a code that is an error (1006), the
    /// first new connection is refused, and only then is the old one ended: that is the fourth.
    Final,
}

/// The data for the client.
#[derive(Debug)]
enum Outgoing {
    Line(Vec<u8>),
    Close(Farewell),
}

/// The listening end. Everything ends when it is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Where it listens.
    pub address: SocketAddr,
    incoming: mpsc::Receiver<SocketEvent>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    _task: JoinSet<()>,
}

impl Socket {
    /// Listen on a free port of loopback.
    pub async fn listen() -> io::Result<Socket> {
        Socket::listen_on(0).await
    }

    /// Listen on this port of loopback.
    pub async fn listen_on(port: u16) -> io::Result<Socket> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        Ok(Socket::serve(Listener::Tcp(listener), address))
    }

    /// Listens on a local socket that is available at this address in a container, for all of its
    /// users.
    pub fn listen_local(path: &Utf8Path, address: SocketAddr) -> io::Result<Socket> {
        // An agent that is started again finds the socket of the time before.
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

    /// The next thing that comes in. Safe to cancel.
    pub async fn next(&mut self) -> Option<SocketEvent> {
        self.incoming.recv().await
    }

    /// Send one line as a frame, now or when the next client connects.
    pub fn send(&self, line: Vec<u8>) {
        // The task ends only with the socket itself.
        let _ = self.outgoing.send(Outgoing::Line(line));
    }

    /// Close the connection that is open, and listen no more. Waits until the client has seen it,
    /// for a few seconds at most.
    pub async fn close(mut self, farewell: Farewell) {
        let _ = self.outgoing.send(Outgoing::Close(farewell));
        let over = async { while self.incoming.recv().await.is_some() {} };
        let _ = timeout(CLOSING + RECONNECTING, over).await;
    }
}

/// The waiting side of connections.
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

/// Serve one connection at a time; the CLI opens the next when it has lost the last.
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

/// Why a conversation ended.
enum End {
    /// The connection did.
    Lost,
    /// The socket was dropped.
    Unheard,
    /// It is to be closed.
    Said(Farewell),
}

/// Carry frames both ways until the connection ends. There is one client: others are refused.
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

/// Tell the client that the conversation is over.
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
