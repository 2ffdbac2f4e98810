//! Network access for containers whose engine cannot access our sockets: a second container in the
//! same network accepts their loopback connections and multiplexes them over its own streams to
//! Proctor.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use proctor_local_socket as local;
use proctor_process::Stream as Output;
use proctor_record::platform;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use tokio_util::sync::{CancellationToken, DropGuard};
use yamux::{Config, Connection, ConnectionError, Mode};

use super::attach::{Attached, Demultiplexer, OutputPiece};
use super::{Engine, EngineError};

/// The argument that makes our binary multiplex connections; the ports follow.
pub const MULTIPLEX: &str = "__multiplex";

/// The prefix of the stream that signals that all ports are open.
const READY: u8 = u8::MAX;

/// The start timeout of the container.
const LONGEST_START: Duration = Duration::from_secs(30);

/// Carries connections to these loopback ports over stdin and stdout, until those are closed.
pub fn multiplex(ports: &[u16]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(inside(ports))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A connection that waits for its stream; `None` for the ready signal.
type Waiting = (u8, Option<TcpStream>);

async fn inside(ports: &[u16]) -> io::Result<()> {
    let (accepted, mut incoming) = mpsc::channel::<Waiting>(16);
    let mut tasks = JoinSet::new();
    for (index, port) in (0..READY).zip(ports) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).await?;
        tasks.spawn(accept(listener, index, accepted.clone()));
    }
    let streams = platform::engine::standard_streams()?.compat();
    let mut connection = Connection::new(streams, Config::default(), Mode::Client);
    let mut waiting = VecDeque::from([(READY, None)]);
    loop {
        let step = poll_fn(|context| {
            if !waiting.is_empty()
                && let Poll::Ready(opened) = connection.poll_new_outbound(context)
            {
                return Poll::Ready(opened.map(Some));
            }
            if let Poll::Ready(Some(accepted)) = incoming.poll_recv(context) {
                waiting.push_back(accepted);
                return Poll::Ready(Ok(None));
            }
            // This also drives the bytes of all streams.
            match ready!(connection.poll_next_inbound(context)) {
                Some(inbound) => Poll::Ready(inbound.map(|_unexpected| None)),
                None => Poll::Ready(Err(ConnectionError::Closed)),
            }
        });
        match step.await {
            Ok(Some(stream)) => {
                if let Some(one) = waiting.pop_front() {
                    tasks.spawn(carry_out(one, stream));
                }
            }
            Ok(None) => {}
            // The other side has closed.
            Err(_) => return Ok(()),
        }
    }
}

async fn accept(listener: TcpListener, index: u8, accepted: mpsc::Sender<Waiting>) {
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                if accepted.send((index, Some(connection))).await.is_err() {
                    return;
                }
            }
            // Usually out of file descriptors; others may be closed meanwhile.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Copies in both directions until both sides are done.
async fn carry_out((index, connection): Waiting, stream: yamux::Stream) {
    let mut stream = stream.compat();
    if stream.write_all(&[index]).await.is_err() {
        return;
    }
    match connection {
        None => {
            let _ = stream.shutdown().await;
        }
        Some(mut connection) => {
            // Tokens of a stream are small and should not be delayed.
            let _ = connection.set_nodelay(true);
            let _ = tokio::io::copy_bidirectional(&mut connection, &mut stream).await;
        }
    }
}

/// Our end of the connection; dropping it closes it.
#[derive(Debug)]
pub(super) struct NetworkRelay {
    _open: DropGuard,
}

impl NetworkRelay {
    /// Serves the streams of a container: connections of the port with an index go to the socket
    /// with the same index. Returns when the ports are open.
    pub(super) async fn open(
        engine: &Engine,
        attached: Attached,
        sockets: Vec<PathBuf>,
    ) -> Result<Self, EngineError> {
        let streams = tokio::io::join(Stdout::of(attached.output), attached.input).compat();
        let mut connection = Connection::new(streams, Config::default(), Mode::Server);
        let failed = |reason: &str| EngineError::gone("connect a container to the gateway", reason);
        let first = poll_fn(|context| connection.poll_next_inbound(context));
        match timeout(LONGEST_START, first).await {
            Ok(Some(Ok(_ready))) => {}
            Ok(_) => return Err(failed("the streams were closed")),
            Err(_) => return Err(failed("the timeout was exceeded")),
        }
        let closed = CancellationToken::new();
        let serving = serve(connection, sockets.into());
        let until = closed.clone();
        engine.later(async move {
            tokio::select! {
                () = serving => {}
                () = until.cancelled() => {}
            }
        });
        Ok(Self {
            _open: closed.drop_guard(),
        })
    }
}

type CarriedStreams = Compat<tokio::io::Join<Stdout, super::attach::InputHalf>>;

async fn serve(mut connection: Connection<CarriedStreams>, sockets: Arc<[PathBuf]>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            inbound = poll_fn(|context| connection.poll_next_inbound(context)) => match inbound {
                Some(Ok(stream)) => {
                    tasks.spawn(carry_on(stream, Arc::clone(&sockets)));
                }
                Some(Err(_)) | None => return,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn carry_on(stream: yamux::Stream, sockets: Arc<[PathBuf]>) -> io::Result<()> {
    let mut stream = stream.compat();
    let index = stream.read_u8().await?;
    let socket = sockets.get(usize::from(index));
    let socket = socket.ok_or(io::ErrorKind::NotFound)?;
    let mut outside = local::connect(socket).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut outside).await?;
    Ok(())
}

/// The stdout of a container, in order.
struct Stdout {
    output: Demultiplexer<tokio::io::ReadHalf<super::attach::Connection>>,
    /// The rest of the last piece.
    piece: Option<OutputPiece>,
}

impl Stdout {
    fn of(output: Demultiplexer<tokio::io::ReadHalf<super::attach::Connection>>) -> Self {
        Self {
            output,
            piece: None,
        }
    }
}

impl AsyncRead for Stdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let piece = loop {
            match self.piece.take() {
                Some(piece) => break piece,
                None => match ready!(self.output.poll_piece(context)) {
                    None => return Poll::Ready(Ok(())),
                    Some(piece) if piece.stream == Output::Stdout => self.piece = Some(piece),
                    Some(_complaint) => {}
                },
            }
        };
        let count = piece.len().min(space.remaining());
        space.put_slice(&self.output.bytes(piece)[..count]);
        self.piece = piece.rest(count);
        Poll::Ready(Ok(()))
    }
}
