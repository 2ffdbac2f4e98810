//! The head of a run on a cluster: submits missing trials, reads records, and resubmits lost
//! trials. All of its state is in the run's directory, so that another head can continue.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use fs_err as fs;
use proctor_gateway::VirtualKey;
use proctor_record::{
    outcome::Outcome,
    record::{
        self, Event, GatewayPlace, Meta, Record, RunDir, StoreError, TrialKey,
        lease::{Holder, Leases, STALE},
        summary,
    },
};
use proctor_sandbox::{Network, host::Host};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use super::{
    lost_trials::LostTrial,
    paths,
    planner::{
        Array, LeaseState, Planner, Queued, Step, TaskEnd, TaskId, TrialObservation, arrays,
    },
    slurm::{Shape, Slurm, end_in_log},
};
use crate::{
    cluster::spec::{GatewaySpec, SPEC_VERSION, SuiteSpec, TrialSpec, digest},
    config::SlurmSettings,
    model_access::{CoordinatorGateway, Models},
    plan::TrialPlan,
    run::{
        FailedStart, Gathered, Jobs, JobsFuture, RunError, RunListener, Runner, SNAPSHOT_FILE,
        attempt::{finished, finished_afresh, settled},
        cache_of, trial_key,
    },
    task::Files,
    trial::first_record,
    workspace::Bases,
};

/// The interval between rounds.
const ROUND: Duration = Duration::from_secs(1);
/// The maximum length of a quoted job log.
const LONGEST_LOG: usize = 2000;

/// The jobs of a run, according to Slurm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCount {
    /// Pending jobs.
    pub pending: usize,
    /// Running jobs.
    pub running: usize,
}

/// The jobs of the run in this directory; `None` if it was never on a cluster, or the cluster does
/// not respond.
pub async fn queued(run: &Utf8Path, host: &Host) -> Option<QueueCount> {
    let run = record::run_folder(run).ok()?;
    let folder = run.join(paths::FOLDER);
    if !folder.is_dir() {
        return None;
    }
    let slurm = Slurm {
        host,
        settings: &SlurmSettings::default(),
        name: paths::job_name(run.file_name()?),
        folder,
        parallel: 1,
    };
    let queue = slurm.queue().await.ok()?;
    let running = queue.values().filter(|state| **state == Queued::Running);
    let running = running.count();
    Some(QueueCount {
        pending: queue.len() - running,
        running,
    })
}

/// Runs the trials of a run as jobs of a Slurm cluster.
pub fn run_jobs(jobs: Jobs<'_>) -> JobsFuture<'_> {
    Box::pin(async move {
        let coordinator = Coordinator::open(jobs.runner, jobs.run_dir, jobs.settings)?;
        (jobs.on_start)();
        coordinator.run(jobs.listener, jobs.cancel).await
    })
}

/// The head of a run.
struct Coordinator<'a> {
    run: &'a Runner<'a>,
    run_dir: &'a RunDir,
    slurm: Slurm<'a>,
    who: Holder,
    planner: Planner,
    gateway: Option<(Models, CoordinatorGateway)>,
    keys: BTreeMap<usize, VirtualKey>,
    /// Keys that trials no longer need.
    used: Vec<VirtualKey>,
    begun: BTreeSet<usize>,
    /// Agents whose remaining trials are not run.
    stopped: BTreeSet<String>,
    last_job: Option<u64>,
    /// The suite at the start of the run.
    kept: String,
    bases: Bases,
    clock: Instant,
    gathered: Gathered,
}

