//! Runs the trials of one invocation, one after the other, and sums them up.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_gateway::GatewayError;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    calibration::TaskSummary,
    config::Execution,
    control::Control,
    evaluate::Evaluator,
    event::{Listener, RunEvent},
    host::Host,
    litellm::LiteLlmAccount,
    models::{Models, ReplayRecord, RunGateways},
    plan::TrialPlan,
    sandbox::{LostEngine, Sandbox},
    store::{self, EventWriter, Record, RunDir, StoreError, TrialStatus},
    tree,
    trial::{self, TrialError},
    usage::{Usage, Usd},
    workspace::Bases,
};

/// The folder beside runs in which answers of judges are kept.
pub(crate) const CACHE: &str = "cache";

/// What to run, and where it goes.
pub struct Run<'a> {
    /// The trials.
    pub plans: &'a [TrialPlan],
    /// The machine.
    pub host: &'a Host,
    /// Where and how trials execute.
    pub execution: &'a Execution,
    /// Where run folders are made, unless a test case says so.
    pub workspace_dir: Utf8PathBuf,
    /// What becomes of the workspaces.
    pub workspaces: Workspaces,
    /// What may be asked of the run while it goes on.
    pub control: &'a Control,
}

/// What becomes of the workspaces of finished trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workspaces {
    /// They stay in the run's folder.
    Keep,
    /// They are removed; the artifacts stay.
    Delete,
}

/// A run, summed up: what `--json` prints.
#[derive(Debug, Serialize)]
pub struct RunSummary {
    /// The id of the run.
    pub run_id: String,
    /// Its folder.
    pub run_dir: Utf8PathBuf,
    /// The worst status of its trials.
    pub status: TrialStatus,
    /// How many trials were not started.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_run: usize,
    /// What went through LiteLLM by its own log, when it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub litellm: Option<LiteLlmAccount>,
    /// Whether jobs of a cluster go on without us.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// Engines whose trials were done by others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_engines: Vec<LostEngine>,
    /// Trials whose input turned out to be bad: they have no result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_starts: Vec<FailedStart>,
    /// What the trials of null agents and oracles tell about the tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskSummary>,
    /// Its trials.
    pub trials: Vec<TrialSummary>,
}

impl RunSummary {
    /// That of the run in a folder, of whose trials these have come to their end.
    pub(crate) fn of(
        path: &Utf8Path,
        planned: usize,
        trials: Vec<TrialSummary>,
        is_cancelled: bool,
    ) -> RunSummary {
        RunSummary {
            run_id: path.file_name().unwrap_or_default().to_owned(),
            run_dir: path.to_owned(),
            status: overall(&trials, is_cancelled),
            not_run: planned - trials.len(),
            litellm: None,
            detached: false,
            lost_engines: Vec::new(),
            failed_starts: Vec::new(),
            tasks: Vec::new(),
            trials,
        }
    }
}

