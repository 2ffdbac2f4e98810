//! Keeps connections to providers open and sends requests on them.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::dial::{Connection, Dialer};
use crate::upstream::Ready;
use crate::wire::Provider;

/// A connection that was idle for longer is not used again: the other end may just be closing it.
const IDLE_TIME: Duration = Duration::from_secs(50);

/// More idle connections to one provider are closed.
const MOST_IDLE: usize = 256;

/// What a connection reads ahead. Small, because a gateway has many.
const READ_AHEAD: usize = 64 << 10;

type Outgoing = Request<Full<Bytes>>;

/// A connection to a provider. It has no task of its own: whoever waits for an answer does its work, so
/// that what the provider has sent already is read at once and wakes nobody else.
#[derive(Debug)]
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when the connection is over.
    driver: Option<Pin<Box<Driver>>>,
}

type Driver = http1::Connection<TokioIo<Connection>, Full<Bytes>>;

impl Line {
    /// Reads and writes what there is to read and write.
    fn work(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            // Its errors reach the requests that they concern.
            self.driver = None;
        }
    }

    /// Whether it takes a request.
    async fn is_ready(&mut self) -> bool {
        let ready = poll_fn(|cx| {
            self.work(cx);
            self.sender.poll_ready(cx)
        });
        ready.await.is_ok()
    }

    async fn ask(
        &mut self,
        request: Outgoing,
    ) -> Result<Response<Incoming>, TrySendError<Outgoing>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            self.work(cx);
            answer.as_mut().poll(cx)
        });
        answer.await
    }
}

/// The connections of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    dialer: Dialer,
    idle: [Mutex<Vec<(Line, Instant)>>; Provider::ALL.len()],
}

/// A connection in use. It goes back to the pool when its answer was read to the end.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    slot: usize,
    line: Line,
}

impl Lease {
    /// Goes on with what the connection has to do: without it, no more of the answer comes.
    pub(crate) fn work(&mut self, cx: &mut Context<'_>) {
        self.line.work(cx);
    }

    /// The answer is read: the connection can be used again.
    pub(crate) fn give_back(self) {
        let mut idle = self.pool.lock(self.slot);
        if idle.len() < MOST_IDLE && self.line.driver.is_some() {
            idle.push((self.line, Instant::now()));
        }
    }
}

impl Pool {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
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
        mut request: Outgoing,
    ) -> io::Result<(Response<Incoming>, Lease)> {
        while let Some(mut line) = self.take(upstream.slot) {
            if !line.is_ready().await {
                continue;
            }
            match line.ask(request).await {
                Ok(response) => return Ok((response, self.lease(upstream, line))),
                Err(mut error) => match error.take_message() {
                    // The connection was closed before the request went out.
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
        // Rare and large: resolving and TLS.
        let mut line = Box::pin(self.open(upstream)).await?;
        match line.ask(request).await {
            Ok(response) => Ok((response, self.lease(upstream, line))),
            Err(error) => Err(io::Error::other(error.into_error())),
        }
    }

    async fn open(&self, upstream: &Ready) -> io::Result<Line> {
        let connection = self.dialer.connect(&upstream.target).await?;
        let handshake = Builder::new()
            .max_buf_size(READ_AHEAD)
            .handshake(TokioIo::new(connection))
            .await;
        let (sender, driver) = handshake.map_err(io::Error::other)?;
        Ok(Line {
            sender,
            driver: Some(Box::pin(driver)),
        })
    }

    fn lease(self: &Arc<Self>, upstream: &Ready, line: Line) -> Lease {
        Lease {
            pool: Arc::clone(self),
            slot: upstream.slot,
            line,
        }
    }

    fn take(&self, slot: usize) -> Option<Line> {
        let mut idle = self.lock(slot);
        let (line, since) = idle.pop()?;
        if since.elapsed() > IDLE_TIME {
            // Those below are older still.
            idle.clear();
            return None;
        }
        Some(line)
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Vec<(Line, Instant)>> {
        self.idle[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
