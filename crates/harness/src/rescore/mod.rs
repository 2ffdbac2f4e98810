//! Judges the trials of a run again, from their records: the base, the patch and the task. No agent
//! is run. Earlier verdicts stay in the record.

mod foreign;
mod trial;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use futures_util::{StreamExt, stream};
use proctor_document::ConfigError;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, Executor, Settings},
    fs::LOCK_FILE,
    host::Host,
    model_access::Models,
    plan::{load_kept_suite, load_suite as load_now},
    record::{
        self, PlanFile, Record, RecordState, RunDir, SUMMARY_FILE, SandboxRecord, StoreError,
        TaskKind, TrialStatus, follow::trial_folders,
    },
    run::{
        FailedStart, Gateways, ResourceSpec, Resources, RunError, SNAPSHOT_FILE, cache_of, status,
    },
    sandbox::SandboxKind,
    task::{Task, case, existing, harbor},
    workspace::Bases,
};

/// The options of a rescoring.
pub struct Rescore<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The user's settings.
    pub settings: &'a Settings,
    /// Which verdicts are made again.
    pub which: Which,
    /// Which definitions of the tasks are used.
    pub definitions: Definitions,
    /// The number of trials at the same time.
    pub parallel: usize,
    /// Whether cached answers of judges count.
    pub answers: Answers,
    /// The suite that defines the tasks of runs that Thunderdome wrote.
    pub suite_file: Option<&'a Utf8Path>,
}

/// Which answers of judges count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Cached answers too.
    Kept,
    /// New ones only.
    New,
}

/// The resolution of file times.
const CLOCK_STEP: Duration = Duration::from_millis(20);

impl Answers {
    /// Answers that were cached before this time do not count.
    fn since(self) -> Option<SystemTime> {
        match self {
            Answers::Kept => None,
            Answers::New => SystemTime::now().checked_sub(CLOCK_STEP),
        }
    }
}

/// Which verdicts are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Verdicts of evaluators that failed.
    Errors,
}

/// Which definitions of the tasks are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definitions {
    /// The definitions on record; a task that has changed since is skipped.
    Recorded,
    /// The current files.
    Current,
}

/// The result of rescoring a run.
#[derive(Debug, Serialize)]
pub struct RescoreSummary {
    /// The run.
    pub run_id: String,
    /// Its folder.
    pub run_dir: Utf8PathBuf,
    /// The worst status of the trials that were judged again.
    pub status: TrialStatus,
    /// The trials that were judged again.
    pub trials: Vec<Rescored>,
    /// The trials that could not be judged, with the reasons.
    pub not_judged: Vec<NotJudged>,
}

/// A trial that was judged again.
#[derive(Clone, Debug, Serialize)]
pub struct Rescored {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// The rating on record.
    pub before: Rating,
    /// The new rating.
    pub after: Rating,
}

/// The status and score of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// The verdict.
    pub status: TrialStatus,
    /// The score from 0 to 1; null when the trial is excluded.
    pub score: Option<f64>,
}

impl Rating {
    fn of(record: &Record) -> Rating {
        Rating {
            status: record.status,
            score: record.score.as_ref().map(|score| score.value),
        }
    }
}

/// A trial that was not judged again.
#[derive(Clone, Debug, Serialize)]
pub struct NotJudged {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// Why.
    pub reason: String,
}

