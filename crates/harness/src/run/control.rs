//! Controls of an active run: pausing it, cancelling single trials, and running them again.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use camino::Utf8Path;
use proctor_record::record::control::RunRequests;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The time between two looks at the requests of other processes.
const LOOK: Duration = Duration::from_millis(500);

/// The handle on a run, shared between the run and its user interface. Trials are identified by
/// their index in the plan.
#[derive(Debug, Default)]
pub struct Control {
    paused: watch::Sender<bool>,
    trials: Mutex<BTreeMap<usize, CancellationToken>>,
    retries: Mutex<VecDeque<usize>>,
    has_retry: Notify,
}

impl Control {
    /// Starts no more trials until [`Control::resume`]. Active trials continue.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Starts trials again.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Whether the run is paused.
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Cancels a trial, or prevents its start. Its outcome is `interrupted`.
    pub fn cancel(&self, trial: usize) {
        self.lock().entry(trial).or_default().cancel();
    }

    /// Runs a trial again that was interrupted or excluded. Other results are final.
    pub fn retry(&self, trial: usize) {
        self.lock().remove(&trial);
        self.retries().push_back(trial);
        self.has_retry.notify_one();
    }

    /// Waits for the next trial that is to run again.
    pub(crate) async fn next_retry(&self) -> usize {
        loop {
            let next = self.retries().pop_front();
            if let Some(trial) = next {
                return trial;
            }
            self.has_retry.notified().await;
        }
    }

    /// Whether any trial was cancelled.
    pub fn has_cancelled(&self) -> bool {
        self.lock().values().any(CancellationToken::is_cancelled)
    }

    /// The cancellation token of this trial, a child of the run's.
    pub(crate) fn token(&self, trial: usize, run: &CancellationToken) -> CancellationToken {
        let mut trials = self.lock();
        let before = trials.insert(trial, run.child_token());
        let token = trials[&trial].clone();
        if before.is_some_and(|before| before.is_cancelled()) {
            token.cancel();
        }
        token
    }

    /// Waits while the run is paused.
    pub(crate) async fn resumed(&self) {
        // The sender lives as long as this handle.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    /// Applies the requests of other processes to a run until it is dropped. `trials` are the directories of the run's
    /// trials, by their index.
    pub(crate) async fn obey(
        &self,
        run: &Utf8Path,
        trials: &[String],
        cancel: &CancellationToken,
    ) -> Infallible {
        let mut last = RunRequests::default();
        if last.write(run).is_err() {
            // Without the file nothing can be requested.
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(LOOK).await;
            // A file that is just being replaced, or that cannot be read, changes nothing.
            let Some(next) = RunRequests::read(run) else {
                continue;
            };
            match (last.paused, next.paused) {
                (false, true) => self.pause(),
                (true, false) => self.resume(),
                _ => {}
            }
            let index = |folder: &String| trials.iter().position(|it| it == folder);
            let cancelled = next.cancelled.difference(&last.cancelled);
            cancelled
                .filter_map(index)
                .for_each(|trial| self.cancel(trial));
            let is_new =
                |(folder, times): &(&String, &u32)| last.retried.get(*folder) != Some(times);
            let retried = next.retried.iter().filter(is_new);
            retried
                .filter_map(|(folder, _)| index(folder))
                .for_each(|trial| self.retry(trial));
            if next.stop {
                cancel.cancel();
            }
            last = next;
        }
    }

    fn retries(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, CancellationToken>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_trial_is_cancelled_before_or_after_its_start() {
        let (control, run) = (Control::default(), CancellationToken::new());
        control.cancel(2);
        assert!(control.token(2, &run).is_cancelled());
        let (third, fourth) = (control.token(3, &run), control.token(4, &run));
        control.cancel(3);
        assert!(third.is_cancelled());
        assert!(!fourth.is_cancelled() && !run.is_cancelled());
        run.cancel();
        assert!(
            fourth.is_cancelled(),
            "cancelling the run cancels all trials"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_other_processes_are_applied_once() {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let (control, cancel) = (Control::default(), CancellationToken::new());
        let trials = ["trials/a/one/trial-1", "trials/a/two/trial-1"].map(str::to_owned);
        let ask = async {
            // The file appears as soon as the run accepts requests.
            while RunRequests::read(run).is_none() {
                tokio::time::sleep(LOOK).await;
            }
            let mut requests = RunRequests {
                paused: true,
                cancelled: ["trials/a/two/trial-1", "unknown"]
                    .map(str::to_owned)
                    .into(),
                ..RunRequests::default()
            };
            requests.write(run).unwrap();
            tokio::time::sleep(2 * LOOK).await;
            assert!(control.is_paused());
            assert!(control.token(1, &cancel).is_cancelled());
            assert!(!control.token(0, &cancel).is_cancelled());
            // The user of the run has the last word.
            control.resume();
            tokio::time::sleep(2 * LOOK).await;
            assert!(!control.is_paused());
            assert!(!cancel.is_cancelled());
            requests.retry("trials/a/two/trial-1".to_owned());
            requests.write(run).unwrap();
            assert_eq!(control.next_retry().await, 1);
            assert!(!control.token(1, &cancel).is_cancelled());
            requests.stop = true;
            requests.write(run).unwrap();
            cancel.cancelled().await;
        };
        tokio::select! {
            obeyed = control.obey(run, &trials, &cancel) => panic!("{obeyed:?}"),
            () = ask => {}
        }
    }

    #[tokio::test]
    async fn paused_run_waits_until_it_is_resumed() {
        let control = Control::default();
        control.resumed().await;
        control.pause();
        let waiting = control.resumed();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = &mut waiting => panic!("the run did not wait"),
            () = tokio::task::yield_now() => {}
        }
        control.resume();
        waiting.await;
    }
}
