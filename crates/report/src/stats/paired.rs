//! Compares two agents on shared tasks, so that differences between tasks cancel out.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::{
    bootstrap::{Resampling, bca},
    interval::{Interval, Level},
    power::{self, Power, Spread},
    sample::{PassCount, Passes, Scores, TaskCluster, average, variance},
    signs,
};

/// The results of two agents on their common tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired<'a> {
    tasks: Vec<Pair<'a>>,
    left_out: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair<'a> {
    baseline: &'a [f64],
    candidate: &'a [f64],
}

/// The difference of two agents with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The candidate's mean minus the baseline's, with equal weight for all shared tasks.
    pub difference: f64,
    /// The confidence interval, by resampling tasks; `None` if no task differs from another.
    pub interval: Option<Interval>,
    /// The probability of a difference at least as large between equal agents (sign-flip test).
    pub p_value: f64,
    /// The smallest possible p-value with this many tasks.
    pub smallest_p: f64,
    /// The standardized effect size.
    pub effect: Effect,
    /// The number of shared tasks.
    pub tasks: usize,
    /// Tasks that only one of them tried, which are not used.
    pub left_out: usize,
    /// The confidence level.
    pub level: Level,
}

/// The effect size, without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The mean difference in standard deviations of the tasks' differences, corrected for few
    /// tasks (Hedges); `None` if no task differs from another.
    pub standardized: Option<f64>,
    /// The fraction of tasks on which the candidate is better; a tie counts half.
    pub superiority: f64,
}

/// The conclusions of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Significance {
    /// The candidate's figure is higher.
    Higher,
    /// The candidate's figure is lower.
    Lower,
    /// The two cannot be told apart.
    NotApart,
    /// This many tasks cannot give a significant result at this level.
    TooFew,
}

impl Comparison {
    /// The conclusion at the comparison's level. A difference is claimed only if the test and the
    /// interval agree, so that a report never contradicts itself.
    pub fn significance(&self) -> Significance {
        Significance::of(
            (self.p_value, self.smallest_p),
            self.difference,
            self.interval,
            self.level,
        )
    }
}

impl Significance {
    /// The conclusion from a p-value and the smallest possible one, a difference and its interval.
    pub(super) fn of(
        (p_value, smallest_p): (f64, f64),
        difference: f64,
        interval: Option<Interval>,
        level: Level,
    ) -> Significance {
        if smallest_p > level.alpha() {
            Significance::TooFew
        } else if p_value > level.alpha() || interval.is_some_and(|it| it.contains(0.0)) {
            Significance::NotApart
        } else if difference > 0.0 {
            Significance::Higher
        } else {
            Significance::Lower
        }
    }
}

