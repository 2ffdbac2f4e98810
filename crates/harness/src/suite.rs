//! Runs a suite: its trials in parallel, each with a folder of its own, none lost. A run that
//! was ended can be resumed: what is finished stays, the rest is run.

use std::{collections::BTreeSet, sync::Mutex};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use futures_util::{Stream, StreamExt, stream::FuturesUnordered};
use proctor_gateway::GatewayError;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::{
    attempt::{Attempt, Attempted, finished, set_aside, settled},
    calibration::calibrate,
    claim::{Claims, Holder},
    cluster::{Gathered, Head, OnEnd, slurm::SlurmError},
    config::{Execution, Executor, SlurmSettings},
    control::Control,
    event::RunEvent,
    host::Host,
    litellm::{LiteLlm, LiteLlmAccount, LiteLlmError},
    models::{self, Models},
    plan::{SuitePlan, TrialPlan},
    platform::pointer,
    providers::{Providers, Turn, pause},
    runner::{CACHE, FailedStart, RunSummary, TrialSummary, judges, summary},
    sandbox::{Pool, Seat, docker::EngineError},
    store::{self, EventWriter, Meta, RunDir, StoreError, TrialStatus},
    trial::{self, TrialError},
    workspace::Bases,
};

pub(crate) const PLAN_FILE: &str = "plan.json";
/// The suite's file as it was.
pub(crate) const SNAPSHOT_FILE: &str = "suite.yaml";
pub(crate) const SUMMARY_FILE: &str = "summary.json";

/// Who is told, with the number of the trial in the plan; what is no trial's comes with 0.
pub type SuiteListener<'a> = dyn Fn(usize, &RunEvent<'_>) + Send + Sync + 'a;

/// What to run, and how.
pub struct SuiteRun<'a> {
    /// The trials.
    pub plan: &'a SuitePlan,
    /// The suite's file.
    pub suite_file: &'a Utf8Path,
    /// What stands in it, kept with the results.
    pub suite_text: &'a str,
    /// The machine.
    pub host: &'a Host,
    /// Where results go.
    pub results_dir: &'a Utf8Path,
    /// Where and how trials execute.
    pub execution: &'a Execution,
    /// How many trials run at the same time.
    pub parallel: usize,
    /// How often a trial that failed for want of infrastructure is tried again.
    pub retries: u32,
    /// What may be asked of the run while it goes on.
    pub control: &'a Control,
    /// What becomes of a cluster's jobs when the run is cancelled.
    pub on_end: &'a OnEnd,
}

/// What a run was meant to do, so that it can be resumed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptPlan {
    /// The suite's file, as it was named.
    #[serde(default)]
    pub(crate) suite: Option<String>,
    seed: u64,
    pub(crate) trials: Vec<TrialKey>,
}

/// Which trial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TrialKey {
    pub(crate) agent: String,
    pub(crate) task: String,
    pub(crate) trial: u32,
}

impl KeptPlan {
    /// Whether the same is to be run; the suite's file may have moved.
    fn is_same(&self, other: &KeptPlan) -> bool {
        self.seed == other.seed && self.trials == other.trials
    }

    pub(crate) fn read(run: &Utf8Path) -> Result<KeptPlan, SuiteError> {
        let kept = fs::read(run.join(PLAN_FILE)).ok();
        let kept = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        kept.ok_or_else(|| SuiteError::NoRun {
            run: run.to_owned(),
        })
    }
}

/// What is known of a run from its folder alone, while it runs or afterwards.
#[derive(Debug, Serialize)]
pub struct RunStatus {
    /// Whether a living process runs it.
    pub is_running: bool,
    /// The trials that have ended, and how many have not.
    pub summary: RunSummary,
}

/// Look at a run's folder.
pub fn status(run: &Utf8Path) -> Result<RunStatus, SuiteError> {
    let path = store::run_folder(run).unwrap_or_else(|_| run.to_owned());
    let kept = KeptPlan::read(&path)?;
    let mut trials: Vec<TrialSummary> = Vec::new();
    for key in &kept.trials {
        let folder = key.folder(&path);
        trials.extend(finished(&folder).map(|record| summary(&record, &folder)));
    }
    trials.sort_by(|one, other| key_of(one).cmp(&key_of(other)));
    let tasks = calibrate(&mut trials);
    let summary = RunSummary::of(&path, kept.trials.len(), trials, false);
    Ok(RunStatus {
        is_running: store::is_locked(&path),
        summary: RunSummary {
            litellm: LiteLlmAccount::read(&path),
            tasks,
            ..summary
        },
    })
}

impl TrialKey {
    pub(crate) fn of(plan: &TrialPlan) -> TrialKey {
        TrialKey {
            agent: plan.name.clone(),
            task: plan.task.name.clone(),
            trial: plan.number,
        }
    }

