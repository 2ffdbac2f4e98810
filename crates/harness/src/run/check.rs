//! Proves a task: who does nothing must fail it, the reference solution must pass it, and both
//! must do so every time. A task that fails this says nothing about agents.

use std::sync::{Arc, Mutex};

use camino::Utf8Path;
use proctor_document::ConfigError;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, KeepWorkspace},
    host::Host,
    plan::{RunPlan, TrialPlan},
    record::{Record, TrialStatus, run_event::RunEvent},
    run::{OnEnd, RunError, Runner, control::Control},
    sandbox::SandboxKind,
    task::Task,
};

/// The result of checking a task.
#[derive(Debug, Serialize)]
pub struct TaskCheck {
    /// The task.
    pub task: String,
    /// How the null agent's trials ended: all should have failed.
    pub floor: Vec<TrialStatus>,
    /// How the reference solution's trials ended: all should have passed. Empty without one.
    pub ceiling: Vec<TrialStatus>,
    /// The score of the null agent; null if unknown.
    pub floor_score: Option<f64>,
    /// The score of the reference solution; null if unknown.
    pub ceiling_score: Option<f64>,
    /// Problems of the task.
    pub problems: Vec<String>,
}

/// Why a task could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The test case is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A trial could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is no room for the trials.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Check a task, with each of the two agents so many times.
pub async fn check(
    task: &Arc<Task>,
    host: &Host,
    times: u32,
    cancel: &CancellationToken,
) -> Result<TaskCheck, CheckError> {
    let folder = tempfile::tempdir_in(&host.temp)?;
    let folder = Utf8Path::from_path(folder.path()).unwrap_or(&host.temp);
    let calibration = Calibration {
        host,
        folder,
        // Where the task can run at all.
        execution: Execution {
            sandbox: match task.needs_container() {
                Some(_) => SandboxKind::Docker,
                None => SandboxKind::Local,
            },
            keep_workspace: KeepWorkspace::None,
            ..Execution::default()
        },
        times,
        cancel,
    };
    let floor = Box::pin(calibration.trials(TrialPlan::built_in("null", task)?)).await?;
    let ceiling = match task.reference {
        Some(_) => Box::pin(calibration.trials(TrialPlan::built_in("oracle", task)?)).await?,
        None => Vec::new(),
    };
    Ok(TaskCheck {
        task: task.name.clone(),
        problems: problems(&floor, &ceiling),
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

/// Where the trials of a check run, and how often.
struct Calibration<'a> {
    host: &'a Host,
    folder: &'a Utf8Path,
    execution: Execution,
    times: u32,
    cancel: &'a CancellationToken,
}

impl Calibration<'_> {
    /// The records of the same trial, repeated.
    async fn trials(&self, plan: TrialPlan) -> Result<Vec<Record>, CheckError> {
        let plan = RunPlan::of_cases(vec![plan], self.times, None);
        let runner = Runner {
            plan: &plan.expect("a single task has a unique name"),
            host: self.host,
            results_dir: self.folder,
            execution: &self.execution,
            parallel: 1,
            retries: 0,
            control: &Control::default(),
            on_end: &OnEnd::default(),
            run_jobs: None,
        };
        let records = Mutex::new(Vec::new());
        let listener = |_, event: &RunEvent<'_>| {
            if let (RunEvent::TrialEnded(record), Ok(mut records)) = (event, records.lock()) {
                records.push((*record).clone());
            }
        };
        Box::pin(runner.run(&listener, self.cancel)).await?;
        Ok(records.into_inner().unwrap_or_default())
    }
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
                "it is flaky: {some} of {} trials of {who} were not {}: {reason}",
                records.len(),
                wanted.as_str(),
            )),
        }
    };
    expect(
        "the null agent",
        floor,
        TrialStatus::Failed,
        "the null agent does not fail it",
    );
    let broken = "the reference solution does not pass it";
    expect(
        "the reference solution",
        ceiling,
        TrialStatus::Passed,
        broken,
    );
    if ceiling.is_empty() {
        found.push(
            "it has no reference solution: name one with `reference` or `expected`".to_owned(),
        );
    }
    found
}

/// The messages of a trial's evaluators, or its errors.
fn why(record: &Record) -> String {
    let errors = record.errors.iter().map(|error| error.message.clone());
    let verdicts = record
        .verdicts
        .iter()
        .map(|verdict| format!("{}: {}", verdict.evaluator, verdict.message));
    errors.chain(verdicts).collect::<Vec<_>>().join("; ")
}
