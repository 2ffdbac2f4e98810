//! One trial of a run with its attempts: waits for its start, runs it, and retries after
//! infrastructure failures.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{Timestamp, tz::TimeZone};
use proctor_record::{
    fs::dir,
    outcome::{LimitReset, Outcome, limit_reset},
    record::{
        self, Event, Meta, Record, RunDir, SandboxRecord, TrialKey, TrialStatus, TrialSummary,
        lease::Holder, summary,
    },
};
use proctor_sandbox::EngineSlot;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::{
    FailedStart, Resources, RunError, Runner, TrialScope,
    attempt::{Attempt, Attempted, set_aside, settled},
    experiment::Spending,
    runner::{RunListener, trial_key},
};
use crate::{
    plan::TrialPlan,
    trial::{
        Cause, TrialError,
        provider_limits::{Providers, Turn, pause},
    },
};

/// When the provider lifts the limit that the record's errors speak of. A CLI writes times without a zone in the zone of
/// the place where it runs, which is UTC in containers.
fn announced_reset(record: &Record) -> Option<LimitReset> {
    let local = match record.sandbox {
        SandboxRecord::Local => TimeZone::system(),
        SandboxRecord::Docker(_) => TimeZone::UTC,
    };
    let now = Timestamp::now();
    let mut errors = record.errors.iter();
    errors.find_map(|error| limit_reset(&error.message, now, &local))
}

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
    pub(super) spending: &'a Spending,
    /// Cancelled with the trial, or with the run.
    pub(super) cancel: CancellationToken,
    /// The trial's index in the plan.
    pub(super) number: usize,
    pub(super) plan: &'a TrialPlan,
}

impl Job<'_> {
    /// Runs the trial, unless it is already finished.
    pub(super) async fn run(self, listener: &RunListener<'_>) -> Result<Done, RunError> {
        let folder = self.key().folder(&self.run_dir.path);
        if let Some(record) = settled(&folder, &self.run_dir.id) {
            if !folder.join(record::META_FILE).exists() {
                // An earlier process was killed after it wrote only one of the two files.
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
                // The engine is dead. The trial is abandoned there and runs on another engine.
                () = engine_slot.died() => continue,
            };
            drop(turn);
            let record = match attempted {
                Ok(Attempted::Ran(record) | Attempted::Recorded(record)) => record,
                // A job of another executor may still run.
                Ok(Attempted::Held(_) | Attempted::Lost) => return Ok(Done::NotRun),
                Err(RunError::Trial(error)) if error.is_usage() => return self.refuse(error),
                Err(error) => return Err(error),
            };
            if record.status == TrialStatus::Error && self.has_died(&engine_slot).await {
                // The engine failed. Another engine runs the trial, which does not count as a retry.
                set_aside(&folder)?;
                continue;
            }
            drop(engine_slot);
            self.spending.add(&record);
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

    /// Waits until the trial can start; `None` if it must not be started any more.
    async fn start(&self) -> Option<(StartPermit<'_>, EngineSlot<'_>)> {
        let starting = async {
            self.runner.control.resumed().await;
            let turn = self.providers.turn(self.plan.adapter.provider()).await;
            let slot = self.slots.acquire().await.ok();
            let is_stopped = self.cancel.is_cancelled() || self.stopped.contains(&self.plan.name);
            if is_stopped || self.spending.exhausted().is_some() {
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

    /// Whether the trial is retried after this record. Updates the provider limits and stopped
    /// agents.
    fn wants_retry(&self, record: &Record, retries: u32) -> bool {
        let reset = announced_reset(record);
        let provider = self.plan.adapter.provider();
        self.providers.ended(provider, record.outcome, reset);
        let is_limited = record.outcome == Outcome::RateLimit;
        let is_hopeless =
            record.outcome.is_hopeless() || is_limited && reset == Some(LimitReset::TooFar);
        if is_hopeless {
            self.stopped.insert(&self.plan.name);
        }
        let is_transient = record.outcome.is_infrastructure() && !is_hopeless;
        is_transient && retries < self.runner.retries && !self.cancel.is_cancelled()
    }

    /// Handles invalid input, which ends only its own trial. A run of one trial reports the error
    /// itself.
    fn refuse(&self, error: TrialError) -> Result<Done, RunError> {
        let run = self.runner.plan;
        if run.trials.len() == 1 {
            return Err(error.into());
        }
        // A remaining directory contains only a record of an interrupted trial.
        let _ = dir::remove(self.key().folder(&self.run_dir.path));
        Ok(Done::Refused(FailedStart::of(self.plan, &error)))
    }

    /// Whether the engine is dead. Does not wait if the run is cancelled.
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
        let listener = |event: &Event| {
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

/// The permit of a trial to run: of its provider, and of the run.
struct StartPermit<'a> {
    _turn: Turn,
    _slot: Option<SemaphorePermit<'a>>,
}

/// Agents whose other trials would fail in the same way and are not started.
#[derive(Default)]
pub(super) struct StoppedAgents {
    names: Mutex<BTreeSet<String>>,
}

impl StoppedAgents {
    fn contains(&self, agent: &str) -> bool {
        self.lock().contains(agent)
    }

    /// Starts trials of this agent again.
    pub(super) fn remove(&self, agent: &str) {
        self.lock().remove(agent);
    }

    fn insert(&self, agent: &str) {
        self.lock().insert(agent.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
