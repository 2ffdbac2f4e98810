//! Trials that run at the same time, up to the next decision of a run, and again if that is requested.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use proctor_record::record::TrialSummary;
use tokio_util::sync::CancellationToken;

use super::{
    FailedStart, RunError,
    control::Control,
    job::{Done, StoppedAgents},
    jobs::Gathered,
};

/// The trials of a run that have ended, by their index in the plan.
pub(super) struct Stage<'a> {
    control: &'a Control,
    stopped: &'a StoppedAgents,
    /// Also cancelled when a record cannot be written.
    stop: &'a CancellationToken,
    done: BTreeMap<usize, TrialSummary>,
    refused: BTreeMap<usize, FailedStart>,
    /// The trials that are not active any more.
    ended: BTreeSet<usize>,
    /// The active trials that are to run again when they have ended.
    again: BTreeSet<usize>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        control: &'a Control,
        stopped: &'a StoppedAgents,
        stop: &'a CancellationToken,
    ) -> Stage<'a> {
        Stage {
            control,
            stopped,
            stop,
            done: BTreeMap::new(),
            refused: BTreeMap::new(),
            ended: BTreeSet::new(),
            again: BTreeSet::new(),
        }
    }

    /// Runs these trials, and waits for all, even if one of them ends the run. All trials wait concurrently, so
    /// that a paused provider does not block the trials of others.
    pub(super) async fn run<F>(
        &mut self,
        trials: Vec<usize>,
        job: &impl Fn(usize) -> F,
    ) -> Result<(), RunError>
    where
        F: Future<Output = Result<Done, RunError>>,
    {
        let start = |number: usize| -> Pin<Box<dyn Future<Output = _> + '_>> {
            let job = job(number);
            Box::pin(async move { (number, job.await) })
        };
        let mut running: FuturesUnordered<_> = trials.into_iter().map(start).collect();
        let mut failure = None;
        loop {
            let wanted = tokio::select! {
                ended = running.next() => {
                    let Some((number, done)) = ended else { break };
                    if let Err(error) = self.add(number, done) {
                        self.stop.cancel();
                        failure.get_or_insert(error);
                    }
                    self.again.remove(&number).then_some(number)
                }
                number = self.control.next_retry() => self.retried(number),
            };
            if let Some(number) = wanted.filter(|_| !self.stop.is_cancelled()) {
                self.ended.remove(&number);
                running.push(start(number));
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn add(&mut self, number: usize, done: Result<Done, RunError>) -> Result<(), RunError> {
        self.ended.insert(number);
        match done? {
            Done::Ended(summary) => drop(self.done.insert(number, *summary)),
            Done::Refused(failed) => drop(self.refused.insert(number, failed)),
            Done::NotRun => {}
        }
        Ok(())
    }

    /// The trial that is to run again, unless it is still active or was refused or never started.
    fn retried(&mut self, number: usize) -> Option<usize> {
        if let Some(done) = self.done.get(&number) {
            self.stopped.remove(&done.agent);
        }
        if self.ended.contains(&number) {
            return Some(number);
        }
        self.again.insert(number);
        None
    }

    pub(super) fn gathered(self) -> Gathered {
        Gathered {
            done: self.done.into_values().collect(),
            failed_starts: self.refused.into_values().collect(),
            ..Gathered::default()
        }
    }
}
