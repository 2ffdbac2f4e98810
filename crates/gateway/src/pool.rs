//! Keeps connections to providers open and sends requests on them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio_util::task::TaskTracker;

use crate::dial::Dialer;
use crate::upstream::Ready;
use crate::wire::Provider;

/// A connection that was idle for longer is not used again: the other end may just be closing it.
const IDLE_TIME: Duration = Duration::from_secs(50);

/// More idle connections to one provider are closed.
const MOST_IDLE: usize = 256;

/// What a connection reads ahead. Small, because a gateway has many.
const READ_AHEAD: usize = 64 << 10;

type Sender = SendRequest<Full<Bytes>>;

/// The connections of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    dialer: Dialer,
    tasks: TaskTracker,
    idle: [Mutex<Vec<(Sender, Instant)>>; Provider::ALL.len()],
}

/// A connection in use. It goes back to the pool when its answer was read to the end.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    slot: usize,
    sender: Sender,
}

impl Lease {
    /// The answer is read: the connection can be used again.
    pub(crate) fn give_back(self) {
        let mut idle = self.pool.lock(self.slot);
        if idle.len() < MOST_IDLE && !self.sender.is_closed() {
            idle.push((self.sender, Instant::now()));
        }
    }
}

impl Pool {
    pub(crate) fn new(dialer: Dialer, tasks: TaskTracker) -> Self {
        Self {
            dialer,
            tasks,
            idle: std::array::from_fn(|_| Mutex::default()),
        }
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Sends a request on an idle connection or on a new one.
    pub(crate) async fn send(
        self: &Arc<Self>,
        upstream: &Ready,
        mut request: Request<Full<Bytes>>,
    ) -> io::Result<(Response<Incoming>, Lease)> {
        while let Some(mut sender) = self.take(upstream.slot) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, self.lease(upstream, sender))),
                Err(mut error) => match error.take_message() {
                    // The connection was closed before the request went out.
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
        // Rare and large: resolving and TLS.
        let mut sender = Box::pin(self.open(upstream)).await?;
        let response = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        Ok((response, self.lease(upstream, sender)))
    }

    async fn open(&self, upstream: &Ready) -> io::Result<Sender> {
        let connection = self.dialer.connect(&upstream.target).await?;
        let handshake = Builder::new()
            .max_buf_size(READ_AHEAD)
            .handshake(TokioIo::new(connection))
            .await;
        let (sender, driver) = handshake.map_err(io::Error::other)?;
        self.tasks.spawn(async move {
            // Its errors reach the requests that they concern.
            let _ = driver.await;
        });
        Ok(sender)
    }

    fn lease(self: &Arc<Self>, upstream: &Ready, sender: Sender) -> Lease {
        Lease {
            pool: Arc::clone(self),
            slot: upstream.slot,
            sender,
        }
    }

    fn take(&self, slot: usize) -> Option<Sender> {
        let mut idle = self.lock(slot);
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > IDLE_TIME {
                // Those below are older still.
                idle.clear();
                return None;
            }
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Vec<(Sender, Instant)>> {
        self.idle[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