/// Why a run could not be judged again.
#[derive(Debug, thiserror::Error)]
pub enum RescoreError {
    /// There is no run.
    #[error("there is no run {run}")]
    NoRun {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// Another process holds it.
    #[error("{run} is running")]
    Running {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// The suite that was kept cannot be read here.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// The resources of the run cannot be opened.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The result cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What all trials of a run share while they are judged.
struct RescoreContext<'a> {
    tasks: Tasks,
    resources: Resources,
    /// Answers that were cached before this time do not count.
    kept_since: Option<SystemTime>,
    run_id: String,
    cancel: &'a CancellationToken,
}

/// The result of rescoring one trial.
enum RescoreOutcome {
    Judged(Box<Rescored>),
    NotJudged(NotJudged),
    /// The options leave the trial out.
    LeftAlone,
}

impl Rescore<'_> {
    /// Judge the trials of the run in `run` again. Each record is replaced whole or not at all.
    pub async fn run(
        &self,
        run: &Utf8Path,
        cancel: &CancellationToken,
    ) -> Result<RescoreSummary, RescoreError> {
        if crate::foreign::is_run(run) {
            return self.run_foreign(run, cancel).await;
        }
        let run_dir = open(run)?;
        let (records, misplaced) = records(&run_dir.path);
        let tasks = self.tasks(&run_dir.path, &records)?;
        let in_containers =
            |(_, record): &(_, Record)| matches!(record.sandbox, SandboxRecord::Docker(_));
        let sandbox = if records.iter().any(in_containers) {
            SandboxKind::Docker
        } else {
            SandboxKind::Local
        };
        let context = self.context(tasks, sandbox, &run_dir.path, cancel).await?;
        let judged = stream::iter(records)
            .map(|(folder, record)| Box::pin(self.judge(folder, record, &context)))
            .buffer_unordered(self.parallel.max(1))
            .collect::<Vec<_>>()
            .await;
        context.resources.close().await;
        let misplaced = misplaced.into_iter().map(RescoreOutcome::NotJudged).map(Ok);
        let all = misplaced.chain(judged).collect();
        let summary = summary(&run_dir.path, all)?;
        rewrite_summary(&run_dir.path)?;
        Ok(summary)
    }

    /// Open the resources of a run.
    async fn context<'c>(
        &self,
        tasks: Tasks,
        sandbox: SandboxKind,
        run: &Utf8Path,
        cancel: &'c CancellationToken,
    ) -> Result<RescoreContext<'c>, RescoreError> {
        let mut execution = tasks.execution.clone();
        execution.executor = Executor::Local;
        execution.sandbox = sandbox;
        if sandbox == SandboxKind::Docker {
            execution.use_containers();
        }
        if let Some(gateway) = &mut execution.gateway {
            // Judges call the providers directly.
            gateway.litellm = None;
        }
        let spec = ResourceSpec {
            execution: &execution,
            host: self.host,
            folder: run,
            cache: cache(run),
            bases: Bases::default(),
            cancel,
        };
        let resources = Resources::open(spec, |host| {
            let models = Models::start(&tasks.execution, &host.env)?;
            Ok(Gateways::shared(models, tasks.iter(), &host.env)?)
        });
        let resources = resources.await?;
        Ok(RescoreContext {
            tasks,
            resources,
            kept_since: self.answers.since(),
            run_id: run.file_name().unwrap_or_default().to_owned(),
            cancel,
        })
    }

    /// The tasks of a run, from the suite's snapshot, the suite's current file or the files of test cases.
    fn tasks(
        &self,
        run: &Utf8Path,
        records: &[(Utf8PathBuf, Record)],
    ) -> Result<Tasks, RescoreError> {
        let env = &self.host.env;
        let mut tasks = Tasks::default();
        let kept = PlanFile::read(run).ok().and_then(|plan| plan.suite);
        if let Some(path) = kept.map(Utf8PathBuf::from) {
            let text = fs::read_to_string(run.join(SNAPSHOT_FILE));
            let suite = match (self.definitions, text) {
                (Definitions::Recorded, Ok(text)) => {
                    load_kept_suite(&path, text, env, self.settings)
                }
                _ => load_now(&path, env, self.settings),
            };
            let suite = suite.map_err(RescoreError::Config)?;
            tasks.execution = suite.execution;
            for task in suite.tasks {
                tasks.by_name.insert(task.name.clone(), Ok(task));
            }
            return Ok(tasks);
        }
        for (_, record) in records {
            let loaded = self.load(record);
            tasks.by_name.insert(record.task.name.clone(), loaded);
        }
        Ok(tasks)
    }

    /// The task of a trial that was run without a suite.
    fn load(&self, record: &Record) -> Result<Arc<Task>, String> {
        let file = self.host.cwd.join(&record.task.config_file);
        let env = &self.host.env;
        let loaded = match record.task.kind {
            Some(TaskKind::Folder) => {
                let folder = file.parent().unwrap_or(&file);
                harbor::load(folder, env, self.settings)
            }
            Some(TaskKind::Directory) => {
                let directory = Utf8Path::new(&record.task.repo);
                existing::load(&file, Some(directory), env, self.settings)
            }
            _ => case::load(&file, env, self.settings),
        };
        loaded.map(Arc::new).map_err(|error| error.to_string())
    }
}

