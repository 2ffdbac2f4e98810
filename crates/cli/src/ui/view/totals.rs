//! A run in one line: progress, usage and estimated remaining time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proctor_record::{
    record::{
        TrialStatus,
        follow::{RunView, TrialState, TrialView},
    },
    usage::Usd,
};

use super::text::{clock, short};

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewTotals {
    expected: usize,
    ended: usize,
    active: usize,
    passed: usize,
    failed: usize,
    errors: usize,
    tokens: u64,
    cost: Usd,
    /// Whether the cost of an ended trial is unknown.
    is_cost_partial: bool,
    left_ms: Option<u64>,
}

impl ViewTotals {
    /// Computes the totals of a run.
    pub fn of(run: &RunView, now: Timestamp) -> ViewTotals {
        let mut totals = ViewTotals {
            expected: run.expected,
            ..ViewTotals::default()
        };
        for trial in &run.trials {
            totals.tokens += trial.tokens.unwrap_or(0);
            totals.cost = totals.cost + trial.cost.unwrap_or_default();
            match trial.state {
                TrialState::Waiting => {}
                TrialState::Active(_) => totals.active += 1,
                TrialState::Dead => totals.errors += 1,
                TrialState::Ended(status, _) => {
                    totals.ended += 1;
                    totals.is_cost_partial |= trial.cost.is_none();
                    match status {
                        TrialStatus::Passed => totals.passed += 1,
                        TrialStatus::Failed => totals.failed += 1,
                        TrialStatus::Error | TrialStatus::Interrupted => totals.errors += 1,
                    }
                }
            }
        }
        totals.left_ms = run.is_running.then(|| left(run, &totals, now)).flatten();
        totals
    }

    /// The totals as text, the most important first, because a narrow terminal cuts off the rest.
    pub fn text(&self) -> String {
        let mut parts = vec![
            format!("{}/{} done", self.ended, self.expected),
            format!("{} running", self.active),
            format!("{} passed, {} failed", self.passed, self.failed),
        ];
        if self.errors > 0 {
            parts.push(format!("{} excluded", self.errors));
        }
        if self.cost != Usd::default() {
            let least = if self.is_cost_partial { "≥ " } else { "" };
            parts.push(format!("{least}${:.2}", self.cost.dollars()));
        }
        if let Some(left) = self.left_ms {
            parts.push(format!("{} left", clock(left)));
        }
        if self.tokens > 0 {
            parts.push(format!("{} tokens", short(self.tokens)));
        }
        parts.join(" · ")
    }
}

/// The estimated remaining time; `None` before the first trial has ended. Each trial is assumed to
/// take as long as the other trials of its agent.
fn left(run: &RunView, totals: &ViewTotals, now: Timestamp) -> Option<u64> {
    let mut known: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut longest = 0;
    for trial in &run.trials {
        match (trial.state, trial.elapsed_ms(now)) {
            (TrialState::Ended(..), Some(ms)) => {
                let (count, sum) = known.entry(&trial.agent).or_default();
                *count += 1;
                *sum += ms;
            }
            (TrialState::Active(_), Some(ms)) => longest = longest.max(ms),
            _ => {}
        }
    }
    let (count, sum) = known
        .values()
        .fold((0, 0), |(count, sum), (more, ms)| (count + more, sum + ms));
    // Subtract the elapsed time of running trials.
    let other = sum.checked_div(count)?.max(longest);
    let lasts = |trial: &TrialView| {
        known
            .get(trial.agent.as_str())
            .map_or(other, |(count, sum)| sum / count)
    };
    let work = run.trials.iter().map(|trial| match trial.state {
        TrialState::Waiting => lasts(trial),
        TrialState::Active(_) => lasts(trial).saturating_sub(trial.elapsed_ms(now).unwrap_or(0)),
        _ => 0,
    });
    let unseen = totals.expected.saturating_sub(run.trials.len()) as u64;
    let work = work.sum::<u64>() + unseen * other;
    Some(work / totals.active.max(1) as u64)
}
