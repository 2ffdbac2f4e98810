//! Calls whose client disconnected. The provider bills them to their end, so the gateway reads on until
//! the response has reported its usage, for a bounded time and a bounded number of calls of each key.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::active::ActiveCall;
use crate::key::Key;
use crate::ledger::CallEnd;
use crate::upstream::UpstreamBody;

/// How long the gateway reads a response without a client.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same after the key was revoked, because its account is closed soon.
const REVOKED_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a call was sent to a provider that may bill it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Billable(Arc<AtomicBool>);

impl Billable {
    pub(crate) fn set(&self, billable: bool) {
        self.0.store(billable, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads a response until it has reported its usage, then finishes the call.
pub(crate) fn read_on(answer: UpstreamBody, call: Box<ActiveCall>, ended: CallEnd) {
    let key = Arc::clone(call.key());
    let rest = Rest {
        answer,
        call,
        ended,
    };
    if rest.call.awaits_usage() {
        run(&key, rest);
    }
}

/// The rest of a response. Dropping it finishes the call.
struct Rest {
    answer: UpstreamBody,
    call: Box<ActiveCall>,
    ended: CallEnd,
}

impl Future for Rest {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        while this.call.awaits_usage() {
            match ready!(this.answer.poll_bytes(cx)) {
                Some(Ok(bytes)) => this.call.meter(&bytes),
                Some(Err(_)) => return Poll::Ready(()),
                None => {
                    this.call.note_whole();
                    return Poll::Ready(());
                }
            }
            if this.answer.is_over() {
                this.call.note_whole();
                this.call.finish(this.ended);
                this.answer.give_back();
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.call.finish(self.ended);
    }
}

/// A call before its response begins. If it is dropped after it was sent, it continues in the background.
pub(crate) struct Pending<T: Send + 'static> {
    answering: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    key: Arc<Key>,
    billable: Billable,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn new(
        key: Arc<Key>,
        billable: Billable,
        answering: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            answering: Some(Box::pin(answering)),
            key,
            billable,
        }
    }
}

impl<T: Send + 'static> Future for Pending<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(answering) = &mut self.answering else {
            return Poll::Pending;
        };
        let answer = ready!(answering.as_mut().poll(cx));
        self.answering = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(answering) = self.answering.take()
            && self.billable.get()
        {
            // Dropping the response reads on in its body.
            run(&self.key, async move { drop(answering.await) });
        }
    }
}

/// Runs a task for a key in the background. Drops it if there are too many or if the gateway stops.
fn run(key: &Arc<Key>, task: impl Future<Output = ()> + Send + 'static) {
    let Some(permit) = key.bounds.abandoned() else {
        return;
    };
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(limited(Arc::clone(key), permit, task));
    }
}

async fn limited(key: Arc<Key>, permit: OwnedSemaphorePermit, task: impl Future<Output = ()>) {
    let revoked = async {
        key.revoked.cancelled().await;
        tokio::time::sleep(REVOKED_PATIENCE).await;
    };
    tokio::select! {
        biased;
        () = task => {}
        () = tokio::time::sleep(PATIENCE) => {}
        () = revoked => {}
    }
    drop(permit);
}