impl<'a> Coordinator<'a> {
    /// Opens a run: reads the state of earlier heads and writes the files for nodes.
    fn open(
        run: &'a Runner<'a>,
        run_dir: &'a RunDir,
        settings: &'a SlurmSettings,
    ) -> Result<Coordinator<'a>, RunError> {
        let folder = run_dir.path.join(paths::FOLDER);
        for part in ["trials", "logs"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|source| StoreError { path, source })?;
        }
        let kept = run_dir.path.join(SNAPSHOT_FILE);
        let kept = fs::read_to_string(&kept).map_err(|source| StoreError { path: kept, source })?;
        let mut head = Coordinator {
            run,
            run_dir,
            slurm: Slurm {
                host: run.host,
                settings,
                name: paths::job_name(&run_dir.id),
                folder,
                parallel: run.parallel,
            },
            who: Holder::here(&run.host.name, None),
            planner: Planner::new(run.plan.trials.len(), run.retries),
            gateway: None,
            keys: BTreeMap::new(),
            used: Vec::new(),
            begun: BTreeSet::new(),
            stopped: BTreeSet::new(),
            last_job: None,
            kept,
            bases: Bases::of_run(&run_dir.path),
            clock: Instant::now(),
            gathered: Gathered::default(),
        };
        if settings.gateway == GatewayPlace::Head {
            head.open_gateway()?;
        }
        Ok(head)
    }

    fn open_gateway(&mut self) -> Result<(), RunError> {
        let Some(settings) = &self.run.execution.gateway else {
            return Ok(());
        };
        let host = self.run.host;
        let address = self.slurm.settings.address.as_ref().unwrap_or(&host.name);
        let (models, head, pem) = Models::on_head(settings, host, address)?;
        let folder = &self.slurm.folder;
        let head = head.with_certificate(folder.join(paths::CERTIFICATE));
        head.write(&folder.join(paths::GATEWAY), &pem)?;
        self.gateway = Some((models, head));
        Ok(())
    }

    /// Runs the loop until all trials are done, or until it is detached.
    async fn run(
        mut self,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<Gathered, RunError> {
        self.take_stock().await?;
        let most = self.slurm.most().await;
        loop {
            self.submit(most).await?;
            if self.planner.is_done() {
                return Ok(self.gathered);
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                () = cancel.cancelled() => return self.leave().await,
            }
            // Jobs continue even if the controller does not respond.
            if let Ok(queue) = self.slurm.queue().await {
                self.check(&queue, listener).await?;
            }
        }
    }

    /// Reads the state of earlier heads: records, and jobs that are still queued.
    async fn take_stock(&mut self) -> Result<(), RunError> {
        let mut known = paths::tasks(&self.slurm.folder);
        self.last_job = known.values().map(|task| task.job).max();
        let queue = match self.slurm.queue().await {
            // There are no jobs yet. A real problem is reported when jobs are submitted.
            Err(_) if known.is_empty() => BTreeMap::new(),
            queue => queue?,
        };
        self.note_jobs(&queue);
        let ends = if known.is_empty() {
            BTreeMap::new()
        } else {
            self.slurm.ends().await.unwrap_or_default()
        };
        for number in 0..self.run.plan.trials.len() {
            let folder = self.key(number).folder(&self.run_dir.path);
            if let Some(record) = settled(&folder, &self.run_dir.id) {
                if !folder.join(record::META_FILE).exists() {
                    // The process was killed after it wrote only one of the two files.
                    Meta::of(&record).write(&folder)?;
                }
                self.gathered.done.push(summary(&record, &folder));
                self.planner.over(number);
                continue;
            }
            self.admit(number)?;
            // A finished trial is retried because of its outcome, not because its job was killed
            // afterwards.
            let is_queued = known.get(&number).is_some_and(|it| queue.contains_key(it));
            if !is_queued && finished(&folder, Some(&self.run_dir.id)).is_some() {
                known.remove(&number);
            }
        }
        let folder = &self.slurm.folder;
        self.planner
            .restore(&known, &queue, |task| end(folder, task, &ends));
        Ok(())
    }

    /// Records jobs of the queue that are missing in our list: Slurm may have accepted a job whose
    /// submission failed.
    fn note_jobs(&mut self, queue: &BTreeMap<TaskId, Queued>) {
        let last = queue.keys().map(|task| task.job).max();
        self.last_job = self.last_job.max(last);
    }

    /// Creates the trial's key at the gateway of the head, if there is one.
    fn admit(&mut self, number: usize) -> Result<(), RunError> {
        if let Some((models, head)) = &self.gateway {
            let key = self.key(number);
            let label = format!("{}/{}/{}", key.agent, key.task, key.trial);
            self.keys.insert(number, models.admit(head, &label)?);
        }
        Ok(())
    }

    /// Submits waiting trials.
    async fn submit(&mut self, most: u32) -> Result<(), RunError> {
        let waiting = self.planner.waiting();
        let plans = &self.run.plan.trials;
        let settings = self.slurm.settings;
        let made = arrays(&waiting, |number| shape(&plans[number], settings), most);
        for array in made {
            match self.submit_array(&array).await {
                // The next round retries an unavailable controller; submitted jobs continue.
                Err(RunError::Slurm(_)) if self.planner.has_tasks() => return Ok(()),
                submitted => submitted?,
            }
        }
        Ok(())
    }

    async fn submit_array(&mut self, array: &Array<Shape>) -> Result<(), RunError> {
        for index in &array.indices {
            self.write_spec(number_of(array, *index)).await?;
        }
        let job = self.slurm.submit(array, self.last_job).await?;
        paths::add_job(&self.slurm.folder, job, array)?;
        self.last_job = Some(job);
        for index in &array.indices {
            let task = TaskId { job, index: *index };
            self.planner.submitted(number_of(array, *index), task);
        }
        Ok(())
    }

    async fn write_spec(&self, number: usize) -> Result<(), StoreError> {
        let path = paths::spec(&self.slurm.folder, number);
        let spec = match TrialSpec::read(&path) {
            // The plan comes from the original run; time and budget come from the resuming run.
            Ok(kept) => {
                let now = self.spec(number, None);
                let spec = TrialSpec {
                    time_limit_s: now.time_limit_s,
                    gateway: now.gateway,
                    ..kept.clone()
                };
                if spec == kept {
                    return Ok(());
                }
                spec
            }
            Err(_) => self.spec(number, self.commit(number).await),
        };
        let bytes = serde_json::to_vec_pretty(&spec).expect("strings can be serialized");
        // Atomic, but not synced: there may be thousands, and a resubmission writes the file again.
        let written = NamedTempFile::new_in(path.parent().unwrap_or(&path)).and_then(|mut file| {
            file.write_all(&bytes)?;
            Ok(file.persist(&path)?)
        });
        written
            .map(drop)
            .map_err(|source| StoreError { path, source })
    }

    /// The commit that a trial starts from. If a repository cannot be read here, the trial records
    /// the error.
    async fn commit(&self, number: usize) -> Option<String> {
        let plan = &self.run.plan.trials[number];
        let Files::Repo(checkout) = &plan.task.files else {
            return None;
        };
        let start = plan.treatment.start(checkout);
        let commit = self.bases.commit(&start, self.run.host).await;
        commit.ok().flatten()
    }

    fn spec(&self, number: usize, commit: Option<String>) -> TrialSpec {
        let run = self.run;
        let plan = &run.plan.trials[number];
        let key = self.key(number);
        let gateway = run.execution.gateway.as_ref().map(|gateway| {
            let trials = run.plan.trials.len();
            match self.slurm.settings.gateway {
                GatewayPlace::Trial => GatewaySpec::Trial {
                    slice_usd: gateway.run_budget_usd.map(|budget| budget.share(trials)),
                },
                GatewayPlace::Head => GatewaySpec::Head {
                    file: self.slurm.folder.join(paths::GATEWAY).into_string(),
                },
            }
        });
        // Only suites run on clusters.
        let suite_file = run
            .plan
            .suite_file()
            .map(proctor_record::fs::named::absolute);
        let suite_file = suite_file.unwrap_or_default();
        TrialSpec {
            version: SPEC_VERSION.to_owned(),
            run_id: self.run_dir.id.clone(),
            folder: key.folder(&self.run_dir.path).into_string(),
            claims: key.leases(&self.run_dir.path).prefix().to_string(),
            cache: cache_of(run.results_dir).into_string(),
            suite: SuiteSpec {
                file: suite_file.into_string(),
                kept: self.run_dir.path.join(SNAPSHOT_FILE).into_string(),
                // The digest of the snapshot, because the file may have changed since the start of the run.
                sha256: digest(&self.kept),
            },
            agent: key.agent,
            task: key.task,
            config_hash: plan.task.config_hash.clone(),
            commit,
            trial: key.trial,
            cwd: run.host.cwd.to_string(),
            sandbox: Some(run.execution.sandbox),
            network: run.execution.network.as_ref().and_then(|network| {
                let name = network.as_str();
                Network::named(name).map(|_| name.to_owned())
            }),
            keep_workspace: Some(run.execution.keep_workspace),
            time_limit_s: self.slurm.settings.time.map(|time| time.as_secs()),
            gateway,
        }
    }

    fn key(&self, number: usize) -> TrialKey {
        trial_key(self.run.plan, &self.run.plan.trials[number])
    }

    /// Checks the trials whose state may have changed.
    async fn check(
        &mut self,
        queue: &BTreeMap<TaskId, Queued>,
        listener: &RunListener<'_>,
    ) -> Result<(), RunError> {
        self.note_jobs(queue);
        let now = self.clock.elapsed();
        let changed = self.planner.to_check(queue, now);
        let is_any_lost = |(number, task): &(usize, Option<TaskId>)| {
            task.is_some() && self.planner.is_lost(*number, now)
        };
        let ends = if changed.iter().any(is_any_lost) {
            self.slurm.ends().await.unwrap_or_default()
        } else {
            BTreeMap::new()
        };
        let before = self.stopped.clone();
        for (number, gone) in changed {
            let end = gone.map(|task| end(&self.slurm.folder, task, &ends));
            let ended = self.check_trial(number, end, listener)?;
            if ended.is_some_and(|record| record.outcome.is_hopeless()) {
                self.stopped.insert(self.key(number).agent);
            }
        }
        for agent in self.stopped.difference(&before) {
            self.stop(agent).await;
        }
        if let Some((models, _)) = &self.gateway {
            for key in self.used.drain(..) {
                models.gateway().revoke(&key).await;
            }
        }
        Ok(())
    }

    /// Checks one trial. Returns its record if it is final.
    fn check_trial(
        &mut self,
        number: usize,
        end: Option<TaskEnd>,
        listener: &RunListener<'_>,
    ) -> Result<Option<Record>, RunError> {
        let key = self.key(number);
        let (folder, leases) = (
            key.folder(&self.run_dir.path),
            key.leases(&self.run_dir.path),
        );
        let mut record = match end {
            None => finished(&folder, Some(&self.run_dir.id)),
            Some(_) => finished_afresh(&folder, &self.run_dir.id),
        };
        if self.begun.len() < self.run.plan.trials.len()
            && (record.is_some() || folder.exists())
            && self.begun.insert(number)
        {
            listener(number, &Event::started(&key.agent, &key.task, key.trial));
        }
        let now = self.clock.elapsed();
        let seen = TrialObservation {
            record: record.as_ref().map(|record| record.outcome),
            // The lease is relevant only after the task has ended.
            lease: end.map_or(LeaseState::Free, |_| claimed(&leases)),
            end,
        };
        let mut step = self.planner.decide(number, seen, now);
        if let Step::Conclude(outcome, mut message) = step {
            if outcome == Outcome::Sandbox {
                // A job that fails before it takes the lease leaves only its log.
                let said = self.log_of(number);
                if !said.is_empty() {
                    message = format!("{message}; output of the last job: {said}");
                }
            }
            let dead = LostTrial {
                first: &|| first_record(&self.run.plan.trials[number], &self.run_dir.id),
                folder: &folder,
                leases: &leases,
            };
            let concluded = dead.conclude(&self.who, outcome, message)?;
            let seen = TrialObservation {
                record: Some(concluded.outcome),
                ..seen
            };
            record = Some(concluded);
            step = self.planner.decide(number, seen, now);
        }
        if matches!(step, Step::Ended | Step::NotRun | Step::Refused) {
            self.used.extend(self.keys.remove(&number));
        }
        match (step, record) {
            (Step::Ended, Some(record)) => {
                listener(number, &Event::ended(&record));
                self.gathered.done.push(summary(&record, &folder));
                return Ok(Some(record));
            }
            (Step::NotRun, _) if !self.stopped.contains(&key.agent) => {
                self.gathered.was_cancelled = true;
            }
            (Step::Refused, _) => {
                let failed = self.refused(&key, number);
                self.gathered.failed_starts.push(failed);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Stops the pending trials of an agent, because they would fail in the same way.
    async fn stop(&self, agent: &str) {
        let plans = &self.run.plan.trials;
        let tasks = self.planner.tasks_of(|number| plans[number].name == agent);
        // A job that cannot be cancelled fails on its own.
        let _ = self.slurm.cancel_pending(&tasks).await;
    }

    /// The end of the log of a trial's last job.
    fn log_of(&self, number: usize) -> String {
        let task = paths::tasks(&self.slurm.folder).get(&number).copied();
        let log = task.map(|task| paths::log(&self.slurm.folder, task));
        let text = log.and_then(|log| fs::read_to_string(log).ok());
        let text = text.unwrap_or_default();
        text.trim().chars().take(LONGEST_LOG).collect()
    }

    fn refused(&self, key: &TrialKey, number: usize) -> FailedStart {
        let text = self.log_of(number);
        let text = text.trim_start_matches("error: ");
        let mut parts = text.splitn(2, "\nhint: ");
        FailedStart {
            agent: key.agent.clone(),
            task: key.task.clone(),
            trial: key.trial,
            message: parts.next().unwrap_or_default().to_owned(),
            hint: parts.next().map(str::to_owned),
        }
    }

    /// Ends this head before the run is finished.
    async fn leave(mut self) -> Result<Gathered, RunError> {
        // Without its gateway no trial makes progress.
        if self.run.on_end.cancels() || self.gateway.is_some() {
            self.slurm.cancel().await?;
        } else {
            self.gathered.is_detached = true;
        }
        Ok(self.gathered)
    }
}

/// The cause of a task's end, from Slurm or its log.
fn end(folder: &Utf8Path, task: TaskId, ends: &BTreeMap<TaskId, TaskEnd>) -> TaskEnd {
    let log = || end_in_log(&paths::log(folder, task));
    match ends.get(&task).copied() {
        Some(end @ (TaskEnd::Timeout | TaskEnd::Memory)) => end,
        said => log().or(said).unwrap_or(TaskEnd::Gone),
    }
}

fn number_of(array: &Array<Shape>, index: u32) -> usize {
    usize::try_from(array.base + index).unwrap_or(usize::MAX)
}

fn claimed(leases: &Leases) -> LeaseState {
    let Ok(Some(seen)) = leases.last() else {
        return LeaseState::Free;
    };
    match (seen.ended, leases.server_time()) {
        (Some(ended), _) => LeaseState::Over(ended),
        (None, Ok(now)) if seen.is_silent(STALE, now) => LeaseState::Free,
        (None, _) => LeaseState::Alive,
    }
}

/// The resources of a trial's job: the suite's, or the task's if they are larger.
fn shape(plan: &TrialPlan, settings: &SlurmSettings) -> Shape {
    let needs = match &plan.task.files {
        Files::Image(environment) => Some(environment),
        _ => None,
    };
    let memory = needs.and_then(|needs| needs.memory_mb);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few processors"
    )]
    let cpus = needs.and_then(|needs| needs.cpus.map(|cpus| cpus.ceil() as u32));
    Shape {
        memory_mib: settings.memory.map(|bytes| bytes >> 20).max(memory),
        cpus: settings.cpus.max(cpus),
    }
}
