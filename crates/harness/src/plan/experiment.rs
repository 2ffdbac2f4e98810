//! Plans an experiment: who is compared with whom, and after which trials.

use proctor_document::{ConfigError, Fault, Span};
use proctor_report::{
    experiment::ExperimentPlan,
    stats::{Level, LookUnit, Schedule, ScheduleOptions},
};

use super::{ResolvedSuite, TrialPlan};
use crate::config::{AgentType, Executor, ExperimentSettings, StopRule};

/// Agents that calibrate tasks and take no part in comparisons.
pub(crate) const CALIBRATION: [&str; 2] = ["null", "oracle"];

/// The plan of a suite's experiment.
pub(super) fn plan(
    settings: &ExperimentSettings,
    suite: &ResolvedSuite,
    seed: u64,
) -> Result<ExperimentPlan, ConfigError> {
    let refused = |(message, hint): (String, String)| {
        let fault = Fault::new(Span::default(), message).with_hint(hint);
        suite.source.error(vec![fault])
    };
    let (baseline, candidates) = contenders(settings, suite).map_err(refused)?;
    let trials = trials(settings, suite).map_err(refused)?;
    // Several candidates share the error rate (Bonferroni).
    let alpha = Level::P95.alpha() / candidates.len() as f64;
    let options = ScheduleOptions {
        seed,
        level: Level::new(1.0 - alpha).unwrap_or(Level::P95),
        margins: settings.margins(),
        stops_early: settings.stop == StopRule::Settled,
        adaptive: settings.adaptive,
    };
    let tasks: Vec<String> = suite.tasks.iter().map(|task| task.name.clone()).collect();
    let schedule = Schedule::new(&tasks, trials, options);
    check(settings, suite, &schedule).map_err(refused)?;
    Ok(ExperimentPlan {
        baseline,
        candidates,
        schedule,
    })
}

/// The baseline and the candidates, or a message with a hint.
fn contenders(
    settings: &ExperimentSettings,
    suite: &ResolvedSuite,
) -> Result<(String, Vec<String>), (String, String)> {
    let is_contender = |kind: &AgentType| match kind {
        AgentType::Named(name) => !CALIBRATION.contains(&name.as_str()),
        AgentType::Auto => true,
    };
    let contenders = suite
        .agents
        .iter()
        .filter(|agent| is_contender(&agent.spec.kind));
    let mut names: Vec<String> = contenders.map(|agent| agent.name.clone()).collect();
    // Without any agent there is no list to choose from.
    if names.len() < 2 {
        let message = "an experiment needs at least two agents to compare".to_owned();
        let hint = "add an agent or a variant; `null` and `oracle` only calibrate the tasks";
        return Err((message, hint.to_owned()));
    }
    let baseline = match &settings.baseline {
        None => names.first(),
        Some(name) => names.iter().find(|known| *known == name),
    };
    let Some(baseline) = baseline.cloned() else {
        let name = settings.baseline.as_deref().unwrap_or_default();
        let message = format!("`baseline` of `experiment` is not an agent: `{name}`");
        return Err((message, format!("agents: {}", names.join(", "))));
    };
    names.retain(|name| *name != baseline);
    Ok((baseline, names))
}

/// The number of trials of each task and agent within the maximum of all trials.
fn trials(settings: &ExperimentSettings, suite: &ResolvedSuite) -> Result<usize, (String, String)> {
    let planned = usize::try_from(suite.trials).unwrap_or(usize::MAX);
    let Some(most) = settings.max_trials else {
        return Ok(planned);
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let round = suite.agents.len() * suite.tasks.len();
    match most / round.max(1) {
        0 => {
            let message =
                format!("{most} trials are too few: one of each agent and task is {round}");
            let hint = "raise the maximum number of trials, or select tasks with `--task`";
            Err((message, hint.to_owned()))
        }
        possible => Ok(possible.min(planned)),
    }
}

/// Refuses settings without effect.
fn check(
    settings: &ExperimentSettings,
    suite: &ResolvedSuite,
    schedule: &Schedule,
) -> Result<(), (String, String)> {
    let stops = settings.stop == StopRule::Settled;
    if stops && matches!(suite.execution.executor, Executor::Slurm(_)) {
        let message = "stopping when the answer is clear is not supported with `executor: slurm`";
        let hint = "run all trials, or run on this machine";
        return Err((message.to_owned(), hint.to_owned()));
    }
    if settings.max_cost_usd.is_some() && matches!(suite.execution.executor, Executor::Slurm(_)) {
        let message = "a maximum cost of all trials is not supported with `executor: slurm`";
        let hint = "limit each trial with `gateway: {budget_usd: …}`, or run on this machine";
        return Err((message.to_owned(), hint.to_owned()));
    }
    if settings.adaptive && !stops {
        let message = "adaptive allocation has no effect without interim analyses";
        let hint = "add `--until-settled` (`stop: settled`)";
        return Err((message.to_owned(), hint.to_owned()));
    }
    if settings.adaptive && schedule.unit != LookUnit::Round {
        let tasks = schedule.tasks.len();
        let message = format!(
            "adaptive allocation has no effect with {tasks} tasks and {} trials of each",
            schedule.trials
        );
        let hint = "it requires fewer than 20 tasks and at least 2 trials of each";
        return Err((message, hint.to_owned()));
    }
    Ok(())
}

/// Orders trials by the first analysis that they are part of.
pub(super) fn arrange(plan: &ExperimentPlan, trials: &mut [TrialPlan]) {
    trials.sort_by_cached_key(|trial| look_of(&plan.schedule, &trial.task.name, trial.number));
}

/// The first analysis that a trial is part of.
fn look_of(schedule: &Schedule, task: &str, trial: u32) -> usize {
    let position = schedule.tasks.iter().position(|name| name == task);
    let position = position.unwrap_or(schedule.tasks.len());
    let round = usize::try_from(trial).unwrap_or(usize::MAX);
    let is_part = |look: &usize| {
        let (tasks, rounds) = schedule.size(*look);
        position < tasks && round <= rounds
    };
    let last = schedule.looks.len().saturating_sub(1);
    (0..last).find(is_part).unwrap_or(last)
}
