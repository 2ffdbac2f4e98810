//! Compares two agents on exactly these tasks, even a single one: trials vary, tasks do not. The
//! result does not generalize to other tasks, and requires fewer of them.

use proctor_record::shuffle::Shuffle;
use serde::Serialize;

use super::{
    bootstrap::Resampling,
    interval::{Interval, Level, t_quantile},
    paired::Paired,
    sample::{Scores, variance},
};

/// The difference of two agents on exactly these tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Within {
    /// The candidate's mean minus the baseline's, with equal weight for all shared tasks.
    pub difference: f64,
    /// The confidence interval (Welch); `None` unless each agent tried each task twice, and if
    /// nothing varied.
    pub interval: Option<Interval>,
    /// The probability of a difference at least as large if a task's trials are randomly assigned
    /// to the two agents.
    pub p_value: f64,
    /// The smallest possible p-value with this many trials.
    pub smallest_p: f64,
    /// The number of shared tasks.
    pub tasks: usize,
}

/// Compares two agents on exactly the shared tasks. `None` without one.
pub fn within_tasks(
    baseline: &Scores,
    candidate: &Scores,
    level: Level,
    resampling: Resampling,
) -> Option<Within> {
    let paired = Paired::new(baseline, candidate);
    let difference = paired.difference()?;
    let mut tasks: Vec<Dealt> = paired.trials().map(Dealt::new).collect();
    let mut draws = resampling.draws();
    let count = tasks.len() as f64;
    // Sums that differ only by rounding are equal.
    let size: f64 = tasks.iter().map(Dealt::size).sum();
    let observed = (difference * count).abs() - size * 1e-12;
    let hits = (0..resampling.count())
        .filter(|_| {
            let sum: f64 = tasks.iter_mut().map(|it| it.deal(&mut draws)).sum();
            sum.abs() >= observed
        })
        .count();
    Some(Within {
        difference,
        interval: welch(&paired, difference, level),
        p_value: (hits + 1) as f64 / (resampling.count() + 1) as f64,
        smallest_p: smallest(&tasks),
        tasks: tasks.len(),
    })
}

/// The trials of one task, for random assignment.
struct Dealt {
    values: Vec<f64>,
    baseline: usize,
    sum: f64,
}

impl Dealt {
    fn new((baseline, candidate): (&[f64], &[f64])) -> Dealt {
        let values = [baseline, candidate].concat();
        Dealt {
            sum: values.iter().sum(),
            values,
            baseline: baseline.len(),
        }
    }

    fn size(&self) -> f64 {
        self.values.iter().map(|it| it.abs()).sum()
    }

    /// The difference of means after a new assignment.
    fn deal(&mut self, draws: &mut Shuffle) -> f64 {
        for place in 0..self.baseline {
            let other = place + draws.below(self.values.len() - place);
            self.values.swap(place, other);
        }
        let baseline: f64 = self.values[..self.baseline].iter().sum();
        let candidates = self.values.len() - self.baseline;
        (self.sum - baseline) / candidates as f64 - baseline / self.baseline as f64
    }

    /// The number of assignments, as a float because it can be large.
    fn ways(&self) -> f64 {
        let all = self.values.len();
        let way = |taken: usize| (all - taken) as f64 / (taken + 1) as f64;
        (0..self.baseline).map(way).product()
    }

    fn is_even(&self) -> bool {
        self.baseline * 2 == self.values.len()
    }
}

/// The smallest p-value of this many tasks with this many trials of each agent.
pub(super) fn smallest_of(tasks: usize, trials: usize) -> f64 {
    let trials = vec![0.0; trials];
    let task = |_| Dealt::new((&trials, &trials));
    smallest(&(0..tasks).map(task).collect::<Vec<_>>())
}

/// The smallest p-value. With equal numbers of trials, the opposite assignment is as extreme.
fn smallest(tasks: &[Dealt]) -> f64 {
    let ways: f64 = tasks.iter().map(Dealt::ways).product();
    let twice = if tasks.iter().all(Dealt::is_even) {
        2.0
    } else {
        1.0
    };
    (twice / ways).min(1.0)
}

/// Welch's interval of the difference of exactly these tasks.
pub(super) fn welch(paired: &Paired, difference: f64, level: Level) -> Option<Interval> {
    let (mut sum, mut freedom) = (0.0, 0.0);
    for values in paired.trials().flat_map(|(one, other)| [one, other]) {
        let part = variance(values)? / values.len() as f64;
        sum += part;
        freedom += part.powi(2) / (values.len() - 1) as f64;
    }
    let error = sum.sqrt() / paired.tasks() as f64;
    let varies = error > difference.abs() * 1e-12 && freedom > 0.0;
    varies.then(|| {
        let width = t_quantile(level.upper(), sum.powi(2) / freedom);
        Interval::around(difference, width * error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    fn scores(task: &str, values: &[f64]) -> Scores {
        Scores::collect(values.iter().map(|value| (task, *value))).unwrap()
    }

    fn compare(baseline: &[f64], candidate: &[f64]) -> Within {
        let (a, b) = (scores("t", baseline), scores("t", candidate));
        within_tasks(&a, &b, Level::P95, Resampling::seeded(Seed(9))).unwrap()
    }

    #[test]
    fn one_task_can_be_compared() {
        let clear = compare(&[0.1, 0.2, 0.15, 0.1, 0.2], &[0.8, 0.9, 0.85, 0.8, 0.7]);
        // 2 of C(10, 5) assignments.
        assert!((clear.smallest_p - 2.0 / 252.0).abs() < 1e-12);
        assert!(
            (clear.p_value - clear.smallest_p).abs() < 0.004,
            "{clear:?}"
        );
        let interval = clear.interval.unwrap();
        assert!(interval.low > 0.5 && interval.high < 0.8, "{interval:?}");
    }

    #[test]
    fn equal_agents_are_not_distinguished() {
        let alike = compare(&[0.0, 1.0, 0.0, 1.0], &[1.0, 0.0, 1.0, 0.0]);
        assert!((alike.p_value - 1.0).abs() < 1e-12);
        assert!(alike.interval.unwrap().contains(0.0));
    }

    #[test]
    fn single_trials_have_no_interval_and_no_small_p_value() {
        let once = compare(&[0.0], &[1.0]);
        assert_eq!(once.interval, None);
        assert!((once.smallest_p - 1.0).abs() < 1e-12);
        assert!((once.p_value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn comparison_without_a_shared_task_is_none() {
        let (a, b) = (scores("a", &[1.0]), scores("b", &[1.0]));
        let answer = within_tasks(&a, &b, Level::P95, Resampling::seeded(Seed(9)));
        assert_eq!(answer, None);
    }
}
