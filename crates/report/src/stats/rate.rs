//! Pass rates: Wilson intervals, and the metrics for k attempts.

use std::num::NonZeroU64;

use serde::Serialize;

use super::{
    interval::{Interval, Level},
    mean::{self, Mean, mean},
    power::{Needed, fewest_more},
    sample::{PassCount, Passes, Scores, Unit},
};

/// A pass rate with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PassRate {
    /// The fraction of passed trials.
    pub rate: f64,
    /// The confidence interval; `None` for a single trial.
    pub interval: Option<Interval>,
    /// The numbers of passed and of all trials.
    pub tally: PassCount,
    /// The number of tasks.
    pub tasks: usize,
    /// The independent unit of the interval.
    pub unit: Unit,
}

/// The Wilson interval of independent trials: those of one task, or one of each. `None` for fewer
/// than two trials.
pub fn wilson(tally: PassCount, level: Level) -> Option<Interval> {
    (tally.trials() >= 2).then(|| {
        let trials = tally.trials() as f64;
        score_interval(tally.passed() as f64 / trials, trials, level.z())
    })
}

/// The fraction of passed trials. If tasks have several trials each, the Wilson interval is that of
/// the number of independent trials with the same standard error.
pub fn pass_rate(passes: &Passes, level: Level) -> Option<PassRate> {
    let tally = passes.total();
    let scores = passes.scores();
    let clusters = scores.clusters();
    let rate = mean::pooled(&clusters)?;
    let independent = clusters.len() == scores.trials();
    let interval = if independent {
        wilson(tally, level)
    } else {
        let effective = effective_trials(&scores, rate);
        let width = level.t(clusters.len() - 1);
        Some(score_interval(rate, effective, width))
    };
    Some(PassRate {
        rate,
        interval,
        tally,
        tasks: scores.tasks(),
        unit: scores.unit(),
    })
}

/// The number of further units, tasks or trials, until the interval of the pass rate excludes a
/// limit, if the rate stays the same. `None` without a trial.
pub fn more_to_exclude(passes: &Passes, limit: f64, level: Level) -> Option<Needed> {
    let scores = passes.scores();
    let units = scores.clusters().len();
    let rate = mean::pooled(&scores.clusters())?;
    let is_independent = units == scores.trials();
    let per_unit = effective_trials(&scores, rate) / units as f64;
    Some(fewest_more(units, |units| {
        let interval = match (is_independent, units) {
            (_, 0 | 1) => return false,
            (true, _) => score_interval(rate, units as f64, level.z()),
            (false, _) => score_interval(rate, per_unit * units as f64, level.t(units - 1)),
        };
        !interval.contains(limit)
    }))
}

/// The Wilson interval of a mean of values between 0 and 1 that did not vary, which cannot vary
/// more than passes and failures with the same mean. `None` for fewer than two units.
pub fn share_interval(mean: f64, units: usize, level: Level) -> Option<Interval> {
    (units >= 2).then(|| score_interval(mean, units as f64, level.t(units - 1)))
}

/// The effective number of independent values of these clusters, at most all. If all are equal,
/// each cluster counts once.
pub(super) fn effective_trials(scores: &Scores, share: f64) -> f64 {
    let clusters = scores.clusters();
    let trials = scores.trials() as f64;
    let spread = share * (1.0 - share);
    match mean::standard_error(&clusters, share) {
        Some(error) => (spread / error.powi(2)).min(trials),
        None if spread > 1e-12 => trials,
        None => clusters.len() as f64,
    }
}

fn score_interval(rate: f64, trials: f64, width: f64) -> Interval {
    let square = width.powi(2);
    let middle = (rate + square / (2.0 * trials)) / (1.0 + square / trials);
    let spread = rate * (1.0 - rate) / trials + square / (4.0 * trials.powi(2));
    let margin = width * spread.sqrt() / (1.0 + square / trials);
    Interval::around(middle, margin).of_a_share()
}

/// The pass metrics for k attempts at a task, as a mean over tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AllOf {
    /// The number of attempts.
    pub k: NonZeroU64,
    /// The mean over tasks with enough trials, with equal weight for all tasks.
    pub mean: Mean,
    /// Tasks with fewer than k trials, which are not used.
    pub left_out: usize,
}

