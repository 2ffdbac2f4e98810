//! Bootstrap intervals: whole tasks are drawn again and again, so that what is alike within a
//! task stays together. Bias-corrected and accelerated, and widened for few tasks.

use proctor_record::shuffle::Shuffle;
use serde::Serialize;

use super::{
    interval::{Interval, Level, normal_quantile, normal_share, quantile},
    mean::{pooled, standard_error},
    sample::{Cluster, Scores},
};

/// Where random choices start; it belongs into the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// How chance is used: from which seed, how many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resampling {
    /// Where random choices start.
    pub seed: Seed,
    /// How many times something is drawn again; at least 99.
    times: usize,
}

impl Resampling {
    /// Enough times for the second digit of a p-value and the third of an interval.
    pub fn seeded(seed: Seed) -> Resampling {
        Resampling {
            seed,
            times: 10_000,
        }
    }

    /// With another number of times; less than 99 tell nothing at 95 % and become 99.
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

/// The interval of the mean over trials, by drawing tasks. `None` for less than two units and
/// where nothing varied.
pub fn bootstrap_mean(scores: &Scores, level: Level, resampling: Resampling) -> Option<Interval> {
    bca(&scores.clusters(), level, resampling)
}

/// The interval of the pooled mean of clusters.
pub(super) fn bca(clusters: &[Cluster], level: Level, resampling: Resampling) -> Option<Interval> {
    let number = clusters.len() as f64;
    // The bootstrap of few units is too narrow by n/(n-1) in variance and by the difference of
    // the normal to the t distribution (Hesterberg 2015, expanded percentiles).
    let widened = |freedom| (number / (number - 1.0)).sqrt() * level.t(freedom);
    let width = widened(clusters.len().checked_sub(1)?);
    bca_of_width(clusters, width, resampling)
}

/// The interval whose ends lie as far out as `width` standard errors would.
pub(super) fn bca_of_width(
    clusters: &[Cluster],
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

/// Means of clusters drawn with putting back, sorted.
fn resampled_means(clusters: &[Cluster], resampling: Resampling) -> Vec<f64> {
    let mut draws = resampling.draws();
    let number = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
    let mut means: Vec<f64> = (0..resampling.count())
        .map(|_| resampled_mean(clusters, number, &mut draws))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    means
}

fn resampled_mean(clusters: &[Cluster], number: u32, draws: &mut Shuffle) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    let mut bits = 0;
    for place in 0..number {
        // One random number is good for two draws.
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

/// The upper half of random bits, spread over `number` places.
fn index(bits: u64, number: u32) -> usize {
    let place = ((bits >> 32) * u64::from(number)) >> 32;
    usize::try_from(place).expect("it is below a number of 32 bits")
}

/// How far the middle of what was drawn lies off the mean, in standard errors.
fn bias(sorted: &[f64], mean: f64) -> f64 {
    let below = sorted.partition_point(|drawn| *drawn < mean);
    let not_above = sorted.partition_point(|drawn| *drawn <= mean);
    let number = sorted.len() as f64;
    let share = (below + not_above) as f64 / (2.0 * number);
    normal_quantile(share.clamp(0.5 / number, 1.0 - 0.5 / number))
}

/// How the standard error changes with the mean: the skewness of the means that leave one
/// cluster out.
fn acceleration(clusters: &[Cluster]) -> f64 {
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
    fn a_seed_is_an_interval() {
        let values = (0..15).map(|i| (i.to_string(), f64::from(i * i % 15) / 14.0));
        let scores = Scores::collect(values).unwrap();
        let of = |seed| bootstrap_mean(&scores, Level::P95, resampling(seed)).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let middle = super::super::mean(&scores, Level::P95).unwrap().mean;
        assert!(of(1).contains(middle));
    }

    #[test]
    fn too_little_has_no_interval() {
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
