//! Confidence levels, intervals, and quantiles.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The confidence level of an interval, or of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Level(f64);

impl Level {
    /// 95 %, the default of reports.
    pub const P95: Level = Level(0.95);

    /// A level strictly between 0.5 and 1, such as 0.95.
    pub fn new(confidence: f64) -> Option<Level> {
        (confidence > 0.5 && confidence < 1.0).then_some(Level(confidence))
    }

    /// The confidence, such as 0.95.
    pub fn confidence(self) -> f64 {
        self.0
    }

    /// The accepted rate of false alarms, such as 0.05.
    pub fn alpha(self) -> f64 {
        1.0 - self.0
    }

    /// Standard errors of a normal distribution to each side.
    pub(super) fn z(self) -> f64 {
        normal_quantile(self.upper())
    }

    /// Standard errors of a t distribution to each side.
    pub(super) fn t(self, freedom: usize) -> f64 {
        t_quantile(self.upper(), freedom as f64)
    }

    /// The cumulative probability at the upper end.
    pub(super) fn upper(self) -> f64 {
        1.0 - self.alpha() / 2.0
    }
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    pub(super) fn around(middle: f64, margin: f64) -> Interval {
        Interval {
            low: middle - margin,
            high: middle + margin,
        }
    }

    /// The interval clamped to the range from 0 to 1.
    pub(super) fn of_a_share(self) -> Interval {
        Interval {
            low: self.low.clamp(0.0, 1.0),
            high: self.high.clamp(0.0, 1.0),
        }
    }

    /// Whether it contains a value.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The width.
    pub fn width(self) -> f64 {
        self.high - self.low
    }
}

/// The quantile of the normal distribution.
pub(super) fn normal_quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

/// The cumulative distribution function of the normal distribution.
pub(super) fn normal_share(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

/// The quantile of the t distribution.
pub(super) fn t_quantile(share: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0))
        .expect("a scale of 1 and at least one degree of freedom are valid")
        .inverse_cdf(share)
}

/// The interpolated quantile of sorted values (definition 7 of Hyndman and Fan). The slice is not
/// empty.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    // Not negative and at most the last index.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_sensible_or_refused() {
        assert_eq!(Level::new(0.95), Some(Level::P95));
        for nonsense in [0.0, 0.5, 1.0, 95.0, f64::NAN, -0.95] {
            assert_eq!(Level::new(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        let sorted = [1.0, 2.0, 4.0];
        assert!((quantile(&sorted, 0.5) - 2.0).abs() < 1e-12);
        assert!((quantile(&sorted, 0.75) - 3.0).abs() < 1e-12);
        assert!((quantile(&sorted, 1.0) - 4.0).abs() < 1e-12);
        assert!((quantile(&[7.0], 0.3) - 7.0).abs() < 1e-12);
    }
}
