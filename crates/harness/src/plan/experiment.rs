//! The plan of an experiment: who is compared with whom, and after which trials.

use proctor_document::{ConfigError, Fault, Span};
use proctor_report::stats::{Level, Schedule, ScheduleOptions};
use serde_json::{Value, json};

use super::{ResolvedSuite, TrialPlan};
use crate::config::{AgentType, Executor, ExperimentSettings};

/// Agents that calibrate tasks and take no part in comparisons.
const CALIBRATION: [&str; 2] = ["null", "oracle"];

/// Compares candidates with a baseline. Fixed before the first trial.
#[derive(Clone, Debug)]
pub struct ExperimentPlan {
    /// The agent that the others are compared with.
    pub baseline: String,
    /// The others, in the order of the suite.
    pub candidates: Vec<String>,
    /// The analyses.
    pub schedule: Schedule,
}

impl ExperimentPlan {
    /// The plan of a suite's experiment.
    pub(super) fn of(
        settings: &ExperimentSettings,
        suite: &ResolvedSuite,
        seed: u64,
    ) -> Result<ExperimentPlan, ConfigError> {
        let refused = |message: &str, hint: &str| {
            let fault = Fault::new(Span::default(), message).with_hint(hint);
            suite.source.error(vec![fault])
        };
        let is_contender = |kind: &AgentType| match kind {
            AgentType::Named(name) => !CALIBRATION.contains(&name.as_str()),
            AgentType::Auto => true,
        };
        let contenders = suite
            .agents
            .iter()
            .filter(|agent| is_contender(&agent.spec.kind));
        let mut names: Vec<String> = contenders.map(|agent| agent.name.clone()).collect();
        let baseline = match &settings.baseline {
            None => names.first(),
            Some(name) => names.iter().find(|known| *known == name),
        };
        let Some(baseline) = baseline.cloned() else {
            let name = settings.baseline.as_deref().unwrap_or_default();
            let message = format!("`baseline` of `experiment` is not an agent: `{name}`");
            return Err(refused(&message, &format!("agents: {}", names.join(", "))));
        };
        names.retain(|name| *name != baseline);
        if names.is_empty() {
            let message = "an experiment needs at least two agents to compare";
            return Err(refused(message, "add an agent or a variant"));
        }
        if settings.until_settled && matches!(suite.execution.executor, Executor::Slurm(_)) {
            let message = "`until_settled` is not supported with `executor: slurm`";
            return Err(refused(message, "run all trials, or run on this machine"));
        }
        // Several candidates share the error rate (Bonferroni).
        let alpha = Level::P95.alpha() / names.len() as f64;
        let options = ScheduleOptions {
            seed,
            level: Level::new(1.0 - alpha).unwrap_or(Level::P95),
            margins: settings.margins(),
            stops_early: settings.until_settled,
            ..ScheduleOptions::default()
        };
        let tasks: Vec<String> = suite.tasks.iter().map(|task| task.name.clone()).collect();
        let trials = usize::try_from(suite.trials).unwrap_or(usize::MAX);
        Ok(ExperimentPlan {
            baseline,
            candidates: names,
            schedule: Schedule::new(&tasks, trials, options),
        })
    }

    /// Orders trials by the first analysis that they are part of, and returns the number of trials
    /// up to each analysis.
    pub(super) fn arrange(&self, trials: &mut [TrialPlan]) -> Vec<usize> {
        trials.sort_by_key(|trial| self.look_of(&trial.task.name, trial.number));
        let looks = 0..self.schedule.looks.len();
        let until = |look| {
            trials.partition_point(|trial| self.look_of(&trial.task.name, trial.number) <= look)
        };
        looks.map(until).collect()
    }

    /// The first analysis that a trial is part of.
    fn look_of(&self, task: &str, trial: u32) -> usize {
        let tasks = &self.schedule.tasks;
        let position = tasks
            .iter()
            .position(|name| name == task)
            .unwrap_or(tasks.len());
        let round = usize::try_from(trial).unwrap_or(usize::MAX);
        let is_part = |look: &usize| {
            let (tasks, rounds) = self.schedule.size(*look);
            position < tasks && round <= rounds
        };
        let last = self.schedule.looks.len().saturating_sub(1);
        (0..last).find(is_part).unwrap_or(last)
    }

    /// The plan as stored with the run: a resumed run has to have the same one.
    pub fn document(&self) -> Value {
        json!({
            "baseline": self.baseline,
            "candidates": self.candidates,
            "schedule": self.schedule,
        })
    }
}
