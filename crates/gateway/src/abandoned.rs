//! Calls whose client went away. The provider bills them to their end, so the gateway reads on until the
//! answer has told its usage, for a bounded time and for a bounded number of calls of each key.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::Answer;
use crate::key::Key;
use crate::ledger::Ended;
use crate::live::Live;

/// How long the gateway reads on without a client.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same from the moment at which the key is revoked: the account is closed soon after.
const REVOKED_PATIENCE: Duration = Duration::from_secs(1);

/// So many calls of a key are read on at the same time.
pub(crate) const MOST_ABANDONED: usize = 8;

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

/// Reads an answer to the end of its usage, and finishes its call then.
pub(crate) fn read_on(answer: Answer, live: Box<Live>, ended: Ended) {
    let key = Arc::clone(live.key());
    let rest = Rest {
        answer,
        live,
        ended,
    };
    if rest.live.awaits_usage() {
        run(&key, rest);
    }
}

/// What is left of an answer. The call is finished when it is dropped.
struct Rest {
    answer: Answer,
    live: Box<Live>,
    ended: Ended,
}

impl Future for Rest {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        while this.live.awaits_usage() {
            match ready!(this.answer.poll_bytes(cx)) {
                Some(Ok(bytes)) => this.live.meter(&bytes),
                Some(Err(_)) => return Poll::Ready(()),
                None => {
                    this.live.note_whole();
                    return Poll::Ready(());
                }
            }
            if this.answer.is_over() {
                this.live.note_whole();
                this.live.finish(this.ended);
                this.answer.give_back();
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.live.finish(self.ended);
    }
}

/// A call until its answer begins. Dropped before that, it goes on in the background if it was sent.
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
            // The answer's body is dropped with it, and read on in its turn.
            run(&self.key, async move { drop(answering.await) });
        }
    }
}

/// Runs a task for a key in the background; drops it where there are too many, and where the gateway stops.
fn run(key: &Arc<Key>, task: impl Future<Output = ()> + Send + 'static) {
    let Ok(permit) = Arc::clone(&key.abandoned).try_acquire_owned() else {
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
