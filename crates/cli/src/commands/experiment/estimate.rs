//! The time and cost of an experiment: from earlier runs, or else from its first trials.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use proctor_record::{
    record::{Event, list},
    usage::Usd,
};
use proctor_report::{
    self as report, dollars,
    experiment::{Estimate, estimate},
    millis,
};

use super::super::planning::PlannedRun;
use crate::ui;

/// The number of earlier runs that are read.
const MOST_RUNS: usize = 10;

/// The estimate from earlier runs with the same types of agents, in words.
pub(super) fn from_earlier_runs(planned: &PlannedRun) -> Option<String> {
    let runs = list::list(&planned.results_dir).into_iter();
    let runs: Vec<_> = runs.take(MOST_RUNS).map(|run| run.run_dir).collect();
    let earlier = report::read(&runs).ok()?;
    let schedule = &planned.plan.experiment.as_ref()?.schedule;
    let trials = planned.plan.trials.iter();
    let trials = trials.filter(|trial| trial.number as usize <= schedule.trials);
    let trials = trials.map(|trial| (trial.adapter.name(), trial.task.name.as_str()));
    let found = estimate(&earlier, trials)?;
    let from = ui::counted(found.trials, "earlier trial");
    Some(format!(
        "{}, from {from}",
        in_words(found, planned.parallel)
    ))
}

fn in_words(estimate: Estimate, parallel: usize) -> String {
    let time = millis(estimate.millis / parallel.max(1) as f64);
    let cost = estimate.cost_usd.map_or("unknown cost".to_owned(), dollars);
    format!("about {time} and {cost}")
}

/// Watches the first trials of a run, and estimates the rest from them.
pub(super) struct FirstTrials {
    /// The number of trials to watch, and of all trials.
    watched: usize,
    planned: usize,
    began: Instant,
    /// The number of trials that ended, and their cost.
    ended: Mutex<(usize, Option<f64>)>,
}

impl FirstTrials {
    pub(super) fn new(planned: &PlannedRun) -> FirstTrials {
        let agents = planned.plan.experiment.as_ref();
        let agents = agents.map_or(1, |plan| 1 + plan.candidates.len());
        FirstTrials {
            watched: agents.max(planned.parallel),
            planned: planned.plan.budget(),
            began: Instant::now(),
            ended: Mutex::new((0, Some(0.0))),
        }
    }

    /// The estimate, after the last of the first trials.
    pub(super) fn note(&self, event: &Event) -> Option<String> {
        let Event::Ended(end) = event else {
            return None;
        };
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = end.cost_usd.map(Usd::dollars);
        *ended = (ended.0 + 1, ended.1.zip(cost).map(|(sum, it)| sum + it));
        let (number, cost) = *ended;
        if number != self.watched || number >= self.planned {
            return None;
        }
        let times = self.planned as f64 / number as f64;
        let all = Estimate {
            millis: self.began.elapsed().as_secs_f64() * 1000.0 * times,
            cost_usd: cost.map(|it| it * times),
            trials: number,
        };
        let first = ui::counted(number, "trial");
        Some(format!(
            "estimate: {} in all, from the first {first}",
            in_words(all, 1)
        ))
    }
}
