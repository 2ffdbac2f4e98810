//! Checks a task: the null agent must fail it, the reference solution must pass it, and both every
//! time. Otherwise the task cannot measure agents.

use std::{collections::BTreeSet, sync::Arc};

use camino::Utf8Path;
use proctor_document::ConfigError;
use proctor_record::{
    record::{Record, TrialStatus, VerdictStatus},
    text::counted,
};
use proctor_sandbox::{SandboxKind, host::Host};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, Executor, KeepWorkspace},
    plan::{RunPlan, TrialPlan},
    run::{FailedStart, OnChange, OnEnd, RunError, Runner, control::Control},
    task::Task,
};

/// The result of checking a task.
#[derive(Debug, Serialize)]
pub struct TaskCheck {
    /// The task.
    pub task: String,
    /// The results of the null agent's trials: all should have failed.
    pub floor: Vec<TrialStatus>,
    /// The results of the reference solution's trials: all should have passed. Empty without one.
    pub ceiling: Vec<TrialStatus>,
    /// The score of the null agent; null if unknown.
    pub floor_score: Option<f64>,
    /// The score of the reference solution; null if unknown.
    pub ceiling_score: Option<f64>,
    /// Problems of the task.
    pub problems: Vec<String>,
    /// Why the task could not be checked: failures of the infrastructure, which say nothing about it.
    pub infrastructure: Vec<String>,
}

/// Why a task could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The test case is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A trial could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A trial could not be started because its input is not valid.
    #[error("{task} cannot be checked: {message}", task = .0.task, message = .0.message)]
    FailedStart(FailedStart),
    /// The directory of the trials cannot be created.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Where the trials of a check execute: where the user chose, else where the task requires. The
/// scripts of a task folder are not the user's own, so they require a container.
pub fn execution(task: &Task, wanted: &Execution) -> Execution {
    let mut execution = Execution {
        executor: match &wanted.executor {
            Executor::Slurm(_) => Executor::Local,
            other => other.clone(),
        },
        sandbox: SandboxKind::Local,
        image: wanted.image.clone(),
        images: wanted.images.clone(),
        limits: wanted.limits,
        network: wanted.network.clone(),
        keep_workspace: KeepWorkspace::None,
        ..Execution::default()
    };
    let needs_container = task.kind.is_foreign() || task.needs_container().is_some();
    if wanted.chose_sandbox {
        execution.choose_sandbox(wanted.sandbox);
    } else if needs_container {
        execution.use_containers();
    }
    execution
}

/// Checks a task with each of the two agents, `trials` times.
pub async fn check(
    task: &Arc<Task>,
    (host, execution): (&Host, &Execution),
    times: u32,
    cancel: &CancellationToken,
) -> Result<TaskCheck, CheckError> {
    if let (SandboxKind::Local, Some(why)) = (execution.sandbox, task.needs_container()) {
        return Err(why.into());
    }
    let folder = tempfile::tempdir_in(&host.temp)?;
    let folder = Utf8Path::from_path(folder.path()).unwrap_or(&host.temp);
    let calibration = Calibration {
        host,
        folder,
        execution,
        times,
        cancel,
    };
    let floor = Box::pin(calibration.trials(TrialPlan::built_in("null", task)?)).await?;
    let ceiling = match task.reference {
        Some(_) => Box::pin(calibration.trials(TrialPlan::built_in("oracle", task)?)).await?,
        None => Vec::new(),
    };
    let infrastructure = infrastructure(floor.iter().chain(&ceiling));
    Ok(TaskCheck {
        task: task.name.clone(),
        problems: if infrastructure.is_empty() {
            problems(&floor, &ceiling)
        } else {
            Vec::new()
        },
        infrastructure,
        floor_score: mean_score(&floor),
        ceiling_score: mean_score(&ceiling),
        floor: floor.iter().map(|record| record.status).collect(),
        ceiling: ceiling.iter().map(|record| record.status).collect(),
    })
}

/// The mean score of trials that have one.
fn mean_score(records: &[Record]) -> Option<f64> {
    let scores = records.iter().filter_map(|record| record.score.as_ref());
    let scores: Vec<f64> = scores.map(|score| score.value).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}

/// The execution of the trials of a check.
struct Calibration<'a> {
    host: &'a Host,
    folder: &'a Utf8Path,
    execution: &'a Execution,
    times: u32,
    cancel: &'a CancellationToken,
}

impl Calibration<'_> {
    /// The records of repeated trials.
    async fn trials(&self, plan: TrialPlan) -> Result<Vec<Record>, CheckError> {
        let plan = RunPlan::of_cases(vec![plan], self.times, None, self.execution, self.host);
        let runner = Runner {
            plan: &plan.expect("a single task has a unique name"),
            host: self.host,
            results_dir: self.folder,
            execution: self.execution,
            parallel: 1,
            retries: 0,
            control: &Control::default(),
            on_change: OnChange::Refuse,
            on_end: &OnEnd::default(),
            run_jobs: None,
        };
        let mut summary = Box::pin(runner.run(&|_, _| {}, self.cancel)).await?;
        if let Some(failed) = summary.failed_starts.pop() {
            return Err(CheckError::FailedStart(failed));
        }
        let records = summary.trials.iter();
        Ok(records
            .filter_map(|trial| Record::read(&trial.record).ok())
            .collect())
    }
}

/// The failures of the infrastructure, each once.
fn infrastructure<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<String> {
    let failed = records.filter(|record| record.outcome.is_infrastructure());
    let reasons: BTreeSet<String> = failed.map(why).collect();
    reasons.into_iter().collect()
}

fn problems(floor: &[Record], ceiling: &[Record]) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |who: &str, records: &[Record], wanted: TrialStatus, broken: &str| {
        let count = |status| {
            records
                .iter()
                .filter(|record| record.status == status)
                .count()
        };
        let unexpected = records.len() - count(wanted);
        let reason = records
            .iter()
            .find(|record| record.status != wanted)
            .map(why);
        match (unexpected, reason) {
            (0, _) | (_, None) => {}
            (all, Some(reason)) if all == records.len() => {
                found.push(format!("{broken}: {reason}"));
            }
            (some, Some(reason)) => found.push(format!(
                "it is flaky: {some} of {} of {who} not {}: {reason}",
                counted(records.len(), "trial"),
                wanted.as_str(),
            )),
        }
    };
    expect(
        "the null agent",
        floor,
        TrialStatus::Failed,
        "the null agent does not fail the task",
    );
    let broken = "the reference solution does not pass the task";
    expect(
        "the reference solution",
        ceiling,
        TrialStatus::Passed,
        broken,
    );
    if ceiling.is_empty() {
        found.push("the task has no reference solution: add `reference` or `expected`".to_owned());
    }
    found
}

/// The messages of a trial's evaluators, or its errors.
fn why(record: &Record) -> String {
    let errors = record.errors.iter().map(|error| error.message.clone());
    let judged = record.verdicts.iter();
    let verdicts = judged
        .filter(|verdict| verdict.status != VerdictStatus::Skipped)
        .map(|verdict| format!("{}: {}", verdict.evaluator, verdict.message));
    let all: Vec<String> = errors.chain(verdicts).collect();
    if all.is_empty() {
        return record.reason().unwrap_or_default();
    }
    all.join("; ")
}
