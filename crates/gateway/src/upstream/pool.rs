//! A pool of connections to providers.

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
use proctor_model_api::Provider;

use super::dial::{Dialer, UpstreamConnection};
use super::endpoint::UpstreamEndpoint;

/// A connection that was idle for longer is not reused: the provider may be closing it.
const IDLE_TIME: Duration = Duration::from_secs(50);

/// Idle connections to one provider beyond this number are closed.
const MOST_IDLE: usize = 256;

/// The read buffer of a connection. It is small because a gateway has many connections.
const READ_AHEAD: usize = 64 << 10;

type OutgoingRequest = Request<Full<Bytes>>;

/// A connection to a provider. It has no task of its own: the task that waits for the response drives
/// the connection, so a piece that arrives wakes one task instead of two.
#[derive(Debug)]
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when the connection is over.
    driver: Option<Pin<Box<ConnectionDriver>>>,
}

type ConnectionDriver = http1::Connection<TokioIo<UpstreamConnection>, Full<Bytes>>;

impl PooledConnection {
    /// Drives the connection.
    fn work(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            // Errors are reported through the requests.
            self.driver = None;
        }
    }

    /// Whether the connection accepts a request.
    async fn is_ready(&mut self) -> bool {
        let ready = poll_fn(|cx| {
            self.work(cx);
            self.sender.poll_ready(cx)
        });
        ready.await.is_ok()
    }

    async fn ask(
        &mut self,
        request: OutgoingRequest,
    ) -> Result<Response<Incoming>, TrySendError<OutgoingRequest>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            self.work(cx);
            answer.as_mut().poll(cx)
        });
        answer.await
    }
}

/// The connections of one worker thread.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    dialer: Dialer,
    idle: [Mutex<Vec<(PooledConnection, Instant)>>; Provider::ALL.len()],
}

/// A connection in use. It returns to the pool when the whole response has been read.
#[derive(Debug)]
pub(crate) struct PooledLease {
    pool: Arc<ConnectionPool>,
    slot: usize,
    connection: PooledConnection,
}

impl PooledLease {
    /// Drives the connection; the rest of the response arrives only through this.
    pub(crate) fn work(&mut self, cx: &mut Context<'_>) {
        self.connection.work(cx);
    }

    /// Returns the connection to the pool after the whole response was read.
    pub(crate) fn give_back(self) {
        let mut idle = self.pool.lock(self.slot);
        if idle.len() < MOST_IDLE && self.connection.driver.is_some() {
            idle.push((self.connection, Instant::now()));
        }
    }
}

impl ConnectionPool {
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
        upstream: &UpstreamEndpoint,
        mut request: OutgoingRequest,
    ) -> io::Result<(Response<Incoming>, PooledLease)> {
        while let Some(mut connection) = self.take(upstream.slot) {
            if !connection.is_ready().await {
                continue;
            }
            match connection.ask(request).await {
                Ok(response) => return Ok((response, self.lease(upstream, connection))),
                Err(mut error) => match error.take_message() {
                    // The connection was closed before the request went out.
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
        // Rare and large: resolving and TLS.
        let mut connection = Box::pin(self.open(upstream)).await?;
        match connection.ask(request).await {
            Ok(response) => Ok((response, self.lease(upstream, connection))),
            Err(error) => Err(io::Error::other(error.into_error())),
        }
    }

    async fn open(&self, upstream: &UpstreamEndpoint) -> io::Result<PooledConnection> {
        let connection = self.dialer.connect(&upstream.target).await?;
        let handshake = Builder::new()
            .max_buf_size(READ_AHEAD)
            .handshake(TokioIo::new(connection))
            .await;
        let (sender, driver) = handshake.map_err(io::Error::other)?;
        Ok(PooledConnection {
            sender,
            driver: Some(Box::pin(driver)),
        })
    }

    fn lease(
        self: &Arc<Self>,
        upstream: &UpstreamEndpoint,
        connection: PooledConnection,
    ) -> PooledLease {
        PooledLease {
            pool: Arc::clone(self),
            slot: upstream.slot,
            connection,
        }
    }

    fn take(&self, slot: usize) -> Option<PooledConnection> {
        let mut idle = self.lock(slot);
        let (connection, since) = idle.pop()?;
        if since.elapsed() > IDLE_TIME {
            // The remaining connections have been idle for longer.
            idle.clear();
            return None;
        }
        Some(connection)
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Vec<(PooledConnection, Instant)>> {
        self.idle[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
