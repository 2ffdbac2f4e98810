//! The mean of trials with a standard error that knows that trials of one task are alike.

use serde::Serialize;

use super::{
    interval::{Interval, Level},
    sample::{Cluster, Scores, Unit},
};

/// A mean and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean over all trials.
    pub mean: f64,
    /// Its standard error; unknown for a single unit, and where nothing varied.
    pub standard_error: Option<f64>,
    /// Where it may lie; unknown for a single unit, and where nothing varied.
    pub interval: Option<Interval>,
    /// How many trials it is made of.
    pub trials: usize,
    /// How many tasks.
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

/// The mean over all values of all clusters.
pub(super) fn pooled(clusters: &[Cluster]) -> Option<f64> {
    let sum: f64 = clusters.iter().map(|it| it.sum).sum();
    let count: f64 = clusters.iter().map(|it| it.count).sum();
    (count > 0.0).then(|| sum / count)
}

/// The cluster-robust standard error of the pooled mean. Unknown for less than two clusters, and
/// where no cluster differs from the mean: a spread of 0 seen is not a spread of 0.
pub(super) fn standard_error(clusters: &[Cluster], mean: f64) -> Option<f64> {
    if clusters.len() < 2 {
        return None;
    }
    let residual = |it: &Cluster| it.sum - it.count * mean;
    let squares: f64 = clusters.iter().map(|it| residual(it).powi(2)).sum();
    let count: f64 = clusters.iter().map(|it| it.count).sum();
    let number = clusters.len() as f64;
    let error = (squares * number / (number - 1.0)).sqrt() / count;
    // Rounding leaves a trace of the size of the mean where the spread is 0.
    (error > mean.abs() * 1e-12).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[(&str, f64)]) -> Scores {
        Scores::collect(values.iter().copied()).unwrap()
    }

    #[test]
    fn nothing_has_no_mean_and_one_trial_no_interval() {
        assert_eq!(mean(&Scores::default(), Level::P95), None);
        let one = mean(&scores(&[("a", 0.98)]), Level::P95).unwrap();
        assert_eq!(
            (one.mean, one.standard_error, one.interval),
            (0.98, None, None)
        );
    }

    #[test]
    fn trials_of_one_task_speak_of_that_task() {
        let one = mean(&scores(&[("a", 1.0), ("a", 2.0), ("a", 3.0)]), Level::P95).unwrap();
        assert_eq!(one.unit, Unit::Trial);
        let expected = 1.0 / 3.0_f64.sqrt();
        assert!((one.standard_error.unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn trials_that_repeat_a_task_add_no_certainty() {
        let once = mean(&scores(&[("a", 0.0), ("b", 1.0), ("c", 0.5)]), Level::P95).unwrap();
        let thrice: Vec<(&str, f64)> = [("a", 0.0), ("b", 1.0), ("c", 0.5)].repeat(3);
        let thrice = mean(&scores(&thrice), Level::P95).unwrap();
        assert_eq!(thrice.trials, 9);
        let difference = once.standard_error.unwrap() - thrice.standard_error.unwrap();
        assert!(difference.abs() < 1e-12);
    }

    #[test]
    fn where_nothing_varied_nothing_is_known_of_the_spread() {
        let flat = mean(&scores(&[("a", 0.1), ("b", 0.1), ("c", 0.1)]), Level::P95).unwrap();
        assert_eq!((flat.standard_error, flat.interval), (None, None));
    }
}
