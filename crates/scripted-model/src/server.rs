//! A model on loopback that plays a script, on the caller's runtime or on one of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::playback::Playback;
use crate::request::{RecordedRequest, RequestKind};
use crate::respond::{Body, IncomingRequest, respond};
use crate::script::Script;

/// How long connections may take to end once the server stops. One whose client does not read would
/// take forever.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Why a scripted model did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No port on loopback.
    #[error("cannot listen on loopback")]
    Listen {
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// No thread or runtime to serve on.
    #[error("cannot start a worker thread")]
    Thread {
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// A running scripted model. Dropping it ends every connection, also those that hang.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Playback>,
    keeper: Keeper,
}

/// The task or thread that runs the server.
#[derive(Debug)]
enum Keeper {
    /// A task on the caller's runtime; dropping the set aborts it.
    Task { _tasks: JoinSet<()> },
    /// A thread with a runtime, joined on drop.
    Thread(Option<thread::JoinHandle<()>>),
}

impl ScriptedModel {
    /// Starts on the caller's runtime.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        let shared = Playback::new(script);
        let (listener, address) = listen().await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            keeper: Keeper::Task { _tasks: tasks },
        })
    }

    /// Starts on a thread with a runtime of its own, for callers that are not asynchronous.
    pub fn start_blocking(script: Script) -> Result<Self, StartError> {
        let shared = Playback::new(script);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| StartError::Thread { source })?;
        let (report, started) = mpsc::channel();
        let for_thread = Arc::clone(&shared);
        let keeper = thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    match listen().await {
                        Ok((listener, address)) => {
                            let _ = report.send(Ok(address));
                            serve(listener, for_thread).await;
                        }
                        Err(error) => drop(report.send(Err(error))),
                    }
                });
            })
            .map_err(|source| StartError::Thread { source })?;
        let address = started.recv().expect("the thread reports before it ends")?;
        Ok(Self {
            address,
            shared,
            keeper: Keeper::Thread(Some(keeper)),
        })
    }

    /// Where the model listens, fit for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in the order in which they came in.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests()
    }

    /// The requests that were turns of a conversation.
    pub fn turns(&self) -> Vec<RecordedRequest> {
        let mut turns = self.requests();
        turns.retain(|request| request.kind == RequestKind::Turn);
        turns
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        if let Keeper::Thread(thread) = &mut self.keeper
            && let Some(thread) = thread.take()
        {
            // A panic of the server's thread has already been printed.
            let _ = thread.join();
        }
    }
}

async fn listen() -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound.await.map_err(|source| StartError::Listen { source })
}

async fn serve(listener: TcpListener, playback: Arc<Playback>) {
    let connections = TaskTracker::new();
    let stop = playback.stop.clone();
    let accepting = async {
        loop {
            // Too many open files pass by.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            connections.spawn(serve_one(stream, Arc::clone(&playback)));
        }
    };
    stop.run_until_cancelled(accepting).await;
    drop(listener);
    connections.close();
    let _ = tokio::time::timeout(STOP_GRACE, connections.wait()).await;
}

async fn serve_one(stream: TcpStream, playback: Arc<Playback>) {
    let stop = playback.stop.clone();
    let service = service_fn(move |request| answer(Arc::clone(&playback), request));
    // Otherwise small events wait for delayed acknowledgements.
    let _ = stream.set_nodelay(true);
    let connection = Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken connection concerns only its client.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A prompt of a million characters is legal, and a conversation repeats it every turn: bodies have no
/// limit here.
async fn answer(
    playback: Arc<Playback>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let received = IncomingRequest {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: body.collect().await?.to_bytes(),
    };
    Ok(respond(&playback, received).await)
}