/// The tasks of a run, by name.
#[derive(Default)]
struct Tasks {
    by_name: BTreeMap<String, Result<Arc<Task>, String>>,
    execution: Execution,
}

impl Tasks {
    fn iter(&self) -> impl Iterator<Item = &Task> {
        self.by_name.values().flatten().map(AsRef::as_ref)
    }
}

/// The cache of judges' answers, which the runs of a results folder share.
fn cache(run: &Utf8Path) -> Utf8PathBuf {
    let parent = run.parent().unwrap_or(run);
    let results = match parent.file_name() {
        Some("runs") => parent.parent().unwrap_or(parent),
        _ => parent,
    };
    cache_of(results)
}

fn open(run: &Utf8Path) -> Result<RunDir, RescoreError> {
    let owned = || run.to_owned();
    if !run.join(LOCK_FILE).is_file() {
        return Err(RescoreError::NoRun { run: owned() });
    }
    RunDir::open(run).map_err(|_| RescoreError::Running { run: owned() })
}

/// The records of a run's trials with their folders, and the trials that have the record of another one.
fn records(run: &Utf8Path) -> (Vec<(Utf8PathBuf, Record)>, Vec<NotJudged>) {
    let Ok(plan) = PlanFile::read(run) else {
        let folders = trial_folders(run).into_iter().map(|(_, folder)| folder);
        let read = |folder: Utf8PathBuf| {
            RecordState::read(&folder, None)
                .own()
                .map(|it| (folder, it))
        };
        return (folders.filter_map(read).collect(), Vec::new());
    };
    let (mut records, mut misplaced) = (Vec::new(), Vec::new());
    for key in plan.trials {
        let folder = key.folder(run);
        match RecordState::read(&folder, plan.run_id.as_deref()) {
            RecordState::Own(record) => records.push((folder, *record)),
            RecordState::OfAnother(other) => misplaced.push(NotJudged {
                agent: key.agent,
                task: key.task,
                trial: key.trial,
                reason: format!("its record is that of {other}"),
            }),
            RecordState::Missing => {}
        }
    }
    (records, misplaced)
}

fn summary(
    run: &Utf8Path,
    judged: Vec<Result<RescoreOutcome, StoreError>>,
) -> Result<RescoreSummary, RescoreError> {
    let mut trials = Vec::new();
    let mut not_judged = Vec::new();
    for done in judged {
        match done? {
            RescoreOutcome::Judged(rescored) => trials.push(*rescored),
            RescoreOutcome::NotJudged(reason) => not_judged.push(reason),
            RescoreOutcome::LeftAlone => {}
        }
    }
    trials.sort_by(|one: &Rescored, other| {
        (&one.agent, &one.task, one.trial).cmp(&(&other.agent, &other.task, other.trial))
    });
    not_judged.sort_by(|one: &NotJudged, other| {
        (&one.agent, &one.task, one.trial).cmp(&(&other.agent, &other.task, other.trial))
    });
    let any = |status| trials.iter().any(|trial| trial.after.status == status);
    let status = if any(TrialStatus::Failed) {
        TrialStatus::Failed
    } else if any(TrialStatus::Error) || !not_judged.is_empty() {
        TrialStatus::Error
    } else {
        TrialStatus::Passed
    };
    Ok(RescoreSummary {
        run_id: run.file_name().unwrap_or_default().to_owned(),
        run_dir: run.to_owned(),
        status,
        trials,
        not_judged,
    })
}

/// Update the run's summary from its records.
fn rewrite_summary(run: &Utf8Path) -> Result<(), StoreError> {
    let path = run.join(SUMMARY_FILE);
    let Ok(bytes) = fs::read(&path) else {
        return Ok(());
    };
    let Ok(status) = status(run) else {
        return Ok(());
    };
    let mut summary = status.summary;
    let old: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let failed: Option<Vec<FailedStart>> =
        serde_json::from_value(old["failed_starts"].clone()).ok();
    summary.failed_starts = failed.unwrap_or_default();
    record::write_json(&path, &summary)
}
