//! The body of a provider's response. Pieces that have arrived are joined: a provider that sends word by
//! word fills a packet with many pieces, and each piece that is passed on alone costs a write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::pool::PooledLease;

/// The number of bytes after which no more pieces are joined.
const TOGETHER: usize = 32 << 10;

/// The body of a response that is being received.
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    /// Its connection, until it is given back.
    lease: Option<PooledLease>,
    /// An error that follows the bytes returned last.
    broken: Option<io::Error>,
}

impl UpstreamBody {
    pub(crate) fn new(incoming: Incoming, lease: PooledLease) -> Self {
        Self {
            incoming,
            lease: Some(lease),
            broken: None,
        }
    }

    /// The bytes that have arrived, as soon as there are any.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut taken = Coalescer::default();
        loop {
            match self.poll_frame(cx) {
                // Trailers contain nothing that is metered.
                Poll::Ready(Some(Ok(frame))) => taken.add(frame.into_data().unwrap_or_default()),
                Poll::Ready(Some(Err(error))) if taken.length == 0 => {
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.broken = Some(error);
                    break;
                }
                Poll::Ready(None) if taken.length == 0 => return Poll::Ready(None),
                Poll::Pending if taken.length == 0 => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => break,
            }
            if taken.length >= TOGETHER || self.is_over() {
                break;
            }
        }
        Poll::Ready(Some(Ok(taken.bytes())))
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
        if next.is_pending()
            && let Some(lease) = &mut self.lease
        {
            // The connection reads the next piece only when it is polled.
            lease.work(cx);
            next = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        next.map_err(io::Error::other)
    }

    /// Whether the last byte was returned.
    pub(crate) fn is_over(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    /// Returns the connection to the pool.
    pub(crate) fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// Joins pieces. A single piece is not copied.
#[derive(Default)]
struct Coalescer {
    first: Bytes,
    all: BytesMut,
    length: usize,
}

impl Coalescer {
    fn add(&mut self, piece: Bytes) {
        if self.length == 0 {
            self.first = piece;
            self.length = self.first.len();
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(TOGETHER);
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
        self.length = self.all.len();
    }

    fn bytes(self) -> Bytes {
        if self.all.is_empty() {
            return self.first;
        }
        self.all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_in_order() {
        for pieces in [&["a"][..], &["", "a"], &["a", "", "bc"], &["", ""]] {
            let mut taken = Coalescer::default();
            for piece in pieces {
                taken.add(Bytes::copy_from_slice(piece.as_bytes()));
            }
            assert_eq!(taken.length, pieces.concat().len());
            assert_eq!(taken.bytes(), pieces.concat().as_bytes());
        }
    }
}