    /// The trial's folder in a run.
    pub(crate) fn folder(&self, run: &Utf8Path) -> Utf8PathBuf {
        run.join("trials").join(self.path())
    }

    /// The claims to the trial.
    pub(crate) fn claims(&self, run: &Utf8Path) -> Claims {
        Claims::at(run.join("claims").join(self.path()))
    }

    fn path(&self) -> Utf8PathBuf {
        store::trial_path(&self.agent, &self.task, self.trial)
    }
}

/// Why a suite could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The results folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run to resume is not there.
    #[error("there is no run {run} to resume")]
    NoRun {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// Another process runs it.
    #[error("{run} is running")]
    Running {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// The suite is no longer the one that was run.
    #[error("{run} was made from other agents, tasks or trials")]
    Changed {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// A trial's input is bad.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// There is nowhere to run.
    #[error(transparent)]
    Sandbox(#[from] EngineError),
    /// There is no way to the models.
    #[error("the gateway could not be started")]
    Gateway(#[from] GatewayError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Slurm(SlurmError),
    /// LiteLLM cannot be used.
    #[error(transparent)]
    LiteLlm(#[from] LiteLlmError),
}

/// What stops an agent: trials that would fail in the same way are not started.
#[derive(Default)]
struct Stopped {
    agents: Mutex<BTreeSet<String>>,
}

impl SuiteRun<'_> {
    /// Run all trials in a new folder.
    pub async fn run(
        &self,
        listener: &SuiteListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        let run_dir = RunDir::create_plain(&self.results_dir.join("runs"))?;
        store::write_json(&run_dir.path.join(PLAN_FILE), &self.kept_plan())?;
        let snapshot = run_dir.path.join(SNAPSHOT_FILE);
        fs::write(&snapshot, self.suite_text).map_err(|source| StoreError {
            path: snapshot,
            source,
        })?;
        self.link_latest(&run_dir);
        self.run_in(&run_dir, listener, cancel).await
    }

    /// Run what is missing of an earlier run.
    pub async fn resume(
        &self,
        run: &Utf8Path,
        listener: &SuiteListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        if !KeptPlan::read(run)?.is_same(&self.kept_plan()) {
            return Err(SuiteError::Changed {
                run: run.to_owned(),
            });
        }
        let run_dir = RunDir::open(run).map_err(|_| SuiteError::Running {
            run: run.to_owned(),
        })?;
        self.run_in(&run_dir, listener, cancel).await
    }

    async fn run_in(
        &self,
        run_dir: &RunDir,
        listener: &SuiteListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        if let Executor::Slurm(settings) = &self.execution.executor {
            return self
                .run_on_cluster(run_dir, settings, listener, cancel)
                .await;
        }
        let gateway = self.execution.gateway.as_ref();
        let Some(settings) = gateway.and_then(|gateway| gateway.litellm.as_ref()) else {
            return self.run_trials(run_dir, listener, cancel).await;
        };
        let litellm = LiteLlm::open(settings, self.host, &run_dir.path, cancel).await?;
        let host = litellm.host(self.host);
        let run = SuiteRun {
            host: &host,
            ..*self
        };
        let summary = run.run_trials(run_dir, listener, cancel).await;
        litellm.close().await;
        // Only now is its log whole.
        let mut summary = summary?;
        summary.litellm = LiteLlmAccount::read(&run_dir.path);
        store::write_json(&run_dir.path.join(SUMMARY_FILE), &summary)?;
        Ok(summary)
    }

    async fn run_trials(
        &self,
        run_dir: &RunDir,
        listener: &SuiteListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        let stopped = Stopped::default();
        let pool = Pool::open(self.execution, self.host, &run_dir.path).await?;
        let models = Models::start(self.execution, &self.host.env)?;
        let judges = match &models {
            Some(models) => Some(models.for_judges()),
            None => judges(&self.plan.trials, &self.host.env)?,
        };
        let cache = self.results_dir.join(CACHE);
        let providers = Providers::new(self.execution.providers.clone());
        let bases = Bases::of_run(&run_dir.path);
        let slots = Semaphore::new(self.parallel);
        let who = Holder::here(&self.host.name, None);
        // Also cancelled when a trial cannot be written down: then no other can be either.
        let stop = cancel.child_token();
        let events = EventWriter::start().map_err(|source| StoreError {
            path: run_dir.path.clone(),
            source,
        })?;
        let started = RunEvent::RunStarted {
            run_dir: &run_dir.path,
            trials: self.plan.trials.len(),
        };
        listener(0, &started);
        let trials = self.plan.trials.iter().enumerate().map(|(number, plan)| {
            let job = Job {
                run: self,
                run_dir,
                stopped: &stopped,
                pool: &pool,
                models: models.as_ref(),
                judges: judges.as_ref(),
                cache: &cache,
                bases: &bases,
                providers: &providers,
                slots: &slots,
                events: &events,
                who: &who,
                cancel: self.control.token(number, &stop),
            };
            job.run(number, plan, listener)
        });
        // All wait at once, so that one whose provider rests does not keep others from running.
        let running: FuturesUnordered<_> = trials.collect();
        let gathered = pool.watched(async {
            let gathered = gather(running, &stop).await;
            pool.close().await;
            gathered
        });
        let gathered = gathered.await;
        let gathered = Gathered {
            lost_engines: pool.lost(),
            ..gathered?
        };
        self.sum_up(run_dir, gathered, cancel)
    }

    /// Hand the trials to a cluster.
    async fn run_on_cluster(
        &self,
        run_dir: &RunDir,
        settings: &SlurmSettings,
        listener: &SuiteListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        let head = Head::open(self, run_dir, settings)?;
        let started = RunEvent::RunStarted {
            run_dir: &run_dir.path,
            trials: self.plan.trials.len(),
        };
        listener(0, &started);
        let gathered = head.run(listener, cancel).await?;
        self.sum_up(run_dir, gathered, cancel)
    }

    fn sum_up(
        &self,
        run_dir: &RunDir,
        gathered: Gathered,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, SuiteError> {
        let mut done = gathered.done;
        done.sort_by(|one, other| key_of(one).cmp(&key_of(other)));
        let tasks = calibrate(&mut done);
        let planned = self.plan.trials.len();
        let is_cancelled =
            cancel.is_cancelled() || self.control.has_cancelled() || gathered.was_cancelled;
        let summary = RunSummary {
            detached: gathered.is_detached,
            lost_engines: gathered.lost_engines,
            failed_starts: gathered.failed_starts,
            tasks,
            ..RunSummary::of(&run_dir.path, planned, done, is_cancelled)
        };
        store::write_json(&run_dir.path.join(SUMMARY_FILE), &summary)?;
        if let Some(log_dir) = &self.execution.log_dir {
            let paths = self
                .plan
                .trials
                .iter()
                .map(|plan| TrialKey::of(plan).path());
            let trials = run_dir.path.join("trials");
            models::copy_calls(&trials, &log_dir.join(&run_dir.id), paths)?;
        }
        Ok(summary)
    }

    fn kept_plan(&self) -> KeptPlan {
        let trials = self.plan.trials.iter().map(TrialKey::of);
        KeptPlan {
            suite: Some(self.suite_file.to_string()),
            seed: self.plan.seed,
            trials: trials.collect(),
        }
    }

    /// `latest` points to the newest run, relatively, so that the folder can be moved.
    fn link_latest(&self, run_dir: &RunDir) {
        let Some(name) = run_dir.path.file_name() else {
            return;
        };
        let latest = self.results_dir.join("latest");
        let fresh = self.results_dir.join(format!(".latest-{}", run_dir.id));
        let target = Utf8Path::new("runs").join(name);
        // A link is a comfort: a run without it is whole.
        let _ = pointer::point(
            latest.as_std_path(),
            target.as_std_path(),
            fresh.as_std_path(),
        );
    }
}

fn key_of(trial: &TrialSummary) -> (&str, &str, u32) {
    (&trial.agent, &trial.task, trial.trial)
}

/// What came of one trial of a suite.
enum Done {
    /// It has a record.
    Ended(Box<TrialSummary>),
    /// What it was given is bad.
    Refused(FailedStart),
    /// It was not started.
    NotRun,
}

/// Wait for all trials, also when one of them breaks the run.
async fn gather(
    mut running: impl Stream<Item = Result<Done, SuiteError>> + Unpin,
    stop: &CancellationToken,
) -> Result<Gathered, SuiteError> {
    let mut gathered = Gathered::default();
    let mut broken = None;
    while let Some(trial) = running.next().await {
        match trial {
            Ok(Done::Ended(summary)) => gathered.done.push(*summary),
            Ok(Done::Refused(failed)) => gathered.failed_starts.push(failed),
            Ok(Done::NotRun) => {}
            Err(error) => {
                stop.cancel();
                broken.get_or_insert(error);
            }
        }
    }
    broken.map_or(Ok(gathered), Err)
}

/// One trial of a suite, its attempts included.
struct Job<'a> {
    run: &'a SuiteRun<'a>,
    run_dir: &'a RunDir,
    stopped: &'a Stopped,
    pool: &'a Pool,
    models: Option<&'a Models>,
    judges: Option<&'a Models>,
    cache: &'a Utf8Path,
    bases: &'a Bases,
    providers: &'a Providers,
    slots: &'a Semaphore,
    events: &'a EventWriter,
    /// Who runs it.
    who: &'a Holder,
    /// Cancelled when the trial is, or the run.
    cancel: CancellationToken,
}

impl Job<'_> {
    /// Run the trial, or take what an earlier run left. Bad input of one trial is no reason to
    /// give up the others.
    async fn run(
        self,
        number: usize,
        plan: &TrialPlan,
        listener: &SuiteListener<'_>,
    ) -> Result<Done, SuiteError> {
        let folder = TrialKey::of(plan).folder(&self.run_dir.path);
        if let Some(record) = settled(&folder) {
            if !folder.join(store::META_FILE).exists() {
                // Proctor was killed between the two.
                Meta::of(&record).write(&folder)?;
            }
            return Ok(Done::Ended(Box::new(summary(&record, &folder))));
        }
        let mut attempt = 0;
        loop {
            tokio::select! {
                () = self.run.control.resumed() => {}
                () = self.cancel.cancelled() => {}
            }
            let provider = plan.adapter.provider();
            let turn = tokio::select! {
                turn = self.turn(provider) => Some(turn),
                () = self.cancel.cancelled() => None,
            };
            if turn.is_none() || self.cancel.is_cancelled() || self.stopped.has(&plan.name) {
                return Ok(Done::NotRun);
            }
            let seat = tokio::select! {
                seat = self.pool.seat() => seat,
                () = self.cancel.cancelled() => return Ok(Done::NotRun),
            };
            let attempted = tokio::select! {
                biased;
                attempted = self.attempt(number, plan, &seat, listener) => attempted,
                // Nobody there would answer: it is left as it is, and done elsewhere.
                () = seat.died() => continue,
            };
            drop(turn);
            let record = match attempted {
                Ok(Attempted::Ran(record) | Attempted::Recorded(record)) => record,
                // Jobs of an executor that was left may still run.
                Ok(Attempted::Held(_) | Attempted::Lost) => return Ok(Done::NotRun),
                Err(SuiteError::Trial(error)) if error.is_usage() => {
                    return Ok(Done::Refused(FailedStart::of(plan, &error)));
                }
                Err(error) => return Err(error),
            };
            if record.status == TrialStatus::Error && self.has_died(&seat).await {
                // It says nothing of the trial, be it that the agent was done and nobody could
                // judge it: another engine does it, and it is no retry.
                set_aside(&folder)?;
                continue;
            }
            drop(seat);
            self.providers.ended(provider, record.outcome);
            let is_hopeless = record.outcome.is_hopeless();
            if is_hopeless {
                self.stopped.stop(&plan.name);
            }
            let try_again = record.outcome.is_infrastructure() && !is_hopeless;
            if !try_again || attempt == self.run.retries || self.cancel.is_cancelled() {
                return Ok(Done::Ended(Box::new(summary(&record, &folder))));
            }
            tokio::select! {
                () = tokio::time::sleep(pause(attempt)) => {}
                () = self.cancel.cancelled() => {}
            }
            attempt += 1;
        }
    }

    /// Wait until the provider takes another trial, and then until there is room for one.
    async fn turn(&self, provider: &str) -> (Turn, Option<SemaphorePermit<'_>>) {
        let turn = self.providers.turn(provider).await;
        (turn, self.slots.acquire().await.ok())
    }

    /// Whether the engine there is dead; nobody waits for the answer when the run is over.
    async fn has_died(&self, seat: &Seat<'_>) -> bool {
        tokio::select! {
            has_died = seat.has_died() => has_died,
            () = self.cancel.cancelled() => false,
        }
    }

    async fn attempt(
        &self,
        number: usize,
        plan: &TrialPlan,
        seat: &Seat<'_>,
        listener: &SuiteListener<'_>,
    ) -> Result<Attempted, SuiteError> {
        let key = TrialKey::of(plan);
        let folder = &key.folder(&self.run_dir.path);
        let events = self.events.trial(folder);
        let listener = |event: &RunEvent<'_>| {
            events.take(event);
            listener(number, event);
        };
        let context = trial::Context {
            host: self.run.host,
            sandbox: seat.sandbox(),
            models: self.models,
            pass_through: &self.run.execution.pass_through,
            judges: self.judges,
            cache: self.cache,
            bases: self.bases,
            run_id: &self.run_dir.id,
            folder,
            listener: &listener,
            cancel: &self.cancel,
            cause: &trial::Cause::default(),
        };
        let claims = key.claims(&self.run_dir.path);
        let attempt = Attempt {
            claims: &claims,
            who: self.who,
            until: None,
        };
        Ok(attempt.run(plan, &context).await?)
    }
}

impl Stopped {
    fn has(&self, agent: &str) -> bool {
        self.lock().contains(agent)
    }

    fn stop(&self, agent: &str) {
        self.lock().insert(agent.to_owned());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        let agents = self.agents.lock();
        agents.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
