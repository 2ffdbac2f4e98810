//! Executes a plan: its trials in parallel, or as jobs of a cluster.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{dir, new_id, pointer},
    platform,
    record::{
        self, Event, PLAN_FILE, PlanFile, RunDir, SUMMARY_FILE, StoreError, TrialKey,
        control::RunRequests, lease::Holder,
    },
};
use proctor_report::calibration::calibrate;
use proctor_sandbox::host::Host;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    Gateways, ResourceSpec, Resources, RunError, RunSummary,
    agenda::Agenda,
    cache_of,
    experiment::Spending,
    job::{Job, StoppedAgents},
    jobs::{Gathered, Jobs, OnEnd, RunJobs},
    stage::Stage,
    summary::in_order,
};
use crate::{
    config::{Execution, Executor},
    model_access::{self, litellm::LiteLlmAccount},
    plan::{Input, RunPlan, TrialPlan},
    run::control::Control,
    trial::{TrialError, provider_limits::Providers},
    workspace::Bases,
};

/// Event callback. The first argument is the trial's index in the plan, 0 for events of the run.
pub type RunListener<'a> = dyn Fn(usize, &Event) + Send + Sync + 'a;

/// Excludes the results directory from the repository around it.
const IGNORE_FILE: &str = ".gitignore";

/// The suite file at the start of the run.
pub const SNAPSHOT_FILE: &str = "suite.yaml";

/// The link to the newest run.
const LATEST: &str = "latest";

/// The reaction of a resumed run to changed definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// It is refused.
    #[default]
    Refuse,
    /// The trials that are left run with the new definitions, as agents of their own.
    Accept,
}

/// A plan, and how to execute it.
pub struct Runner<'a> {
    /// The plan.
    pub plan: &'a RunPlan,
    /// The host.
    pub host: &'a Host,
    /// The directory of runs.
    pub results_dir: &'a Utf8Path,
    /// Where and how trials execute.
    pub execution: &'a Execution,
    /// The maximum number of concurrent trials.
    pub parallel: usize,
    /// The number of retries after infrastructure failures.
    pub retries: u32,
    /// Pauses the run and cancels trials.
    pub control: &'a Control,
    /// The reaction of a resumed run to changed definitions.
    pub on_change: OnChange,
    /// Whether a cluster's jobs are cancelled with the run.
    pub on_end: &'a OnEnd,
    /// Runs trials as jobs of a cluster; `None` runs all trials on this machine.
    pub run_jobs: Option<RunJobs>,
}