/// A trial that could not be started because of what it was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedStart {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl FailedStart {
    pub(crate) fn of(plan: &TrialPlan, error: &TrialError) -> FailedStart {
        FailedStart {
            agent: plan.name.clone(),
            task: plan.task.name.clone(),
            trial: plan.number,
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A trial, summed up.
#[derive(Debug, Serialize)]
pub struct TrialSummary {
    /// The agent.
    pub agent: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub agent_type: String,
    /// The task.
    pub task: String,
    /// The number, from 1.
    pub trial: u32,
    /// What became of it.
    pub outcome: crate::outcome::Outcome,
    /// The verdict.
    pub status: TrialStatus,
    /// What its work is worth, from 0 to 1; null when nothing can be said of it.
    pub score: Option<f64>,
    /// The same where doing nothing is 0 and the reference solution 1; absent when either is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalized_score: Option<f64>,
    /// How often its agent was started, when it may be started more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// The path of its record.
    pub record: Utf8PathBuf,
    /// What it used; null when unknown.
    pub usage: Option<Usage>,
    /// What it cost; null when unknown.
    pub cost_usd: Option<Usd>,
    /// Why infrastructure failed it, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was done with a recording, when calls were answered from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
}

impl Run<'_> {
    /// Run all trials. After a cancellation no further trial is started.
    pub async fn run(
        &self,
        listener: &Listener<'_>,
        cancel: &CancellationToken,
    ) -> Result<RunSummary, TrialError> {
        let run_dir = self.make_folder().map_err(TrialError::Folder)?;
        listener(&RunEvent::RunStarted {
            run_dir: &run_dir.path,
            trials: self.plans.len(),
        });
        let events = EventWriter::start().map_err(|source| StoreError {
            path: run_dir.path.clone(),
            source,
        })?;
        let sandbox = Sandbox::open(self.execution, self.host, &run_dir.path)
            .await
            .map_err(TrialError::Sandbox)?;
        let mut gateways = RunGateways::default();
        let judges = judges(self.plans, &self.host.env)?;
        let cache = run_dir.path.parent().unwrap_or(&run_dir.path).join(CACHE);
        let bases = Bases::default();
        let (mut trials, mut failed_starts) = (Vec::new(), Vec::new());
        for (number, plan) in self.plans.iter().enumerate() {
            let cancel = self.control.token(number, cancel);
            tokio::select! {
                () = self.control.resumed() => {}
                () = cancel.cancelled() => {}
            }
            if cancel.is_cancelled() {
                continue;
            }
            let folder = self.trial_folder(&run_dir.path, number);
            let models = gateways.of(plan.gateway.as_ref(), &self.host.env);
            let models = models.map_err(TrialError::Gateway)?;
            let log = events.trial(&folder);
            let listener = |event: &RunEvent<'_>| {
                log.take(event);
                listener(event);
            };
            let own_judges = models.map(Models::for_judges);
            let context = trial::Context {
                host: self.host,
                sandbox: &sandbox,
                models,
                judges: own_judges.as_ref().or(judges.as_ref()),
                cache: &cache,
                bases: &bases,
                pass_through: &[],
                run_id: &run_dir.id,
                folder: &folder,
                listener: &listener,
                cancel: &cancel,
                cause: &trial::Cause::default(),
            };
            let ran = Box::pin(trial::run(plan, &context)).await;
            // Nothing is written any more to a folder that is about to go.
            drop(log);
            match ran {
                Ok(record) => {
                    self.tidy(&folder)?;
                    trials.push(summary(&record, &folder));
                }
                Err(error) if error.is_usage() => {
                    // Bad input leaves nothing behind, and is no reason to give up the others.
                    let _ = tree::remove(&folder);
                    if self.plans.len() == 1 {
                        return Err(error);
                    }
                    failed_starts.push(FailedStart::of(plan, &error));
                }
                Err(error) => return Err(error),
            }
        }
        let is_cancelled = cancel.is_cancelled() || self.control.has_cancelled();
        let planned = self.plans.len();
        if failed_starts.len() == planned {
            let _ = tree::remove(&run_dir.path);
        }
        Ok(RunSummary {
            run_id: run_dir.id.clone(),
            failed_starts,
            ..RunSummary::of(&run_dir.path, planned, trials, is_cancelled)
        })
    }

    fn make_folder(&self) -> Result<RunDir, StoreError> {
        let wanted = self.plans.first().map(|plan| &plan.task.run_folder);
        let parent = wanted
            .and_then(|wanted| wanted.parent.as_ref())
            .unwrap_or(&self.workspace_dir);
        let name = wanted
            .and_then(|wanted| wanted.name.as_deref())
            .unwrap_or("run");
        RunDir::create(parent, name)
    }

    /// A single trial is the run; several have a folder each, named after their test cases' files.
    fn trial_folder(&self, run_dir: &Utf8Path, number: usize) -> Utf8PathBuf {
        if self.plans.len() == 1 {
            return run_dir.to_owned();
        }
        let stem = self.plans[number]
            .task
            .config_file()
            .file_stem()
            .unwrap_or("trial");
        run_dir.join(format!("{:02}-{stem}", number + 1))
    }

    fn tidy(&self, folder: &Utf8Path) -> Result<(), StoreError> {
        let workspace = folder.join("src-modified");
        match self.workspaces {
            Workspaces::Keep => Ok(()),
            Workspaces::Delete => tree::remove(&workspace).map_err(|source| StoreError {
                path: workspace,
                source,
            }),
        }
    }
}

/// The gateway of judges that ask models themselves, when a task has such a judge.
pub(crate) fn judges(
    plans: &[TrialPlan],
    env: &BTreeMap<String, String>,
) -> Result<Option<Models>, GatewayError> {
    let mut evaluators = plans.iter().flat_map(|plan| plan.task.evaluators.iter());
    let is_wanted = evaluators.any(Evaluator::asks_models);
    is_wanted.then(|| Models::start_for_judges(env)).transpose()
}

pub(crate) fn summary(record: &Record, folder: &Utf8Path) -> TrialSummary {
    TrialSummary {
        agent: record.agent.name.clone(),
        agent_type: record.agent.kind.clone(),
        task: record.task.name.clone(),
        trial: record.trial,
        outcome: record.outcome,
        status: record.status,
        score: record.score.as_ref().map(|score| score.value),
        normalized_score: None,
        iterations: (!record.iterations.is_empty()).then_some(record.iterations.len()),
        record: folder.join("artifacts").join(store::RECORD_FILE),
        usage: record.usage.clone(),
        cost_usd: record.usage.as_ref().and_then(|usage| usage.total.cost_usd),
        error: record
            .errors
            .first()
            .filter(|_| record.outcome.is_infrastructure())
            .map(|error| error.message.clone()),
        replay: record
            .gateway
            .as_ref()
            .and_then(|gateway| gateway.replay.clone()),
    }
}

/// Something failed, else something could not be judged, else all passed.
fn overall(trials: &[TrialSummary], is_cancelled: bool) -> TrialStatus {
    let any = |status| trials.iter().any(|trial| trial.status == status);
    if is_cancelled || any(TrialStatus::Interrupted) {
        TrialStatus::Interrupted
    } else if any(TrialStatus::Failed) {
        TrialStatus::Failed
    } else if any(TrialStatus::Error) {
        TrialStatus::Error
    } else {
        TrialStatus::Passed
    }
}
