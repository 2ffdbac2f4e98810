//! Listens, and serves connections on worker threads that share only the state.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handler::handle;
use super::worker::{ListenerAccess, Worker};
use crate::error::GatewayError;
use crate::state::GatewayState;
use crate::upstream::{ConnectionPool, Dialer};

/// How long a client may take to send all headers.
const HEADER_TIME: Duration = Duration::from_secs(20);

/// Limits of a request head: bytes and number of headers.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 200;

/// The largest read buffer of a connection. The buffer stays allocated while the client keeps the
/// connection open, so it is as small as the longest head allows. Bodies have buffers of their own.
const READ_BUFFER: usize = LONGEST_HEAD;

/// The interval of a worker's own timer. Setting a timer that is due before all others costs a system
/// call to wake the worker, and each request sets one for its head. A nearer timer avoids that.
const BEAT: Duration = Duration::from_secs(5);

/// Connections of a listener for one client. Further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 512;

/// The pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A job for a worker.
enum WorkerJob {
    Serve(Accepted, Arc<ListenerAccess>, Slot),
    Listen(BoundListener, Arc<ListenerAccess>, CancellationToken),
}

/// The permit of a connection, if the listener limits them.
type Slot = Option<OwnedSemaphorePermit>;

enum Accepted {
    Tcp(StdTcpStream),
    Local(proctor_local_socket::Unattached),
}

enum BoundListener {
    Tcp(StdTcpListener),
    Local(proctor_local_socket::Bound),
}

/// The worker threads of a gateway.
#[derive(Debug)]
pub(crate) struct Server {
    queues: Arc<WorkerQueues>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// The job queues of the workers. Connections are assigned in turn.
#[derive(Debug)]
struct WorkerQueues {
    jobs: Vec<UnboundedSender<WorkerJob>>,
    turn: AtomicUsize,
}

impl WorkerQueues {
    fn give(&self, accepted: Accepted, access: Arc<ListenerAccess>, slot: Slot) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.jobs.len();
        // No worker ends before the others.
        let _ = self.jobs[turn].send(WorkerJob::Serve(accepted, access, slot));
    }
}

