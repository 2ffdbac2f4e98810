//! The mean of trials, with a standard error that accounts for the correlation of trials of one
//! task.

use serde::Serialize;

use super::{
    interval::{Interval, Level},
    power::{Needed, fewest_more},
    sample::{Scores, TaskCluster, Unit},
};

/// A mean with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean over all trials.
    pub mean: f64,
    /// The standard error; `None` for a single unit, and if nothing varied.
    pub standard_error: Option<f64>,
    /// The confidence interval; `None` for a single unit, and if nothing varied.
    pub interval: Option<Interval>,
    /// The number of trials.
    pub trials: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The independent unit of the standard error.
    pub unit: Unit,
}

/// The mean over trials, its cluster-robust standard error with the correction for few clusters,
/// and the t interval. `None` without a trial.
pub fn mean(scores: &Scores, level: Level) -> Option<Mean> {
    let clusters = scores.clusters();
    let mean = pooled(&clusters)?;
    let standard_error = standard_error(&clusters, mean);
    let margin = standard_error.map(|error| error * level.t(clusters.len() - 1));
    Some(Mean {
        mean,
        standard_error,
        interval: margin.map(|margin| Interval::around(mean, margin)),
        trials: scores.trials(),
        tasks: scores.tasks(),
        unit: scores.unit(),
    })
}

impl Mean {
    /// The number of further units until the interval excludes a limit, if mean and spread stay the
    /// same. One unit needs a second one.
    pub fn more_to_exclude(&self, units: usize, limit: f64, level: Level) -> Needed {
        let error = self.standard_error.unwrap_or(0.0);
        let spread = error * (units as f64).sqrt();
        let distance = (self.mean - limit).abs();
        fewest_more(units, |units| {
            units >= 2 && level.t(units - 1) * spread / (units as f64).sqrt() < distance
        })
    }
}

/// The mean over all values of all clusters.
pub(super) fn pooled(clusters: &[TaskCluster]) -> Option<f64> {
    let sum: f64 = clusters.iter().map(|it| it.sum).sum();
    let count: f64 = clusters.iter().map(|it| it.count).sum();
    (count > 0.0).then(|| sum / count)
}

/// The cluster-robust standard error of the pooled mean. `None` for fewer than two clusters, and if
/// no cluster differs from the mean: an observed spread of 0 does not mean a true spread of 0.
pub(super) fn standard_error(clusters: &[TaskCluster], mean: f64) -> Option<f64> {
    if clusters.len() < 2 {
        return None;
    }
    let residual = |it: &TaskCluster| it.sum - it.count * mean;
    let squares: f64 = clusters.iter().map(|it| residual(it).powi(2)).sum();
    let count: f64 = clusters.iter().map(|it| it.count).sum();
    let number = clusters.len() as f64;
    let error = (squares * number / (number - 1.0)).sqrt() / count;
    // With a spread of 0, rounding errors relative to the mean remain.
    (error > mean.abs() * 1e-12).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[(&str, f64)]) -> Scores {
        Scores::collect(values.iter().copied()).unwrap()
    }

    #[test]
    fn one_trial_has_no_interval() {
        assert_eq!(mean(&Scores::default(), Level::P95), None);
        let one = mean(&scores(&[("a", 0.98)]), Level::P95).unwrap();
        assert_eq!(
            (one.mean, one.standard_error, one.interval),
            (0.98, None, None)
        );
    }

    #[test]
    fn unit_of_one_task_is_the_trial() {
        let one = mean(&scores(&[("a", 1.0), ("a", 2.0), ("a", 3.0)]), Level::P95).unwrap();
        assert_eq!(one.unit, Unit::Trial);
        let expected = 1.0 / 3.0_f64.sqrt();
        assert!((one.standard_error.unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn repeated_trials_do_not_narrow_the_interval() {
        let once = mean(&scores(&[("a", 0.0), ("b", 1.0), ("c", 0.5)]), Level::P95).unwrap();
        let thrice: Vec<(&str, f64)> = [("a", 0.0), ("b", 1.0), ("c", 0.5)].repeat(3);
        let thrice = mean(&scores(&thrice), Level::P95).unwrap();
        assert_eq!(thrice.trials, 9);
        let difference = once.standard_error.unwrap() - thrice.standard_error.unwrap();
        assert!(difference.abs() < 1e-12);
    }

    #[test]
    fn spread_is_unknown_if_nothing_varied() {
        let flat = mean(&scores(&[("a", 0.1), ("b", 0.1), ("c", 0.1)]), Level::P95).unwrap();
        assert_eq!((flat.standard_error, flat.interval), (None, None));
    }
}