impl<'a> Paired<'a> {
    /// Pairs two agents on shared tasks.
    pub fn new(baseline: &'a Scores, candidate: &'a Scores) -> Paired<'a> {
        let tasks: Vec<Pair> = baseline
            .iter()
            .filter_map(|(task, baseline)| {
                let candidate = candidate.of(task)?;
                Some(Pair {
                    baseline,
                    candidate,
                })
            })
            .collect();
        let left_out = baseline.tasks() + candidate.tasks() - 2 * tasks.len();
        Paired { tasks, left_out }
    }

    /// The number of shared tasks.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Compares the agents. `None` for fewer than two shared tasks.
    pub fn compare(&self, level: Level, resampling: Resampling) -> Option<Comparison> {
        let differences = self.differences();
        let p_value = self.p_value(resampling)?;
        Some(Comparison {
            difference: average(&differences),
            interval: self.interval(level, resampling),
            p_value,
            smallest_p: signs::smallest(differences.len()),
            effect: effect(&differences),
            tasks: differences.len(),
            left_out: self.left_out,
            level,
        })
    }

    /// Only the confidence interval of the mean difference. `None` for fewer than two shared tasks,
    /// and if no task differs from another.
    pub(super) fn interval(&self, level: Level, resampling: Resampling) -> Option<Interval> {
        let differences = self.differences();
        let units = differences.iter().map(|it| TaskCluster::of(&[*it]));
        bca(&units.collect::<Vec<_>>(), level, resampling)
    }

    /// Only the p-value. `None` for fewer than two shared tasks.
    pub(super) fn p_value(&self, resampling: Resampling) -> Option<f64> {
        let differences = self.differences();
        let enough = differences.len() >= 2;
        enough.then(|| signs::p_value(&differences, resampling).unwrap_or(1.0))
    }

    /// The mean difference. `None` without a shared task.
    pub fn difference(&self) -> Option<f64> {
        let differences = self.differences();
        (!differences.is_empty()).then(|| average(&differences))
    }

    /// The means of the baseline and of the candidate over shared tasks, with equal weight for all
    /// tasks. `None` without a shared task.
    pub fn means(&self) -> Option<(f64, f64)> {
        let mean = |values: fn(&Pair<'a>) -> &'a [f64]| {
            let means: Vec<f64> = self.tasks.iter().map(|it| average(values(it))).collect();
            average(&means)
        };
        let has_any = !self.tasks.is_empty();
        has_any.then(|| (mean(|it| it.baseline), mean(|it| it.candidate)))
    }

    /// The number of additional trials or tasks to distinguish the agents, if the observed
    /// difference is the true one. `None` for fewer than two shared tasks.
    pub fn power(&self, level: Level) -> Option<Power> {
        Some(power::needed(&self.spread()?, level))
    }

    /// The variance components. `None` for fewer than two shared tasks.
    pub(super) fn spread(&self) -> Option<Spread> {
        let between = variance(&self.differences())?;
        self.spread_with(between)
    }

    /// The variance components with this variance of the tasks' differences. `None` without a
    /// shared task.
    pub(super) fn spread_with(&self, between: f64) -> Option<Spread> {
        Some(Spread {
            difference: self.difference()?,
            tasks: self.tasks(),
            between,
            baseline: pooled_variance(self.tasks.iter().map(|it| it.baseline)),
            candidate: pooled_variance(self.tasks.iter().map(|it| it.candidate)),
            per_baseline: self.per_trial(|it| it.baseline.len()),
            per_candidate: self.per_trial(|it| it.candidate.len()),
            trials: self.fewest_trials(),
        })
    }

    /// The difference of each shared task.
    pub fn differences(&self) -> Vec<f64> {
        let difference = |it: &Pair| average(it.candidate) - average(it.baseline);
        self.tasks.iter().map(difference).collect()
    }

    /// The mean over tasks of 1/(number of trials).
    fn per_trial(&self, trials: impl Fn(&Pair) -> usize) -> f64 {
        let sum: f64 = self.tasks.iter().map(|it| 1.0 / trials(it) as f64).sum();
        sum / self.tasks.len() as f64
    }

    /// The minimum number of trials of a task.
    pub(super) fn fewest_trials(&self) -> usize {
        let fewest = |it: &Pair| it.baseline.len().min(it.candidate.len());
        self.tasks.iter().map(fewest).min().unwrap_or(0)
    }

    pub(super) fn trials(&self) -> impl Iterator<Item = (&'a [f64], &'a [f64])> {
        self.tasks.iter().map(|it| (it.baseline, it.candidate))
    }
}

/// The variance of trials within tasks, over all tasks with more than one trial.
fn pooled_variance<'a>(tasks: impl Iterator<Item = &'a [f64]>) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for values in tasks {
        if let Some(variance) = variance(values) {
            let own = (values.len() - 1) as f64;
            squares += variance * own;
            freedom += own;
        }
    }
    (freedom > 0.0).then(|| squares / freedom)
}

fn effect(differences: &[f64]) -> Effect {
    let spread = variance(differences).map_or(0.0, f64::sqrt);
    let mean = average(differences);
    let freedom = (differences.len() - 1) as f64;
    let correction = 1.0 - 3.0 / (4.0 * freedom - 1.0);
    let better = differences.iter().filter(|it| **it > 0.0).count() as f64;
    let ties = differences.iter().filter(|it| **it == 0.0).count() as f64;
    Effect {
        standardized: (spread > mean.abs() * 1e-12).then(|| correction * mean / spread),
        superiority: (better + ties / 2.0) / differences.len() as f64,
    }
}

/// Tasks that changed from failed to passed, and back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct McNemar {
    /// Tasks that only the candidate passes.
    pub gained: u64,
    /// Tasks that only the baseline passes.
    pub lost: u64,
    /// The number of shared tasks.
    pub tasks: usize,
    /// The probability of a change at least as uneven between equal agents (exact, two-sided).
    pub p_value: f64,
}

