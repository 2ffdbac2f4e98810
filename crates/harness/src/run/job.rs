//! One trial of a run, with its attempts: waits for its turn, runs it, retries after infrastructure failures.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::{
    FailedStart, Resources, RunError, Runner, TrialScope,
    attempt::{Attempt, Attempted, set_aside, settled},
    runner::{RunListener, trial_key},
};
use crate::{
    fs::dir,
    outcome::reset_time,
    plan::TrialPlan,
    record::{
        self, Meta, Record, RunDir, TrialKey, TrialStatus, TrialSummary, lease::Holder,
        run_event::RunEvent, summary,
    },
    sandbox::EngineSlot,
    trial::{
        Cause, TrialError,
        provider_limits::{Providers, Turn, pause},
    },
};

/// How a trial of a run ended.
pub(super) enum Done {
    /// It has a record.
    Ended(Box<TrialSummary>),
    /// Its input is not valid.
    Refused(FailedStart),
    /// It was not started.
    NotRun,
}

/// One trial of a run.
pub(super) struct Job<'a> {
    pub(super) runner: &'a Runner<'a>,
    pub(super) run_dir: &'a RunDir,
    pub(super) resources: &'a Resources,
    pub(super) stopped: &'a StoppedAgents,
    pub(super) providers: &'a Providers,
    pub(super) slots: &'a Semaphore,
    pub(super) holder: &'a Holder,
    /// Cancelled with the trial, or with the run.
    pub(super) cancel: CancellationToken,
    /// The trial's index in the plan.
    pub(super) number: usize,
    pub(super) plan: &'a TrialPlan,
}

impl Job<'_> {
    /// Run the trial, unless an earlier process finished it.
    pub(super) async fn run(self, listener: &RunListener<'_>) -> Result<Done, RunError> {
        let folder = self.key().folder(&self.run_dir.path);
        if let Some(record) = settled(&folder, &self.run_dir.id) {
            if !folder.join(record::META_FILE).exists() {
                // An earlier process was killed between the two files.
                Meta::of(&record).write(&folder)?;
            }
            return Ok(Done::Ended(Box::new(summary(&record, &folder))));
        }
        let mut retries = 0;
        loop {
            let Some((turn, engine_slot)) = self.start().await else {
                return Ok(Done::NotRun);
            };
            let attempted = tokio::select! {
                biased;
                attempted = self.attempt(&engine_slot, listener) => attempted,
                // The engine is gone: the trial is left as it is, and runs elsewhere.
                () = engine_slot.died() => continue,
            };
            drop(turn);
            let record = match attempted {
                Ok(Attempted::Ran(record) | Attempted::Recorded(record)) => record,
                // A job of an executor that was left may still run.
                Ok(Attempted::Held(_) | Attempted::Lost) => return Ok(Done::NotRun),
                Err(RunError::Trial(error)) if error.is_usage() => return self.refuse(error),
                Err(error) => return Err(error),
            };
            if record.status == TrialStatus::Error && self.has_died(&engine_slot).await {
                // The failure is the engine's: another engine runs the trial, which is not a retry.
                set_aside(&folder)?;
                continue;
            }
            drop(engine_slot);
            if !self.wants_retry(&record, retries) {
                return Ok(Done::Ended(Box::new(summary(&record, &folder))));
            }
            tokio::select! {
                () = tokio::time::sleep(pause(retries)) => {}
                () = self.cancel.cancelled() => {}
            }
            retries += 1;
        }
    }

    /// Wait until the trial may start; `None` when it is not to be started any more.
    async fn start(&self) -> Option<(StartPermit<'_>, EngineSlot<'_>)> {
        let starting = async {
            self.runner.control.resumed().await;
            let turn = self.providers.turn(self.plan.adapter.provider()).await;
            let slot = self.slots.acquire().await.ok();
            if self.cancel.is_cancelled() || self.stopped.contains(&self.plan.name) {
                return None;
            }
            let engine_slot = self.resources.engine_slot().await;
            Some((
                StartPermit {
                    _turn: turn,
                    _slot: slot,
                },
                engine_slot,
            ))
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            started = starting => started,
        }
    }

    /// Whether the trial is run once more after this record. Tells providers and siblings how it ended.
    fn wants_retry(&self, record: &Record, retries: u32) -> bool {
        let now = Timestamp::now();
        let mut errors = record.errors.iter();
        let reset = errors.find_map(|error| reset_time(&error.message, now));
        let resets_in = reset.map(|at| at.duration_since(now).unsigned_abs());
        let provider = self.plan.adapter.provider();
        self.providers.ended(provider, record.outcome, resets_in);
        let is_hopeless = record.outcome.is_hopeless();
        if is_hopeless {
            self.stopped.insert(&self.plan.name);
        }
        let is_transient = record.outcome.is_infrastructure() && !is_hopeless;
        is_transient && retries < self.runner.retries && !self.cancel.is_cancelled()
    }

    /// Input that is not valid ends only its own trial. A run of one trial reports the error itself.
    fn refuse(&self, error: TrialError) -> Result<Done, RunError> {
        let run = self.runner.plan;
        if run.trials.len() == 1 {
            return Err(error.into());
        }
        // A folder that cannot be removed holds only a record that says `interrupted`.
        let _ = dir::remove(self.key().folder(&self.run_dir.path));
        Ok(Done::Refused(FailedStart::of(self.plan, &error)))
    }

    /// Whether the engine is dead; not waited for when the run is over.
    async fn has_died(&self, engine_slot: &EngineSlot<'_>) -> bool {
        tokio::select! {
            has_died = engine_slot.has_died() => has_died,
            () = self.cancel.cancelled() => false,
        }
    }

    async fn attempt(
        &self,
        engine_slot: &EngineSlot<'_>,
        listener: &RunListener<'_>,
    ) -> Result<Attempted, RunError> {
        let key = self.key();
        let folder = &key.folder(&self.run_dir.path);
        let events = self.resources.event_log(folder);
        let listener = |event: &RunEvent<'_>| {
            events.take(event);
            listener(self.number, event);
        };
        let scope = TrialScope {
            plan: self.plan,
            run_id: &self.run_dir.id,
            folder,
            listener: &listener,
            cancel: &self.cancel,
            cause: &Cause::default(),
        };
        let context = self.resources.context(engine_slot.sandbox(), &scope);
        let attempt = Attempt {
            leases: &key.leases(&self.run_dir.path),
            who: self.holder,
            until: None,
        };
        Ok(attempt.run(self.plan, &context).await?)
    }

    fn key(&self) -> TrialKey {
        trial_key(self.runner.plan, self.plan)
    }
}

/// The right of a trial to run: a turn at its provider, and a slot of the run.
struct StartPermit<'a> {
    _turn: Turn,
    _slot: Option<SemaphorePermit<'a>>,
}

/// Agents whose other trials would fail in the same way, and are not started.
#[derive(Default)]
pub(super) struct StoppedAgents {
    names: Mutex<BTreeSet<String>>,
}

impl StoppedAgents {
    fn contains(&self, agent: &str) -> bool {
        self.lock().contains(agent)
    }

    fn insert(&self, agent: &str) {
        self.lock().insert(agent.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
