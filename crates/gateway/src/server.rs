//! Listens, and serves connections on worker threads that share nothing but the hub.

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

use crate::dial::Dialer;
use crate::error::GatewayError;
use crate::handler::{Door, Worker, handle};
use crate::hub::Hub;
use crate::local;
use crate::pool::Pool;

/// Whoever has not sent all headers by then is cut off.
const HEADER_TIME: Duration = Duration::from_secs(20);

/// The longest head of a request, in bytes and in lines.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 200;

/// What a connection reads ahead. Bodies are long, so more than the head needs.
const READ_AHEAD: usize = 256 << 10;

/// How often a worker looks up. A timer that is due before all others has to wake the worker up when it is
/// set, and each request sets one for its head: with a nearer one always there, none of them does.
const BEAT: Duration = Duration::from_secs(5);

/// Connections of a listener that has one client. Further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 512;

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a worker is given to do.
enum Job {
    Serve(Accepted, Arc<Door>, Slot),
    Listen(Listener, Arc<Door>, CancellationToken),
}

/// The permit of a connection, where they are counted.
type Slot = Option<OwnedSemaphorePermit>;

enum Accepted {
    Tcp(StdTcpStream),
    Local(local::Handed),
}

enum Listener {
    Tcp(StdTcpListener),
    Local(local::Bound),
}

/// The threads of a gateway.
#[derive(Debug)]
pub(crate) struct Server {
    crew: Arc<Crew>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// The way to the workers. Connections go to them in turn.
#[derive(Debug)]
struct Crew {
    jobs: Vec<UnboundedSender<Job>>,
    turn: AtomicUsize,
}

impl Crew {
    fn give(&self, accepted: Accepted, door: Arc<Door>, slot: Slot) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.jobs.len();
        // A worker ends only when all end.
        let _ = self.jobs[turn].send(Job::Serve(accepted, door, slot));
    }
}

impl Server {
    /// Starts so many workers.
    pub(crate) fn start(hub: &Arc<Hub>, workers: usize) -> Result<Self, GatewayError> {
        let (jobs, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let crew = Arc::new(Crew {
            jobs,
            turn: AtomicUsize::new(0),
        });
        let failed = |source| GatewayError::Thread { source };
        let mut threads = Vec::new();
        for queue in queues {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(failed)?;
            let (hub, crew) = (Arc::clone(hub), Arc::clone(&crew));
            let thread = thread::Builder::new()
                .name("gateway".to_owned())
                .spawn(move || runtime.block_on(work(hub, crew, queue)))
                .map_err(failed)?;
            threads.push(thread);
        }
        Ok(Self { crew, threads })
    }

    /// Listens on this address until `stop`, and says which one it is.
    pub(crate) fn listen(
        &self,
        address: SocketAddr,
        door: Door,
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
        self.accept(Listener::Tcp(listener), door, stop);
        Ok(address)
    }

    /// Accepts from this socket until `stop`.
    pub(crate) fn listen_local(&self, socket: local::Bound, door: Door, stop: CancellationToken) {
        self.accept(Listener::Local(socket), door, stop);
    }

    fn accept(&self, listener: Listener, door: Door, stop: CancellationToken) {
        let _ = self.crew.jobs[0].send(Job::Listen(listener, Arc::new(door), stop));
    }

    /// Waits for the workers, which end when the hub says stop.
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// One worker's life. What is still under way at its end is dropped, and so entered as cut.
async fn work(hub: Arc<Hub>, crew: Arc<Crew>, mut queue: UnboundedReceiver<Job>) {
    let tasks = TaskTracker::new();
    let dialer = Dialer::new(Arc::clone(&hub.dial));
    let pool = Arc::new(Pool::new(dialer));
    let stop = hub.stop.clone();
    let worker = Arc::new(Worker {
        hub,
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
            Some(Job::Listen(listener, door, until)) => {
                let accepting = accept_all(listener, door, Arc::clone(&crew));
                tasks.spawn(async move {
                    until.run_until_cancelled(accepting).await;
                });
            }
            Some(Job::Serve(accepted, door, slot)) => {
                let worker = Arc::clone(&worker);
                tasks.spawn(async move {
                    let _slot = slot;
                    // A connection that breaks is the client's business.
                    let _ = serve(accepted, worker, door).await;
                });
            }
        }
    }
}

async fn accept_all(listener: Listener, door: Arc<Door>, crew: Arc<Crew>) {
    let slots = door.key.is_some();
    let slots = slots.then(|| Arc::new(Semaphore::new(MOST_CONNECTIONS)));
    match listener {
        Listener::Tcp(listener) => {
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
                pass_on(accepted, &door, &crew).await;
            }
        }
        Listener::Local(socket) => {
            let Ok(mut listener) = socket.listen() else {
                return;
            };
            loop {
                let slot = take_slot(slots.as_ref()).await;
                let accepted = listener.accept().await;
                let accepted = accepted.and_then(local::Stream::hand_on);
                let accepted = accepted.map(|stream| (Accepted::Local(stream), slot));
                pass_on(accepted, &door, &crew).await;
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

async fn pass_on(accepted: io::Result<(Accepted, Slot)>, door: &Arc<Door>, crew: &Crew) {
    match accepted {
        Ok((accepted, slot)) => crew.give(accepted, Arc::clone(door), slot),
        Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
    }
}

async fn serve(accepted: Accepted, worker: Arc<Worker>, door: Arc<Door>) -> io::Result<()> {
    match accepted {
        Accepted::Tcp(stream) => {
            let stream = TcpStream::from_std(stream)?;
            // Else small events wait for acknowledgements that are delayed.
            stream.set_nodelay(true)?;
            match &worker.hub.tls {
                None => serve_on(stream, worker, door).await,
                Some(tls) => {
                    let stream = tokio::time::timeout(HEADER_TIME, tls.accept(stream)).await??;
                    serve_on(stream, worker, door).await;
                }
            }
        }
        Accepted::Local(stream) => serve_on(stream.take()?, worker, door).await,
    }
    Ok(())
}

async fn serve_on<S>(stream: S, worker: Arc<Worker>, door: Arc<Door>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answering = handle(Arc::clone(&worker), Arc::clone(&door), request);
        async move { Ok::<_, std::convert::Infallible>(answering.await) }
    });
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_header_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .max_buf_size(READ_AHEAD)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let _ = connection.await;
}
