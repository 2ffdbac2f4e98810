//! The body of every answer that the gateway gives: bytes of its own, or those of an upstream passing
//! by.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::abandoned;
use crate::answer::Answer;
use crate::ledger::Ended;
use crate::live::Live;

/// Bytes that somebody makes as they are asked for.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An answer's body.
#[derive(Default)]
pub(crate) struct Body {
    source: Source,
    live: Option<Box<Live>>,
    /// Resolves when the key is revoked.
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// A fault: how many bytes are left before the answer breaks off.
    cut_after: Option<u64>,
    /// The answer breaks off with this as soon as everything before it is on its way.
    broken: Option<io::Error>,
}

#[derive(Default)]
enum Source {
    #[default]
    Empty,
    Full(Bytes),
    Upstream(Answer),
    Stream(ByteStream),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::of(Source::Full(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl Body {
    fn of(source: Source) -> Self {
        let mut body = Self::default();
        body.source = source;
        body
    }

    /// The body of an upstream's answer.
    pub(crate) fn upstream(answer: Answer) -> Self {
        Self::of(Source::Upstream(answer))
    }

    /// A body that is made piece by piece.
    pub(crate) fn stream(stream: ByteStream) -> Self {
        Self::of(Source::Stream(stream))
    }

    /// This call is over when the body is.
    pub(crate) fn for_call(
        mut self,
        live: Box<Live>,
        revoked: WaitForCancellationFutureOwned,
    ) -> Self {
        self.live = Some(live);
        self.revoked = Some(Box::pin(revoked));
        self
    }

    /// Breaks off after so many bytes.
    pub(crate) fn cut_after(mut self, bytes: Option<u64>) -> Self {
        self.cut_after = bytes;
        self
    }

    fn finish(&mut self, ended: Ended) {
        if let Some(mut live) = self.live.take() {
            live.finish(ended);
        }
        if let Source::Upstream(answer) = &mut self.source
            && ended == Ended::Complete
        {
            answer.give_back();
        }
    }

    /// The client gets no more of it; the call is read on where the provider bills the rest.
    fn leave(&mut self, ended: Ended) {
        let Some(mut live) = self.live.take() else {
            return;
        };
        match std::mem::take(&mut self.source) {
            Source::Upstream(answer) => abandoned::read_on(answer, live, ended),
            _ => live.finish(ended),
        }
    }

    /// Breaks off on the gateway's own account.
    fn stop(&mut self, error: io::Error) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(live) = &mut self.live {
            live.call.error = Some(error.to_string());
        }
        self.leave(Ended::Cut);
        self.source = Source::Empty;
        Poll::Ready(Some(Err(error)))
    }

    fn cut(&mut self, error: io::Error) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(live) = &mut self.live {
            live.call.error = Some(error.to_string());
        }
        self.finish(Ended::Cut);
        self.source = Source::Empty;
        Poll::Ready(Some(Err(error)))
    }

    /// Breaks off at the next poll: the server drops what it has not sent yet once it sees an error.
    fn cut_soon(
        &mut self,
        cx: &mut Context<'_>,
        error: io::Error,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match &mut self.source {
            Source::Empty => Poll::Ready(None),
            Source::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = Source::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(bytes)))
            }
            Source::Upstream(answer) => answer.poll_bytes(cx),
            Source::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }

    /// Takes note of bytes, and of the place where a fault cuts them.
    fn note(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        if let Some(left) = &mut self.cut_after {
            let keep = usize::try_from(*left)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let unsent = bytes.split_off(keep);
            *left -= keep as u64;
            if let Some(live) = &mut self.live {
                live.pass_by(&bytes);
                live.meter(&unsent);
            }
        } else if let Some(live) = &mut self.live {
            live.pass_by(&bytes);
        }
        if self.is_over() {
            // The server does not ask again after the last byte.
            self.finish(Ended::Complete);
        }
        Frame::data(bytes)
    }

    fn is_over(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Full(bytes) => bytes.is_empty(),
            Source::Upstream(answer) => answer.is_over(),
            Source::Stream(_) => false,
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.leave(Ended::ClientGone);
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Some(revoked) = &mut this.revoked
            && revoked.as_mut().poll(cx).is_ready()
        {
            this.revoked = None;
            return this.stop(io::Error::other("the key was revoked"));
        }
        if let Some(error) = this.broken.take() {
            if this.cut_after == Some(0) {
                return this.stop(error);
            }
            return this.cut(error);
        }
        if this.cut_after == Some(0) {
            return this.cut_soon(cx, io::Error::other("cut on purpose"));
        }
        match ready!(this.poll_source(cx)) {
            Some(Ok(bytes)) => Poll::Ready(Some(Ok(this.note(bytes)))),
            Some(Err(error)) => this.cut_soon(cx, error),
            None => {
                this.finish(Ended::Complete);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.live.is_none() && self.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Upstream(answer) => answer.size_hint(),
            Source::Stream(_) => SizeHint::default(),
        }
    }
}