impl Server {
    /// Starts the worker threads.
    pub(crate) fn start(state: &Arc<GatewayState>, workers: usize) -> Result<Self, GatewayError> {
        let (jobs, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let queues = Arc::new(WorkerQueues {
            jobs,
            turn: AtomicUsize::new(0),
        });
        let failed = |source| GatewayError::Thread { source };
        let mut threads = Vec::new();
        for queue in receivers {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(failed)?;
            let (state, queues) = (Arc::clone(state), Arc::clone(&queues));
            let thread = thread::Builder::new()
                .name("gateway".to_owned())
                .spawn(move || runtime.block_on(work(state, queues, queue)))
                .map_err(failed)?;
            threads.push(thread);
        }
        Ok(Self { queues, threads })
    }

    /// Listens on this address until `stop`. Returns the bound address.
    pub(crate) fn listen(
        &self,
        address: SocketAddr,
        access: ListenerAccess,
        stop: CancellationToken,
    ) -> Result<SocketAddr, GatewayError> {
        let bind = || {
            let listener = StdTcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let failed = |source| GatewayError::Listen {
            address: address.to_string(),
            source,
        };
        let (listener, address) = bind().map_err(failed)?;
        self.accept(BoundListener::Tcp(listener), access, stop);
        Ok(address)
    }

    /// Accepts from this socket until `stop`.
    pub(crate) fn listen_local(
        &self,
        socket: proctor_local_socket::Bound,
        access: ListenerAccess,
        stop: CancellationToken,
    ) {
        self.accept(BoundListener::Local(socket), access, stop);
    }

    fn accept(&self, listener: BoundListener, access: ListenerAccess, stop: CancellationToken) {
        let _ = self.queues.jobs[0].send(WorkerJob::Listen(listener, Arc::new(access), stop));
    }

    /// Waits for the workers, which end when the state is stopped.
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// Runs one worker. Calls that are active at its end are dropped and recorded as cut.
async fn work(
    state: Arc<GatewayState>,
    queues: Arc<WorkerQueues>,
    mut queue: UnboundedReceiver<WorkerJob>,
) {
    let tasks = TaskTracker::new();
    let dialer = Dialer::new(Arc::clone(&state.dial));
    let pool = Arc::new(ConnectionPool::new(dialer));
    let stop = state.stop.clone();
    let worker = Arc::new(Worker {
        state,
        pool,
        tasks: tasks.clone(),
    });
    let mut beat = tokio::time::interval(BEAT);
    loop {
        let job = tokio::select! {
            job = queue.recv() => job,
            () = stop.cancelled() => None,
            _ = beat.tick() => continue,
        };
        match job {
            None => return,
            Some(WorkerJob::Listen(listener, access, until)) => {
                let accepting = accept_all(listener, access, Arc::clone(&queues));
                tasks.spawn(async move {
                    until.run_until_cancelled(accepting).await;
                });
            }
            Some(WorkerJob::Serve(accepted, access, slot)) => {
                let worker = Arc::clone(&worker);
                tasks.spawn(async move {
                    let _slot = slot;
                    // A broken connection concerns only its client.
                    let _ = serve(accepted, worker, access).await;
                });
            }
        }
    }
}

async fn accept_all(
    listener: BoundListener,
    access: Arc<ListenerAccess>,
    queues: Arc<WorkerQueues>,
) {
    let slots = access.key.is_some();
    let slots = slots.then(|| Arc::new(Semaphore::new(MOST_CONNECTIONS)));
    match listener {
        BoundListener::Tcp(listener) => {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            loop {
                let slot = take_slot(slots.as_ref()).await;
                let accepted = listener
                    .accept()
                    .await
                    .and_then(|(stream, _)| stream.into_std());
                let accepted = accepted.map(|stream| (Accepted::Tcp(stream), slot));
                pass_on(accepted, &access, &queues).await;
            }
        }
        BoundListener::Local(socket) => {
            let Ok(mut listener) = socket.listen() else {
                return;
            };
            loop {
                let slot = take_slot(slots.as_ref()).await;
                let accepted = listener.accept().await;
                let accepted = accepted.and_then(proctor_local_socket::Stream::into_std);
                let accepted = accepted.map(|stream| (Accepted::Local(stream), slot));
                pass_on(accepted, &access, &queues).await;
            }
        }
    }
}

async fn take_slot(slots: Option<&Arc<Semaphore>>) -> Slot {
    match slots {
        Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
        None => None,
    }
}

async fn pass_on(
    accepted: io::Result<(Accepted, Slot)>,
    access: &Arc<ListenerAccess>,
    queues: &WorkerQueues,
) {
    match accepted {
        Ok((accepted, slot)) => queues.give(accepted, Arc::clone(access), slot),
        Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
    }
}

async fn serve(
    accepted: Accepted,
    worker: Arc<Worker>,
    access: Arc<ListenerAccess>,
) -> io::Result<()> {
    match accepted {
        Accepted::Tcp(stream) => {
            let stream = TcpStream::from_std(stream)?;
            // Otherwise small events wait for delayed acknowledgements.
            stream.set_nodelay(true)?;
            match &worker.state.tls {
                None => serve_on(stream, worker, access).await,
                Some(tls) => {
                    let stream = tokio::time::timeout(HEADER_TIME, tls.accept(stream)).await??;
                    serve_on(stream, worker, access).await;
                }
            }
        }
        Accepted::Local(stream) => {
            let stream = proctor_local_socket::Stream::from_std(stream)?;
            serve_on(stream, worker, access).await;
        }
    }
    Ok(())
}

async fn serve_on<S>(stream: S, worker: Arc<Worker>, access: Arc<ListenerAccess>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answering = handle(Arc::clone(&worker), Arc::clone(&access), request);
        async move { Ok::<_, std::convert::Infallible>(answering.await) }
    });
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_header_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .max_buf_size(READ_BUFFER)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let _ = connection.await;
}