/// pass@k: the probability that at least one of k attempts passes. Unbiased; `None` if no task has
/// k trials.
pub fn pass_at_k(passes: &Passes, k: NonZeroU64, level: Level) -> Option<AllOf> {
    of_k(passes, k, level, |tally, k| {
        1.0 - all_from(tally.trials() - tally.passed(), tally.trials(), k)
    })
}

/// pass^k: the probability that all of k attempts pass. Unbiased; `None` if no task has k trials.
pub fn pass_pow_k(passes: &Passes, k: NonZeroU64, level: Level) -> Option<AllOf> {
    of_k(passes, k, level, |tally, k| {
        all_from(tally.passed(), tally.trials(), k)
    })
}

fn of_k(
    passes: &Passes,
    k: NonZeroU64,
    level: Level,
    estimate: impl Fn(PassCount, u64) -> f64,
) -> Option<AllOf> {
    let enough = passes.iter().filter(|(_, it)| it.trials() >= k.get());
    let values = enough.map(|(task, tally)| (task, estimate(tally, k.get())));
    let scores = Scores::collect(values).expect("shares are finite");
    let mut mean = mean(&scores, level)?;
    mean.interval = mean.interval.map(Interval::of_a_share);
    Some(AllOf {
        k,
        left_out: passes.iter().count() - scores.tasks(),
        mean,
    })
}

/// The probability that k of n items, drawn without replacement, are all among m: C(m,k)/C(n,k).
fn all_from(m: u64, n: u64, k: u64) -> f64 {
    if k > m {
        return 0.0;
    }
    (0..k)
        .map(|drawn| (m - drawn) as f64 / (n - drawn) as f64)
        .product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_wilson(passed: u64, trials: u64, low: f64, high: f64) {
        let interval = wilson(PassCount::new(passed, trials).unwrap(), Level::P95).unwrap();
        assert!((interval.low - low).abs() < 5e-5, "{interval:?}");
        assert!((interval.high - high).abs() < 5e-5, "{interval:?}");
    }

    #[test]
    fn wilson_intervals_match_newcombe() {
        // Newcombe (1998), table I, method 3.
        check_wilson(81, 263, 0.2553, 0.3662);
        check_wilson(15, 148, 0.0624, 0.1605);
        check_wilson(0, 20, 0.0, 0.1611);
        check_wilson(1, 29, 0.0061, 0.1718);
    }

    fn k(k: u64) -> NonZeroU64 {
        NonZeroU64::new(k).unwrap()
    }

    fn tried(tasks: &[(&str, u64, u64)]) -> Passes {
        Passes::collect(
            tasks
                .iter()
                .flat_map(|(task, passed, trials)| (0..*trials).map(move |i| (*task, i < *passed))),
        )
    }

    #[test]
    fn k_attempts_are_drawn_without_replacement() {
        let passes = tried(&[("a", 2, 5)]);
        let at = pass_at_k(&passes, k(2), Level::P95).unwrap();
        assert!((at.mean.mean - (1.0 - 3.0 / 10.0)).abs() < 1e-12);
        let pow = pass_pow_k(&passes, k(2), Level::P95).unwrap();
        assert!((pow.mean.mean - 1.0 / 10.0).abs() < 1e-12);
        let once = pass_at_k(&passes, k(1), Level::P95).unwrap();
        assert!((once.mean.mean - 0.4).abs() < 1e-12);
    }

    #[test]
    fn tasks_with_too_few_trials_are_excluded_and_counted() {
        let passes = tried(&[("a", 1, 2), ("b", 5, 5), ("c", 0, 5)]);
        let at = pass_at_k(&passes, k(3), Level::P95).unwrap();
        assert_eq!((at.left_out, at.mean.tasks), (1, 2));
        assert_eq!(pass_at_k(&passes, k(6), Level::P95), None);
    }

    #[test]
    fn one_trial_has_a_rate_without_an_interval() {
        let rate = pass_rate(&tried(&[("a", 1, 1)]), Level::P95).unwrap();
        assert_eq!((rate.rate, rate.interval), (1.0, None));
        assert_eq!(pass_rate(&Passes::default(), Level::P95), None);
    }

    #[test]
    fn effective_number_of_equal_trials_is_the_number_of_tasks() {
        let rate = pass_rate(&tried(&[("a", 5, 5), ("b", 5, 5), ("c", 5, 5)]), Level::P95);
        let interval = rate.unwrap().interval.unwrap();
        assert!(interval.low < 0.5, "{interval:?}");
        assert!((interval.high - 1.0).abs() < 1e-12);
    }
}
