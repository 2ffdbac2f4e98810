//! Conclusions with a margin: equivalence by two one-sided tests (TOST), and non-inferiority. Both
//! hold if an interval with twice the error rate of one test is within the margin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    interval::{Interval, Level},
    pair_test::{PairSample, PairTest},
    paired::Significance,
};

/// The largest difference without practical importance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Margins {
    /// Differences up to this one, in either direction, are equivalence.
    pub equivalent: Option<f64>,
    /// Losses up to this one are accepted.
    pub not_worse: Option<f64>,
}

impl Margins {
    /// Whether no margin is set.
    pub fn is_empty(self) -> bool {
        self.equivalent.is_none() && self.not_worse.is_none()
    }

    /// The same margins in another unit.
    #[must_use]
    pub fn times(self, unit: f64) -> Margins {
        Margins {
            equivalent: self.equivalent.map(|it| it * unit),
            not_worse: self.not_worse.map(|it| it * unit),
        }
    }
}

/// The decision about one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The candidate is better.
    Better,
    /// The candidate is worse.
    Worse,
    /// The difference is within the margin, in both directions.
    Equivalent,
    /// The candidate is worse by less than the margin, if at all.
    NotWorse,
    /// The sample does not decide it.
    Undecided,
}

/// The error rates of one analysis: of the test, and of both one-sided tests of a margin together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnalysisLevels {
    /// The level of the test for a difference.
    pub difference: Level,
    /// The level of the interval that has to be within the margin: 90 % for error rates of 5 %.
    pub margin: Level,
}

impl AnalysisLevels {
    /// The levels of a single analysis. A level of 75 % or less is also that of the margin.
    pub fn fixed(level: Level) -> AnalysisLevels {
        AnalysisLevels {
            difference: level,
            margin: Level::new(1.0 - 2.0 * level.alpha()).unwrap_or(level),
        }
    }
}

/// A test with the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decided {
    /// The test for a difference.
    pub test: PairTest,
    /// The decision.
    pub decision: Decision,
}

/// Tests a sample, and decides. A margin that holds takes precedence over a loss, because the loss
/// is smaller than the margin. `None` without enough shared tasks.
pub fn decide(
    sample: &PairSample,
    levels: AnalysisLevels,
    margins: Margins,
    is_gain: bool,
) -> Option<Decided> {
    let test = sample.test(levels.difference)?;
    let interval = || sample.interval(levels.margin);
    let decision = match (test.significance, is_gain) {
        (Significance::Higher, true) | (Significance::Lower, false) => Decision::Better,
        (significance, _) => {
            let within = (!margins.is_empty())
                .then(interval)
                .flatten()
                .and_then(|it| within(it, margins, is_gain));
            let is_loss = matches!(significance, Significance::Higher | Significance::Lower);
            match within {
                Some(decision) => decision,
                None if is_loss => Decision::Worse,
                None => Decision::Undecided,
            }
        }
    };
    Some(Decided { test, decision })
}

/// The margin that an interval is within.
pub(super) fn within(interval: Interval, margins: Margins, is_gain: bool) -> Option<Decision> {
    let loss = if is_gain {
        -interval.low
    } else {
        interval.high
    };
    let largest = interval.high.max(-interval.low);
    if margins.equivalent.is_some_and(|margin| largest <= margin) {
        Some(Decision::Equivalent)
    } else if margins.not_worse.is_some_and(|margin| loss <= margin) {
        Some(Decision::NotWorse)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Resampling, Scope, Scores, Seed};

    fn decision(shift: f64, noise: f64, margins: Margins) -> Decision {
        let scores = |shift: f64, noise: f64| {
            let value = |task: usize| {
                let sign = if (task * 7 + 3) % 5 < 2 { 1.5 } else { -1.0 };
                (task.to_string(), 0.5 + shift + noise * sign)
            };
            Scores::collect((0..20).map(value)).unwrap()
        };
        let (baseline, candidate) = (scores(0.0, 0.0), scores(shift, noise));
        let sample = PairSample {
            baseline: &baseline,
            candidate: &candidate,
            scope: Scope::TasksLikeThese,
            resampling: Resampling::seeded(Seed(1)).times(1_999),
            is_share: true,
        };
        let levels = AnalysisLevels::fixed(Level::P95);
        decide(&sample, levels, margins, true).unwrap().decision
    }

    #[test]
    fn margins_decide_what_a_difference_does_not() {
        let none = Margins::default();
        let equivalent = Margins {
            equivalent: Some(0.05),
            ..none
        };
        let not_worse = Margins {
            not_worse: Some(0.05),
            ..none
        };
        let cases = [
            (0.0, 0.02, none, Decision::Undecided),
            (0.0, 0.02, equivalent, Decision::Equivalent),
            (0.0, 0.02, not_worse, Decision::NotWorse),
            (0.0, 0.30, equivalent, Decision::Undecided),
            (0.0, 0.30, not_worse, Decision::Undecided),
            (0.2, 0.02, equivalent, Decision::Better),
            (-0.2, 0.02, not_worse, Decision::Worse),
            // A small loss is within the margin.
            (-0.02, 0.01, none, Decision::Worse),
            (-0.02, 0.01, not_worse, Decision::NotWorse),
        ];
        for (shift, noise, margins, expected) in cases {
            let found = decision(shift, noise, margins);
            assert_eq!(found, expected, "{shift} {noise} {margins:?}");
        }
    }
}
