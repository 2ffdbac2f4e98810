//! A model on loopback that plays a script, on the caller's runtime or on one of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::Player;
use crate::request::{Recorded, RequestKind};
use crate::respond;
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
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No thread or runtime to serve on.
    #[error("cannot start a thread to serve on")]
    Thread {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A running scripted model. Dropping it ends every connection, also those that hang.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    keeper: Keeper,
}

/// What keeps the server running.
#[derive(Debug)]
enum Keeper {
    /// A task on the caller's runtime; dropping the set aborts it.
    Task { _tasks: JoinSet<()> },
    /// A thread with a runtime, joined on drop.
    Thread(Option<thread::JoinHandle<()>>),
}

/// What the server and its owner both see.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<Played>,
    /// Cancelled when the server has to stop.
    pub(crate) stop: CancellationToken,
}

/// How far the script has been played, and to whom.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) player: Player,
    pub(crate) requests: Vec<Recorded>,
}

impl Shared {
    fn new(script: Script) -> Arc<Self> {
        let state = Played {
            player: Player::new(script),
            requests: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            stop: CancellationToken::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Played> {
        // The state stays whole even if a handler panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptedModel {
    /// Starts on the caller's runtime.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        let shared = Shared::new(script);
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
        let shared = Shared::new(script);
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
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// The requests that were turns of a conversation.
    pub fn turns(&self) -> Vec<Recorded> {
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

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    let app = Router::new()
        .fallback(respond::handle)
        // A prompt of a million characters is legal, and a conversation repeats it every turn.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared);
    let serving = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::select! {
        // It only ends when it is told to.
        _ = serving => {}
        () = async { stop.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => {}
    }
}
