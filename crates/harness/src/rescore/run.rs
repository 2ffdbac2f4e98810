//! Rescoring of a run: its trials are judged again and its summary is written anew.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use futures_util::{StreamExt, stream};
use proctor_document::ConfigError;
use proctor_record::{
    fs::LOCK_FILE,
    record::{
        self, PLAN_FILE, PlanFile, Record, RecordState, RunDir, SUMMARY_FILE, SandboxRecord,
        StoreError, TaskKind, TrialStatus, definition::Definition, follow::trial_folders,
    },
};
use proctor_sandbox::{SandboxKind, host::Host};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, Executor, Settings},
    model_access::Models,
    plan::{define_task, load_kept_suite, load_suite as load_now},
    run::{
        FailedStart, Gateways, ResourceSpec, Resources, RunError, SNAPSHOT_FILE, cache_of, status,
    },
    task::{Task, case, existing, folder},
    workspace::Bases,
};

/// The options of a rescoring.
pub struct Rescore<'a> {
    /// The host.
    pub host: &'a Host,
    /// The user's settings.
    pub settings: &'a Settings,
    /// The verdicts to replace.
    pub which: Which,
    /// The definitions of the tasks.
    pub definitions: Definitions,
    /// The maximum number of concurrent trials.
    pub parallel: usize,
    /// Whether cached answers of judges are used.
    pub answers: Answers,
    /// The suite with the tasks of Thunderdome runs.
    pub suite_file: Option<&'a Utf8Path>,
}

/// Which answers of judges are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Cached answers, too.
    Kept,
    /// New ones only.
    New,
}

/// The resolution of file times.
const CLOCK_STEP: Duration = Duration::from_millis(20);

impl Answers {
    /// Answers that were cached before this time are not used.
    fn since(self) -> Option<SystemTime> {
        match self {
            Answers::Kept => None,
            Answers::New => SystemTime::now().checked_sub(CLOCK_STEP),
        }
    }
}

/// The verdicts to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Verdicts of evaluators with an error.
    Errors,
}

/// The definitions of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definitions {
    /// The recorded definitions; a changed task is skipped.
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
    /// The status.
    pub status: TrialStatus,
    /// The score from 0 to 1; null when the trial is excluded.
    pub score: Option<f64>,
}

impl Rating {
    pub(super) fn of(record: &Record) -> Rating {
        Rating {
            status: record.status,
            score: record.score.as_ref().map(|score| score.value),
        }
    }
}

/// A trial that was not rescored.
#[derive(Clone, Debug, Serialize)]
pub struct NotJudged {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// The reason.
    pub reason: String,
}

/// Why a run could not be rescored.
#[derive(Debug, thiserror::Error)]
pub enum RescoreError {
    /// The run does not exist.
    #[error("run not found: {run}")]
    NoRun {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// Another process has the lock.
    #[error("{run} is running")]
    Running {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// The snapshot of the suite cannot be read here.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// The resources of the run cannot be opened.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The result cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The data that all trials of a run share during rescoring.
pub(super) struct RescoreContext<'a> {
    pub(super) tasks: Tasks,
    pub(super) resources: Resources,
    /// Answers that were cached before this time are not used.
    pub(super) kept_since: Option<SystemTime>,
    pub(super) run_id: String,
    pub(super) cancel: &'a CancellationToken,
}

/// The result of rescoring one trial.
pub(super) enum RescoreOutcome {
    Judged(Box<Rescored>),
    NotJudged(NotJudged),
    /// The options exclude the trial.
    LeftAlone,
}

impl Rescore<'_> {
    /// Judges the trials of the run in `run` again. Each record is replaced atomically.
    pub async fn run(
        &self,
        run: &Utf8Path,
        cancel: &CancellationToken,
    ) -> Result<RescoreSummary, RescoreError> {
        if proctor_report::foreign::is_run(run) {
            return self.run_foreign(run, cancel).await;
        }
        let run_dir = open(run)?;
        let (records, misplaced) = records(&run_dir.path);
        let tasks = self.tasks(&run_dir.path, &records)?.define(self.host);
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
        context.tasks.keep_definitions(&run_dir.path)?;
        context.resources.close().await;
        let misplaced = misplaced.into_iter().map(RescoreOutcome::NotJudged).map(Ok);
        let all = misplaced.chain(judged).collect();
        let summary = summary(&run_dir.path, all)?;
        rewrite_summary(&run_dir.path)?;
        Ok(summary)
    }

    /// Opens the resources of a run.
    pub(super) async fn context<'c>(
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

    /// Loads the task of a trial without a suite.
    fn load(&self, record: &Record) -> Result<Arc<Task>, String> {
        let file = self.host.cwd.join(&record.task.config_file);
        let env = &self.host.env;
        let loaded = match record.task.kind {
            Some(TaskKind::Folder) => {
                let folder = file.parent().unwrap_or(&file);
                folder::load(folder, env, self.settings)
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
pub(super) struct Tasks {
    pub(super) by_name: BTreeMap<String, Result<Arc<Task>, String>>,
    /// The definitions of their evaluators.
    pub(super) judging: BTreeMap<String, Arc<Definition>>,
    pub(super) execution: Execution,
}

impl Tasks {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.by_name.values().flatten().map(AsRef::as_ref)
    }

    /// Read the definitions of the evaluators.
    fn define(mut self, host: &Host) -> Tasks {
        let tasks = self.by_name.iter().filter_map(|(name, task)| {
            let [_, judging] = define_task(task.as_ref().ok()?, host);
            Some((name.clone(), judging))
        });
        self.judging = tasks.collect();
        self
    }

    /// Add the definitions of the evaluators to the plan of the run.
    fn keep_definitions(&self, run: &Utf8Path) -> Result<(), StoreError> {
        let Ok(mut plan) = PlanFile::read(run) else {
            return Ok(());
        };
        let known = plan.definitions.len();
        for definition in self.judging.values().filter(|_| known > 0) {
            let entry = plan.definitions.entry(definition.digest.clone());
            entry.or_insert_with(|| definition.text.clone());
        }
        if plan.definitions.len() == known {
            return Ok(());
        }
        record::write_json(&run.join(PLAN_FILE), &plan)
    }
}

/// The judges' answer cache, which the runs of a results directory share.
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

/// The records of a run's trials with their directories, and the trials that have the record of
/// another one.
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
                reason: format!("its record belongs to {other}"),
            }),
            RecordState::Unreadable => misplaced.push(NotJudged {
                agent: key.agent,
                task: key.task,
                trial: key.trial,
                reason: "its record cannot be read".to_owned(),
            }),
            RecordState::Missing => {}
        }
    }
    (records, misplaced)
}

pub(super) fn summary(
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

/// Updates the run's summary from its records.
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
