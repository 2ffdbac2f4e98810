//! The experiment of a run: its next trials, its cost limit, and its results from records.

use std::sync::{Mutex, PoisonError};

use camino::Utf8Path;
use proctor_record::{outcome::Outcome, record::Record, usage::Usd};
use proctor_report::{
    NoTrials,
    experiment::{ExperimentError, ExperimentPlan},
    stats::Quotas,
};

use crate::plan::CALIBRATION;

/// The reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// The run has no trial.
    #[error(transparent)]
    NoTrials(#[from] NoTrials),
    /// The trials cannot be analysed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

/// The number of trials of each task that the run needs now. None, if they cannot be analysed: the
/// result says why.
pub(super) fn quotas(plan: &ExperimentPlan, run: &Utf8Path) -> Quotas {
    let trials = proctor_report::read(&[run.to_owned()]).unwrap_or_default();
    plan.quotas(&trials).unwrap_or_default()
}

/// The cost of a run, with a limit after which no trial is started.
pub(super) struct Spending {
    limit: Option<Usd>,
    spent: Mutex<Spent>,
}

#[derive(Default)]
struct Spent {
    cost: Usd,
    is_unknown: bool,
}

impl Spending {
    /// The cost of the trials that the run has now.
    pub(super) fn of(limit: Option<Usd>, run: &Utf8Path) -> Spending {
        let mut spent = Spent::default();
        if limit.is_some() {
            let trials = proctor_report::read(&[run.to_owned()]).unwrap_or_default();
            for trial in &trials.trials {
                let kinds = &trials.agents[trial.agent].kinds;
                let kind = kinds.first().map_or("", String::as_str);
                spent.add(kind, trial.outcome, trial.cost_usd);
            }
        }
        Spending {
            limit,
            spent: Mutex::new(spent),
        }
    }

    /// Adds the cost of a trial that has ended.
    pub(super) fn add(&self, record: &Record) {
        let usage = record.usage.as_ref();
        let cost = usage.and_then(|usage| usage.total.cost_usd);
        self.lock().add(&record.agent.kind, record.outcome, cost);
    }

    /// Why no further trial is started.
    pub(super) fn exhausted(&self) -> Option<String> {
        let limit = self.limit?;
        let spent = self.lock();
        if spent.is_unknown {
            Some("the cost of a trial is unknown, so that the cost limit cannot be kept".to_owned())
        } else {
            (spent.cost >= limit).then(|| {
                let [spent, limit] = [spent.cost, limit].map(Usd::dollars);
                format!(
                    "${spent:.2} of ${limit:.2} are spent; `--resume` with a higher limit continues"
                )
            })
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spent {
    fn add(&mut self, kind: &str, outcome: Outcome, cost: Option<Usd>) {
        let is_free = CALIBRATION.contains(&kind);
        let has_failed = outcome.is_infrastructure() || outcome == Outcome::Interrupted;
        match cost {
            Some(cost) => self.cost = self.cost + cost,
            None if is_free || has_failed => {}
            None => self.is_unknown = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spending(costs: &[(&str, Outcome, Option<f64>)]) -> Option<String> {
        let spending = Spending::of(Usd::from_dollars(1.0), "/nowhere".into());
        for (kind, outcome, cost) in costs {
            let cost = cost.and_then(Usd::from_dollars);
            spending.lock().add(kind, *outcome, cost);
        }
        spending.exhausted()
    }

    #[test]
    fn no_trial_starts_after_the_limit_or_an_unknown_cost() {
        let done = Outcome::Completed;
        assert_eq!(spending(&[("codex", done, Some(0.9))]), None);
        let text = spending(&[("codex", done, Some(0.9)), ("codex", done, Some(0.3))]);
        assert_eq!(
            text.as_deref(),
            Some("$1.20 of $1.00 are spent; `--resume` with a higher limit continues")
        );
        let text = spending(&[("codex", done, None)]).unwrap();
        assert!(text.contains("unknown"), "{text}");
        // An agent without a model has no cost, and a trial that did not start has none, either.
        let free = [("null", done, None), ("codex", Outcome::RateLimit, None)];
        assert_eq!(spending(&free), None);
    }
}
