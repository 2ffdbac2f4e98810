//! Medians of long-tailed figures: cost, time, tokens.

use serde::Serialize;

use super::{
    interval::{Interval, Level, quantile},
    rate::effective_trials,
    sample::{Scores, Unit},
};

/// A median with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Median {
    /// The median over all trials.
    pub median: f64,
    /// The confidence interval; `None` if there are too few units for bounds on both sides.
    pub interval: Option<Interval>,
    /// The number of trials.
    pub trials: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The independent unit of the interval.
    pub unit: Unit,
}

/// The median over trials. The interval is Woodruff's: the interval of the fraction of trials below
/// the median, converted to values of the trials. `None` without a trial.
pub fn median(values: &Scores, level: Level) -> Option<Median> {
    let mut sorted: Vec<f64> = values.iter().flat_map(|(_, it)| it).copied().collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    Some(Median {
        median,
        interval: interval(values, &sorted, median, level),
        trials: values.trials(),
        tasks: values.tasks(),
        unit: values.unit(),
    })
}

fn interval(values: &Scores, sorted: &[f64], median: f64, level: Level) -> Option<Interval> {
    let below = values
        .iter()
        .flat_map(|(task, it)| it.iter().map(move |value| (task, side(*value, median))));
    let below = Scores::collect(below).expect("shares are finite");
    let units = below.clusters().len();
    if units < 2 {
        return None;
    }
    let margin = level.t(units - 1) * (0.25 / effective_trials(&below, 0.5)).sqrt();
    // Too few trials for bounds within the sample.
    (margin < 0.5).then(|| Interval {
        low: quantile(sorted, 0.5 - margin),
        high: quantile(sorted, 0.5 + margin),
    })
}

/// 1 below the median, 0 above, 0.5 on the median.
fn side(value: f64, median: f64) -> f64 {
    if value < median {
        1.0
    } else if value > median {
        0.0
    } else {
        0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tasks(values: &[f64]) -> Scores {
        let named = values.iter().enumerate().map(|(i, v)| (i.to_string(), *v));
        Scores::collect(named).unwrap()
    }

    #[test]
    fn median_is_robust_against_a_long_tail() {
        let mut values: Vec<f64> = (1..=25).map(f64::from).collect();
        let before = median(&of_tasks(&values), Level::P95).unwrap();
        values[24] = 1e6;
        assert_eq!(median(&of_tasks(&values), Level::P95).unwrap(), before);
        assert!((before.median - 13.0).abs() < 1e-12);
        assert!(before.interval.unwrap().contains(13.0));
    }

    #[test]
    fn too_few_trials_have_a_median_without_an_interval() {
        assert_eq!(median(&Scores::default(), Level::P95), None);
        let few = median(&of_tasks(&[1.0, 2.0, 3.0]), Level::P95).unwrap();
        assert_eq!((few.median, few.interval), (2.0, None));
    }
}