/// The exact [`McNemar`] test over shared tasks. A task is passed if more than half of its trials
/// are. `None` without a shared task.
pub fn mcnemar(baseline: &Passes, candidate: &Passes) -> Option<McNemar> {
    let passed = |tally: PassCount| 2 * tally.passed() > tally.trials();
    let shared = baseline.iter().filter_map(|(task, tally)| {
        let candidate = candidate.of(task)?;
        Some((passed(tally), passed(candidate)))
    });
    let shared: Vec<(bool, bool)> = shared.collect();
    let count = |changed: (bool, bool)| shared.iter().filter(|it| **it == changed).count() as u64;
    let (gained, lost) = (count((false, true)), count((true, false)));
    (!shared.is_empty()).then(|| McNemar {
        gained,
        lost,
        tasks: shared.len(),
        p_value: even_odds(gained.min(lost), gained + lost),
    })
}

/// The two-sided probability of at most `fewer` heads of a fair coin.
fn even_odds(fewer: u64, tosses: u64) -> f64 {
    let coin = Binomial::new(0.5, tosses).expect("a half is a probability");
    (2.0 * coin.cdf(fewer)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    fn scores(values: &[(&str, f64)]) -> Scores {
        Scores::collect(values.iter().copied()).unwrap()
    }

    fn resampling() -> Resampling {
        Resampling::seeded(Seed(5)).times(999)
    }

    #[test]
    fn only_shared_tasks_are_compared() {
        let a = scores(&[("a", 0.0), ("b", 0.5), ("c", 1.0)]);
        let b = scores(&[("b", 0.75), ("c", 1.0), ("c", 0.5), ("d", 0.0)]);
        let comparison = Paired::new(&a, &b)
            .compare(Level::P95, resampling())
            .unwrap();
        assert_eq!((comparison.tasks, comparison.left_out), (2, 2));
        assert!((comparison.difference - 0.0).abs() < 1e-12);
        assert!((comparison.effect.superiority - 0.5).abs() < 1e-12);
    }

    #[test]
    fn one_shared_task_cannot_be_compared() {
        let a = scores(&[("a", 0.0), ("b", 0.5)]);
        let b = scores(&[("b", 0.75), ("c", 1.0)]);
        assert_eq!(Paired::new(&a, &b).compare(Level::P95, resampling()), None);
        assert_eq!(Paired::new(&a, &b).power(Level::P95), None);
    }

    fn significance(better_by: f64, tasks: usize) -> Significance {
        let names: Vec<String> = (0..tasks).map(|i| i.to_string()).collect();
        let of = |plus: f64| {
            let value = |(i, name): (usize, &String)| (name.clone(), (i % 3) as f64 / 9.0 + plus);
            Scores::collect(names.iter().enumerate().map(value)).unwrap()
        };
        let (a, b) = (of(0.0), of(better_by));
        let comparison = Paired::new(&a, &b).compare(Level::P95, resampling());
        comparison.unwrap().significance()
    }

    #[test]
    fn few_tasks_are_reported_as_too_few() {
        assert_eq!(significance(0.5, 5), Significance::TooFew);
        assert_eq!(significance(0.5, 6), Significance::Higher);
        assert_eq!(significance(-0.5, 6), Significance::Lower);
        assert_eq!(significance(0.0, 6), Significance::NotApart);
    }

    fn mcnemar_of(gained: usize, lost: usize, same: usize) -> McNemar {
        let outcomes = [
            ((false, true), gained),
            ((true, false), lost),
            ((true, true), same),
        ];
        let all: Vec<(bool, bool)> = outcomes
            .iter()
            .flat_map(|(pair, times)| std::iter::repeat_n(*pair, *times))
            .collect();
        let named = |of: fn(&(bool, bool)) -> bool| {
            Passes::collect(
                all.iter()
                    .enumerate()
                    .map(|(i, it)| (i.to_string(), of(it))),
            )
        };
        mcnemar(&named(|it| it.0), &named(|it| it.1)).unwrap()
    }

    #[test]
    fn mcnemar_counts_changed_tasks_only() {
        let test = mcnemar_of(9, 1, 30);
        assert_eq!((test.gained, test.lost, test.tasks), (9, 1, 40));
        // 2 (C(10,0) + C(10,1)) / 2^10
        assert!((test.p_value - 22.0 / 1024.0).abs() < 1e-12);
        assert!((mcnemar_of(3, 3, 0).p_value - 1.0).abs() < 1e-12);
        assert!((mcnemar_of(0, 0, 4).p_value - 1.0).abs() < 1e-12);
        assert_eq!(mcnemar(&Passes::default(), &Passes::default()), None);
    }
}
