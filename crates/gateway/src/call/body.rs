//! The body of every response of the gateway: its own bytes, or those of an upstream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::abandoned;
use super::active::ActiveCall;
use crate::ledger::CallEnd;
use crate::upstream::UpstreamBody;

/// The body of a response.
#[derive(Default)]
pub(crate) struct Body {
    source: BodySource,
    call: Option<Box<ActiveCall>>,
    /// Resolves when the key is revoked.
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The bytes that are left before an injected fault interrupts the response.
    cut_after: Option<u64>,
    /// The error to return after all previous bytes were sent.
    broken: Option<io::Error>,
}

#[derive(Default)]
enum BodySource {
    #[default]
    Empty,
    Full(Bytes),
    Upstream(UpstreamBody),
    Other(UnsyncBoxBody<Bytes, io::Error>),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::of(BodySource::Full(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<UnsyncBoxBody<Bytes, io::Error>> for Body {
    fn from(body: UnsyncBoxBody<Bytes, io::Error>) -> Self {
        Self::of(BodySource::Other(body))
    }
}

impl Body {
    fn of(source: BodySource) -> Self {
        let mut body = Self::default();
        body.source = source;
        body
    }

    /// The body of an upstream's response.
    pub(crate) fn upstream(answer: UpstreamBody) -> Self {
        Self::of(BodySource::Upstream(answer))
    }

    /// Finishes `call` with this body.
    pub(crate) fn for_call(
        mut self,
        call: Box<ActiveCall>,
        revoked: WaitForCancellationFutureOwned,
    ) -> Self {
        self.call = Some(call);
        self.revoked = Some(Box::pin(revoked));
        self
    }

    /// Interrupts the response after `bytes` bytes.
    pub(crate) fn cut_after(mut self, bytes: Option<u64>) -> Self {
        self.cut_after = bytes;
        self
    }

    fn finish(&mut self, ended: CallEnd) {
        if let Some(mut call) = self.call.take() {
            call.finish(ended);
        }
        if let BodySource::Upstream(answer) = &mut self.source
            && ended == CallEnd::Complete
        {
            answer.give_back();
        }
    }

    /// Ends the response for the client. The gateway reads on if the provider bills the rest.
    fn leave(&mut self, ended: CallEnd) {
        let Some(mut call) = self.call.take() else {
            return;
        };
        match std::mem::take(&mut self.source) {
            BodySource::Upstream(answer) => abandoned::read_on(answer, call, ended),
            _ => call.finish(ended),
        }
    }

    /// Interrupts the response on behalf of the gateway.
    fn stop(&mut self, error: io::Error) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(call) = &mut self.call {
            call.call.error = Some(error.to_string());
        }
        self.leave(CallEnd::Cut);
        self.source = BodySource::Empty;
        Poll::Ready(Some(Err(error)))
    }

    fn cut(&mut self, error: io::Error) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(call) = &mut self.call {
            call.call.error = Some(error.to_string());
        }
        self.finish(CallEnd::Cut);
        self.source = BodySource::Empty;
        Poll::Ready(Some(Err(error)))
    }

    /// Returns the error at the next poll, because the server drops unsent bytes when it sees an error.
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
            BodySource::Empty => Poll::Ready(None),
            BodySource::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = BodySource::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(bytes)))
            }
            BodySource::Upstream(answer) => answer.poll_bytes(cx),
            BodySource::Other(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                // None of these bodies has trailers.
                Poll::Ready(frame.map(|frame| Ok(frame?.into_data().unwrap_or_default())))
            }
        }
    }

    /// Meters bytes and applies an injected cut.
    fn note(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        if let Some(left) = &mut self.cut_after {
            let keep = usize::try_from(*left)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let unsent = bytes.split_off(keep);
            *left -= keep as u64;
            if let Some(call) = &mut self.call {
                call.observe(&bytes);
                call.meter(&unsent);
            }
        } else if let Some(call) = &mut self.call {
            call.observe(&bytes);
        }
        if self.is_over() {
            // The server does not poll again after the last byte.
            self.finish(CallEnd::Complete);
        }
        Frame::data(bytes)
    }

    fn is_over(&self) -> bool {
        match &self.source {
            BodySource::Empty => true,
            BodySource::Full(bytes) => bytes.is_empty(),
            BodySource::Upstream(answer) => answer.is_over(),
            BodySource::Other(body) => body.is_end_stream(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.leave(CallEnd::ClientGone);
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
            return this.cut_soon(cx, io::Error::other("interrupted by an injected fault"));
        }
        match ready!(this.poll_source(cx)) {
            Some(Ok(bytes)) => Poll::Ready(Some(Ok(this.note(bytes)))),
            Some(Err(error)) => this.cut_soon(cx, error),
            None => {
                this.finish(CallEnd::Complete);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.call.is_none() && self.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Empty => SizeHint::with_exact(0),
            BodySource::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodySource::Upstream(answer) => answer.size_hint(),
            BodySource::Other(body) => body.size_hint(),
        }
    }
}
