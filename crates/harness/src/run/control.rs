//! Controls of a running run: pausing it, and stopping single trials.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The handle on a run, shared between the run and its user interface. Trials are identified by
/// their number in the plan.
#[derive(Debug, Default)]
pub struct Control {
    paused: watch::Sender<bool>,
    trials: Mutex<BTreeMap<usize, CancellationToken>>,
}

impl Control {
    /// Start no more trials until [`Control::resume`]. Those that run go on.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Start trials again.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Whether no more trials are started.
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// End a trial, or see to it that it is not started. Its record says `interrupted`.
    pub fn cancel(&self, trial: usize) {
        self.lock().entry(trial).or_default().cancel();
    }

    /// Whether any trial was cancelled.
    pub fn has_cancelled(&self) -> bool {
        self.lock().values().any(CancellationToken::is_cancelled)
    }

    /// The cancellation of this trial: its own, or that of the run.
    pub(crate) fn token(&self, trial: usize, run: &CancellationToken) -> CancellationToken {
        let mut trials = self.lock();
        let before = trials.insert(trial, run.child_token());
        let token = trials[&trial].clone();
        if before.is_some_and(|before| before.is_cancelled()) {
            token.cancel();
        }
        token
    }

    /// Wait while the run is paused.
    pub(crate) async fn resumed(&self) {
        // The sender is ours: it cannot be gone.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, CancellationToken>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_cancelled_before_or_after_it_started_and_no_other_is() {
        let (control, run) = (Control::default(), CancellationToken::new());
        control.cancel(2);
        assert!(control.token(2, &run).is_cancelled());
        let (third, fourth) = (control.token(3, &run), control.token(4, &run));
        control.cancel(3);
        assert!(third.is_cancelled());
        assert!(!fourth.is_cancelled() && !run.is_cancelled());
        run.cancel();
        assert!(fourth.is_cancelled(), "the run's end is every trial's");
    }

    #[tokio::test]
    async fn a_paused_run_waits_until_it_is_resumed() {
        let control = Control::default();
        control.resumed().await;
        control.pause();
        let waiting = control.resumed();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = &mut waiting => panic!("it did not wait"),
            () = tokio::task::yield_now() => {}
        }
        control.resume();
        waiting.await;
    }
}
