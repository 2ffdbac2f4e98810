//! The body of a provider's answer as it comes in. All that has arrived is taken together: a provider that
//! sends word by word fills a packet with many words, and each piece that is passed on alone costs a write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::pool::Lease;

/// As much is taken together.
const TOGETHER: usize = 32 << 10;

/// An answer under way.
pub(crate) struct Answer {
    incoming: Incoming,
    /// Its connection, until it is given back.
    lease: Option<Lease>,
    /// It broke off behind what was taken last.
    broken: Option<io::Error>,
}

impl Answer {
    pub(crate) fn new(incoming: Incoming, lease: Lease) -> Self {
        Self {
            incoming,
            lease: Some(lease),
            broken: None,
        }
    }

    /// What has arrived, as soon as there is something.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut taken = Taken::default();
        loop {
            match self.poll_frame(cx) {
                // Trailers tell nothing that is metered.
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
            // Now that it is asked for, the connection may have the next piece.
            lease.work(cx);
            next = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        next.map_err(io::Error::other)
    }

    /// Whether its last byte was taken.
    pub(crate) fn is_over(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    /// Its connection may be used for another one.
    pub(crate) fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// Pieces that are taken together. A single one is not copied.
#[derive(Default)]
struct Taken {
    first: Bytes,
    all: BytesMut,
    length: usize,
}

impl Taken {
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
    fn pieces_come_out_as_one_in_their_order() {
        for pieces in [&["a"][..], &["", "a"], &["a", "", "bc"], &["", ""]] {
            let mut taken = Taken::default();
            for piece in pieces {
                taken.add(Bytes::copy_from_slice(piece.as_bytes()));
            }
            assert_eq!(taken.length, pieces.concat().len());
            assert_eq!(taken.bytes(), pieces.concat().as_bytes());
        }
    }
}
