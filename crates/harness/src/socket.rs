//! A WebSocket on loopback for agents that connect to their driver. Connections may come and
//! go; what is to be sent waits for the next one.

use std::{io, net::SocketAddr};

use camino::Utf8Path;
use futures_util::{SinkExt, StreamExt};
use proctor_gateway::local;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::{Message, protocol::WebSocketConfig};
use tokio_util::either::Either;

/// Frames that may wait for their reader before the agent has to.
const WAITING_FRAMES: usize = 64;

/// A frame may hold several lines; one that is larger breaks the connection.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// What came in.
#[derive(Debug)]
pub enum SocketEvent {
    /// The agent connected, or connected again.
    Opened,
    /// A frame; it may hold several lines.
    Frame(Vec<u8>),
}

/// The listening end. Everything ends when it is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Where it listens.
    pub address: SocketAddr,
    incoming: mpsc::Receiver<SocketEvent>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
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

    /// Listen on a local socket that is reached at this address in a container, whoever asks there.
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

    /// Send one line as a frame, now or when somebody connects.
    pub fn send(&self, line: Vec<u8>) {
        // The task ends only with the socket itself.
        let _ = self.outgoing.send(line);
    }
}

/// Who waits for connections.
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
    mut replies: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Ok(stream) = listener.accept().await {
        if converse(stream, &events, &mut replies).await.is_none() {
            return;
        }
    }
}

/// Carry frames both ways until the connection ends; `None` when nobody listens any more.
async fn converse(
    stream: Connection,
    events: &mpsc::Sender<SocketEvent>,
    replies: &mut mpsc::UnboundedReceiver<Vec<u8>>,
) -> Option<()> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES));
    let Ok(connection) = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await
    else {
        return Some(());
    };
    events.send(SocketEvent::Opened).await.ok()?;
    let (mut sink, mut source) = connection.split();
    loop {
        tokio::select! {
            frame = source.next() => match frame {
                Some(Ok(Message::Text(text))) => events.send(SocketEvent::Frame(text.as_bytes().to_vec())).await.ok()?,
                Some(Ok(Message::Binary(bytes))) => events.send(SocketEvent::Frame(bytes.to_vec())).await.ok()?,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Some(()),
                Some(Ok(_)) => {}
            },
            reply = replies.recv() => {
                let text = String::from_utf8_lossy(&reply?).into_owned();
                if sink.send(Message::text(text)).await.is_err() {
                    return Some(());
                }
            }
        }
    }
}