impl Runner<'_> {
    /// Runs all trials in a new directory.
    pub async fn run(
        &self,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, RunError> {
        let run_dir = self.make_folder()?;
        let plan = plan_file(self.plan, &run_dir.id);
        record::write_json(&run_dir.path.join(PLAN_FILE), &plan)?;
        if let Input::Suite { text, .. } = &self.plan.input {
            let path = run_dir.path.join(SNAPSHOT_FILE);
            fs::write(&path, text).map_err(|source| StoreError { path, source })?;
        }
        let earlier = record::run_folder(&self.results_dir.join(LATEST)).ok();
        self.link_latest(&run_dir.path);
        let ran = self.run_in(&run_dir, listener, cancel).await;
        // The directory of a run with invalid input is removed.
        let was_refused = match &ran {
            Ok(summary) => summary.failed_starts.len() == self.plan.trials.len(),
            Err(RunError::Trial(error)) => error.is_usage(),
            Err(_) => false,
        };
        if was_refused {
            let _ = dir::remove(&run_dir.path);
            if let Some(run) = earlier {
                self.link_latest(&run);
            }
        }
        ran
    }

    /// The newest of these runs, given oldest first, that is of the same suite or has the same trials.
    pub fn find_started(&self, runs: &[Utf8PathBuf]) -> Option<Utf8PathBuf> {
        let now = plan_file(self.plan, "");
        let is_started = |run: &&Utf8PathBuf| {
            let is_of_suite = |kept: &PlanFile| kept.suite.is_some() && kept.suite == now.suite;
            PlanFile::read(run).is_ok_and(|kept| is_of_suite(&kept) || kept.is_same(&now))
        };
        // Names have the time in seconds only; the link is exact.
        let latest = record::run_folder(&self.results_dir.join(LATEST)).ok();
        let mut newest_first = latest.iter().chain(runs.iter().rev());
        newest_first.find(is_started).cloned()
    }

    /// Runs the trials that an earlier run did not finish.
    pub async fn resume(
        &self,
        run: &Utf8Path,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, RunError> {
        let kept = PlanFile::read(run)?;
        let now = plan_file(self.plan, "");
        if !kept.is_same(&now) {
            return Err(RunError::Changed {
                run: run.to_owned(),
                differences: kept.differences(&now),
            });
        }
        let changed = kept.changed(&now);
        if !changed.is_empty() && self.plan.experiment.is_some() {
            return Err(RunError::ExperimentChanged {
                run: run.to_owned(),
                changed,
            });
        }
        if !changed.is_empty() && self.on_change == OnChange::Refuse {
            return Err(RunError::DefinitionChanged {
                run: run.to_owned(),
                changed,
            });
        }
        let mut run_dir = RunDir::open(run).map_err(|_| RunError::Running {
            run: run.to_owned(),
        })?;
        if let Some(id) = &kept.run_id {
            // The directory may have been renamed since.
            run_dir.id.clone_from(id);
        }
        if !changed.is_empty() {
            self.accept(run, kept, now)?;
        }
        self.run_in(&run_dir, listener, cancel).await
    }

    /// Continues a run with other definitions. Reports list the trials of both apart, by the digests in their records.
    fn accept(&self, run: &Utf8Path, mut kept: PlanFile, now: PlanFile) -> Result<(), RunError> {
        kept.accept(now);
        record::write_json(&run.join(PLAN_FILE), &kept)?;
        if let Input::Suite { text, .. } = &self.plan.input {
            let path = run.join(SNAPSHOT_FILE);
            fs::write(&path, text).map_err(|source| StoreError { path, source })?;
        }
        Ok(())
    }

    /// Creates the directory of the run: a test case can choose its location and name.
    fn make_folder(&self) -> Result<RunDir, RunError> {
        let Input::Cases = self.plan.input else {
            self.ignore_results()?;
            return Ok(RunDir::create_plain(&self.results_dir.join("runs"))?);
        };
        let chosen = self.plan.trials.first().map(|plan| &plan.task.run_folder);
        let name = chosen.and_then(|chosen| chosen.name.as_deref());
        let name = name.unwrap_or("run");
        let made = match chosen.and_then(|chosen| chosen.parent.as_ref()) {
            Some(parent) => RunDir::create(parent, name),
            None => self
                .ignore_results()
                .and_then(|()| RunDir::create(self.results_dir, name)),
        };
        Ok(made.map_err(TrialError::Folder)?)
    }

    /// Tell git to ignore the folder of runs, if it is Proctor's own or youBencha's.
    fn ignore_results(&self) -> Result<(), StoreError> {
        let failed = |source| StoreError {
            path: self.results_dir.to_owned(),
            source,
        };
        fs::create_dir_all(self.results_dir).map_err(failed)?;
        let file = self.results_dir.join(IGNORE_FILE);
        let name = self.results_dir.file_name().unwrap_or_default();
        if record::RUN_DIRS.contains(&name) && !file.exists() {
            fs::write(&file, "*\n").map_err(failed)?;
        }
        Ok(())
    }

    async fn run_in(
        &self,
        run_dir: &RunDir,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, RunError> {
        let started = Event::RunStarted {
            run_dir: run_dir.path.clone(),
            trials: self.plan.budget(),
        };
        if let (Executor::Slurm(settings), Some(run_jobs)) =
            (&self.execution.executor, self.run_jobs)
        {
            let jobs = Jobs {
                runner: self,
                run_dir,
                settings,
                on_start: &|| listener(0, &started),
                listener,
                cancel,
            };
            let gathered = run_jobs(jobs).await?;
            return self.sum_up(run_dir, gathered, None, cancel);
        }
        let spec = ResourceSpec {
            execution: self.execution,
            host: self.host,
            folder: &run_dir.path,
            cache: cache_of(self.results_dir),
            bases: Bases::of_run(&run_dir.path),
            cancel,
        };
        let resources = Resources::open(spec, |host| {
            let plans = &self.plan.trials;
            Ok(Gateways::open(self.execution, plans, &host.env)?)
        });
        let resources = resources.await?;
        listener(0, &started);
        let gathered = self.steered(run_dir, &resources, listener, cancel).await;
        let closed = resources.close().await;
        let gathered = Gathered {
            lost_engines: closed.lost_engines,
            ..gathered?
        };
        self.sum_up(run_dir, gathered, closed.litellm, cancel)
    }

    /// Runs the trials, and applies requests of other processes meanwhile.
    async fn steered(
        &self,
        run_dir: &RunDir,
        resources: &Resources,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<Gathered, RunError> {
        let folders: Vec<String> = self
            .plan
            .trials
            .iter()
            .map(|it| {
                let path = record::trial_path(&it.name, &it.task.name, it.number);
                format!("trials/{path}")
            })
            .collect();
        let gathered = tokio::select! {
            gathered = self.run_trials(run_dir, resources, listener, cancel) => gathered,
            never = self.control.obey(&run_dir.path, &folders, cancel) => match never {},
        };
        RunRequests::close(&run_dir.path);
        gathered
    }

    async fn run_trials(
        &self,
        run_dir: &RunDir,
        resources: &Resources,
        listener: &RunListener<'_>,
        cancel: &CancellationToken,
    ) -> Result<Gathered, RunError> {
        let stopped = StoppedAgents::default();
        let providers = Providers::new(self.execution.providers.clone());
        let slots = Semaphore::new(self.parallel);
        let holder = Holder::here(&self.host.name, None);
        let spending = Spending::of(self.plan.max_cost, &run_dir.path);
        // Also cancelled when a record cannot be written, because others could not be written either.
        let stop = cancel.child_token();
        let job = |number: usize| {
            let plan = &self.plan.trials[number];
            let job = Job {
                runner: self,
                run_dir,
                resources,
                stopped: &stopped,
                providers: &providers,
                slots: &slots,
                holder: &holder,
                spending: &spending,
                cancel: self.control.token(number, &stop),
                number,
                plan,
            };
            job.run(listener)
        };
        let mut stage = Stage::new(self.control, &stopped, &stop);
        let mut agenda = Agenda::new(self.plan, &run_dir.path);
        while !stop.is_cancelled() {
            let next = agenda.next();
            if next.is_empty() {
                break;
            }
            resources.watched(stage.run(next, &job)).await?;
        }
        Ok(Gathered {
            stopped: spending.exhausted(),
            ..stage.gathered()
        })
    }

    fn sum_up(
        &self,
        run_dir: &RunDir,
        gathered: Gathered,
        litellm: Option<LiteLlmAccount>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, RunError> {
        let mut done = gathered.done;
        in_order(&mut done);
        let tasks = calibrate(&mut done);
        let planned = self.plan.budget();
        let is_cancelled =
            cancel.is_cancelled() || self.control.has_cancelled() || gathered.was_cancelled;
        let summary = RunSummary {
            litellm,
            detached: gathered.is_detached,
            lost_engines: gathered.lost_engines,
            failed_starts: gathered.failed_starts,
            stopped: gathered.stopped,
            tasks,
            ..RunSummary::of(&run_dir.path, planned, done, is_cancelled)
        };
        record::write_json(&run_dir.path.join(SUMMARY_FILE), &summary)?;
        if let Some(log_dir) = &self.execution.log_dir {
            let trials = self.plan.trials.iter();
            let paths = trials.map(|plan| trial_key(self.plan, plan).path());
            let trials = run_dir.path.join("trials");
            model_access::copy_calls(&trials, &log_dir.join(&run_dir.id), paths)?;
        }
        Ok(summary)
    }

    /// Points `latest` to a run with a relative link, so that the directory can be moved.
    fn link_latest(&self, run: &Utf8Path) {
        let Ok(results_dir) = platform::canonical(self.results_dir) else {
            return;
        };
        let Ok(target) = run.strip_prefix(&results_dir) else {
            return;
        };
        let latest = self.results_dir.join(LATEST);
        let fresh = self.results_dir.join(format!(".latest-{}", new_id()));
        // The link is optional.
        let _ = pointer::point(
            latest.as_std_path(),
            target.as_std_path(),
            fresh.as_std_path(),
        );
    }
}

/// The content of `plan.json`.
pub(crate) fn plan_file(plan: &RunPlan, run_id: &str) -> PlanFile {
    let trials = plan.trials.iter().map(|trial| trial_key(plan, trial));
    let mut pairs = BTreeMap::new();
    let mut definitions = BTreeMap::new();
    for trial in &plan.trials {
        let Some(own) = &trial.definitions else {
            continue;
        };
        let pair = own.pair(&trial.name, &trial.task.name);
        if pairs
            .insert((&trial.name, &trial.task.name), pair)
            .is_none()
        {
            for definition in own.all() {
                let known = definitions.entry(definition.digest.clone());
                known.or_insert_with(|| definition.text.clone());
            }
        }
    }
    let variants = plan.trials.iter().filter_map(|trial| {
        let of = trial.variant_of.clone()?;
        Some((trial.name.clone(), of))
    });
    let experiment = plan.experiment.as_ref();
    let mut file = PlanFile {
        variants: variants.collect(),
        replaced: Vec::new(),
        suite: plan.suite_file().map(ToString::to_string),
        run_id: Some(run_id.to_owned()),
        seed: plan.seed,
        trials: trials.collect(),
        labels: plan.labels.clone(),
        pairs: pairs.into_values().collect(),
        experiment: match &plan.search {
            Some(search) => Some(search.document()),
            None => experiment.map(|it| json!(it)),
        },
        registered: None,
        definitions,
    };
    file.registered = experiment.map(|_| file.digest());
    file
}

/// The key of a planned trial.
pub(crate) fn trial_key(run: &RunPlan, plan: &TrialPlan) -> TrialKey {
    TrialKey {
        agent: plan.name.clone(),
        task: plan.task.name.clone(),
        trial: plan.number,
        is_whole_run: run.is_flat(),
    }
}
