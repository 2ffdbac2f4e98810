//! Bootstrap intervals: whole tasks are resampled, so that correlated trials of a task stay
//! together. Bias-corrected and accelerated, and widened for few tasks.

use proctor_record::shuffle::Shuffle;
use serde::Serialize;

use super::{
    interval::{Interval, Level, normal_quantile, normal_share, quantile},
    mean::{pooled, standard_error},
    sample::{Scores, TaskCluster},
};

/// The seed of random choices, which is part of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// The settings of resampling: seed and number of draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resampling {
    /// The seed.
    pub seed: Seed,
    /// The number of draws; at least 99.
    times: usize,
}

impl Resampling {
    /// Enough draws for the second digit of a p-value and the third of an interval.
    pub fn seeded(seed: Seed) -> Resampling {
        Resampling {
            seed,
            times: 10_000,
        }
    }

    /// The same with another number of draws; fewer than 99 are useless at 95 % and become 99.
    #[must_use]
    pub fn times(self, times: usize) -> Resampling {
        Resampling {
            times: times.max(99),
            ..self
        }
    }

    pub(super) fn count(self) -> usize {
        self.times
    }

    pub(super) fn draws(self) -> Shuffle {
        Shuffle::new(self.seed.0)
    }
}

/// The interval of the mean over trials, by resampling tasks. `None` for fewer than two units and
/// if nothing varied.
pub fn bootstrap_mean(scores: &Scores, level: Level, resampling: Resampling) -> Option<Interval> {
    bca(&scores.clusters(), level, resampling)
}

/// The interval of the pooled mean of clusters.
pub(super) fn bca(
    clusters: &[TaskCluster],
    level: Level,
    resampling: Resampling,
) -> Option<Interval> {
    let number = clusters.len() as f64;
    // The bootstrap of few units is too narrow by n/(n-1) in variance and by the difference between
    // the normal and the t distribution (Hesterberg 2015, expanded percentiles).
    let widened = |freedom| (number / (number - 1.0)).sqrt() * level.t(freedom);
    let width = widened(clusters.len().checked_sub(1)?);
    bca_of_width(clusters, width, resampling)
}

/// The interval with ends at `width` standard errors.
pub(super) fn bca_of_width(
    clusters: &[TaskCluster],
    width: f64,
    resampling: Resampling,
) -> Option<Interval> {
    let mean = pooled(clusters)?;
    standard_error(clusters, mean)?;
    let means = resampled_means(clusters, resampling);
    let bias = bias(&means, mean);
    let acceleration = acceleration(clusters);
    let end = |z: f64| {
        let shifted = bias + z;
        let share = normal_share(bias + shifted / (1.0 - acceleration * shifted));
        quantile(&means, share)
    };
    Some(Interval {
        low: end(-width),
        high: end(width),
    })
}

/// Sorted means of clusters drawn with replacement.
fn resampled_means(clusters: &[TaskCluster], resampling: Resampling) -> Vec<f64> {
    let mut draws = resampling.draws();
    let number = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
    let mut means: Vec<f64> = (0..resampling.count())
        .map(|_| resampled_mean(clusters, number, &mut draws))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    means
}

fn resampled_mean(clusters: &[TaskCluster], number: u32, draws: &mut Shuffle) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    let mut bits = 0;
    for place in 0..number {
        // One random number is used for two draws.
        bits = if place % 2 == 0 {
            draws.next_u64()
        } else {
            bits << 32
        };
        let cluster = &clusters[index(bits, number)];
        sum += cluster.sum;
        count += cluster.count;
    }
    sum / count
}

/// The upper half of random bits, scaled to `number` values.
fn index(bits: u64, number: u32) -> usize {
    let place = ((bits >> 32) * u64::from(number)) >> 32;
    usize::try_from(place).expect("the value fits into 32 bits")
}

/// The deviation of the median draw from the mean, in standard errors.
fn bias(sorted: &[f64], mean: f64) -> f64 {
    let below = sorted.partition_point(|drawn| *drawn < mean);
    let not_above = sorted.partition_point(|drawn| *drawn <= mean);
    let number = sorted.len() as f64;
    let share = (below + not_above) as f64 / (2.0 * number);
    normal_quantile(share.clamp(0.5 / number, 1.0 - 0.5 / number))
}

/// The change of the standard error with the mean: the skewness of the leave-one-out means.
fn acceleration(clusters: &[TaskCluster]) -> f64 {
    let sum: f64 = clusters.iter().map(|it| it.sum).sum();
    let count: f64 = clusters.iter().map(|it| it.count).sum();
    let without: Vec<f64> = clusters
        .iter()
        .map(|it| (sum - it.sum) / (count - it.count))
        .collect();
    let mean = super::sample::average(&without);
    let power = |n| -> f64 { without.iter().map(|it| (mean - it).powi(n)).sum() };
    let squares = power(2);
    if squares > 0.0 {
        power(3) / (6.0 * squares.powf(1.5))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resampling(seed: u64) -> Resampling {
        Resampling::seeded(Seed(seed)).times(999)
    }

    #[test]
    fn interval_depends_on_the_seed_only() {
        let values = (0..15).map(|i| (i.to_string(), f64::from(i * i % 15) / 14.0));
        let scores = Scores::collect(values).unwrap();
        let of = |seed| bootstrap_mean(&scores, Level::P95, resampling(seed)).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let middle = super::super::mean(&scores, Level::P95).unwrap().mean;
        assert!(of(1).contains(middle));
    }

    #[test]
    fn too_few_units_have_no_interval() {
        for values in [&[][..], &[("a", 1.0)], &[("a", 0.3), ("b", 0.3)]] {
            let scores = Scores::collect(values.iter().copied()).unwrap();
            assert_eq!(bootstrap_mean(&scores, Level::P95, resampling(1)), None);
        }
    }

    #[test]
    fn skewed_values_have_a_skewed_interval() {
        let values = [0.0, 0.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.3, 0.9, 1.0];
        let named = values.iter().enumerate().map(|(i, v)| (i.to_string(), *v));
        let scores = Scores::collect(named).unwrap();
        let interval = bootstrap_mean(&scores, Level::P95, resampling(7)).unwrap();
        assert!(
            interval.high - 0.29 > 1.3 * (0.29 - interval.low),
            "{interval:?}"
        );
    }
}
