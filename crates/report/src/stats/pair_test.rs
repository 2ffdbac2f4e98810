//! The test of two agents on shared tasks: over tasks or, if there are too few, over trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    bootstrap::Resampling,
    interval::{Interval, Level},
    paired::{Comparison, Effect, Paired, Significance},
    sample::Scores,
    signs,
    within::{Within, welch, within_tasks},
};

/// With fewer tasks, an experiment with repeated trials is about exactly these tasks: its trials
/// say more than the few tasks do, and no interim analysis of half of them can reach its level.
const FEW_TASKS: usize = 20;

/// The scope of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Similar tasks: the sample is large enough.
    TasksLikeThese,
    /// Exactly these tasks: there are too few to generalize, but they have many trials.
    ExactlyTheseTasks,
}

impl Scope {
    /// The scope of a comparison of this many tasks at a level.
    pub fn of(tasks: usize, level: Level) -> Scope {
        if tasks >= 2 && signs::smallest(tasks) <= level.alpha() {
            Scope::TasksLikeThese
        } else {
            Scope::ExactlyTheseTasks
        }
    }

    /// The scope of an experiment with this many tasks and trials of each.
    pub fn of_experiment(tasks: usize, trials: usize, level: Level) -> Scope {
        if tasks < FEW_TASKS && trials > 1 {
            Scope::ExactlyTheseTasks
        } else {
            Scope::of(tasks, level)
        }
    }
}

/// The trials of two agents, to be tested in a fixed scope.
#[derive(Clone, Copy, Debug)]
pub struct PairSample<'a> {
    /// The baseline's values.
    pub baseline: &'a Scores,
    /// The candidate's values.
    pub candidate: &'a Scores,
    /// The scope of the conclusion.
    pub scope: Scope,
    /// The random draws.
    pub resampling: Resampling,
    /// Whether all values are from 0 to 1. Such a sample has an interval even if nothing varied.
    pub is_share: bool,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairTest {
    /// The candidate's mean minus the baseline's, with equal weight for all shared tasks.
    pub difference: f64,
    /// The confidence interval; `None` if nothing varied.
    pub interval: Option<Interval>,
    /// The probability of a difference at least as large between equal agents.
    pub p_value: f64,
    /// The smallest possible p-value of this sample.
    pub smallest_p: f64,
    /// The conclusion.
    pub significance: Significance,
    /// Its scope.
    pub scope: Scope,
    /// The standardized effect size; `None` in the scope of exactly these tasks.
    pub effect: Option<Effect>,
}

impl<'a> PairSample<'a> {
    /// The test at a level. `None` without enough shared tasks.
    pub fn test(&self, level: Level) -> Option<PairTest> {
        let (one, other) = (self.baseline, self.candidate);
        let mut test = match self.scope {
            Scope::TasksLikeThese => {
                let over_tasks = Paired::new(one, other).compare(level, self.resampling);
                PairTest::of_tasks(over_tasks?)
            }
            Scope::ExactlyTheseTasks => {
                PairTest::of_trials(within_tasks(one, other, level, self.resampling)?)
            }
        };
        test.interval = self.completed(test.interval, level);
        test.significance = test.conclude(level);
        Some(test)
    }

    /// The confidence interval of the difference at another level than the test's.
    pub fn interval(&self, level: Level) -> Option<Interval> {
        let paired = Paired::new(self.baseline, self.candidate);
        let interval = match self.scope {
            Scope::TasksLikeThese => paired.interval(level, self.resampling),
            Scope::ExactlyTheseTasks => welch(&paired, paired.difference()?, level),
        };
        self.completed(interval, level)
    }

    /// The sample of an experiment, whose size determines the scope.
    pub fn of_experiment(
        baseline: &'a Scores,
        candidate: &'a Scores,
        level: Level,
        resampling: Resampling,
    ) -> PairSample<'a> {
        let paired = Paired::new(baseline, candidate);
        PairSample {
            baseline,
            candidate,
            scope: Scope::of_experiment(paired.tasks(), paired.fewest_trials(), level),
            resampling,
            is_share: true,
        }
    }

    /// The shared tasks.
    pub fn paired(&self) -> Paired<'a> {
        Paired::new(self.baseline, self.candidate)
    }

    /// An interval also if nothing varied; a difference of shares is never more than 1.
    fn completed(&self, interval: Option<Interval>, level: Level) -> Option<Interval> {
        let unvaried = || {
            let sample = self.unvaried()?;
            Some(sample.interval(sample.units, level))
        };
        let interval = interval.or_else(unvaried)?;
        let limit = if self.is_share { 1.0 } else { f64::INFINITY };
        Some(Interval {
            low: interval.low.max(-limit),
            high: interval.high.min(limit),
        })
    }

    /// The sample if all values are from 0 to 1 and nothing varied.
    pub(super) fn unvaried(&self) -> Option<Unvaried> {
        let paired = self.paired();
        let tasks: Vec<(&[f64], &[f64])> = paired.trials().collect();
        let values = || tasks.iter().flat_map(|(one, other)| [*one, *other]);
        let mut all = values().flatten();
        if !self.is_share || !all.all(|it| (0.0..=1.0).contains(it)) {
            return None;
        }
        let differences = paired.differences();
        let is_flat = |values: &[f64]| values.iter().all(|it| (it - values[0]).abs() < 1e-12);
        let mean = paired.difference()?;
        match self.scope {
            Scope::TasksLikeThese => is_flat(&differences).then(|| Unvaried {
                units: tasks.len(),
                mean,
                down: Unseen::of_unit(1.0 + mean),
                up: Unseen::of_unit(1.0 - mean),
            }),
            Scope::ExactlyTheseTasks => values().all(is_flat).then(|| {
                let firsts = || tasks.iter().map(|(one, other)| (one[0], other[0]));
                let pairs = tasks.iter().map(|(one, other)| one.len().min(other.len()));
                Unvaried {
                    units: pairs.sum(),
                    mean,
                    down: Unseen::of_arms(firsts().map(|(one, other)| [1.0 - one, other])),
                    up: Unseen::of_arms(firsts().map(|(one, other)| [one, 1.0 - other])),
                }
            }),
        }
    }
}

/// A sample of shares in which nothing varied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unvaried {
    /// The number of units: tasks, or trials of exactly these tasks.
    pub(super) units: usize,
    mean: f64,
    down: Unseen,
    up: Unseen,
}

/// Results that were not seen and would change the difference in one direction.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    /// The change if all results were such ones.
    most: f64,
    /// The number of results of a unit that can be such ones.
    places: f64,
}

impl Unseen {
    /// A unit is one result.
    fn of_unit(most: f64) -> Unseen {
        Unseen { most, places: 1.0 }
    }

    /// Each agent's trials of each task are independent results, which can change by this much.
    fn of_arms(rooms: impl Iterator<Item = [f64; 2]>) -> Unseen {
        let rooms: Vec<[f64; 2]> = rooms.collect();
        let open = rooms.iter().flatten().filter(|it| **it > 0.0);
        let places = open.clone().count() as f64 / rooms.len() as f64;
        let widest = open.copied().fold(0.0, f64::max);
        Unseen {
            most: widest * places,
            places,
        }
    }

    /// The largest change that n units do not exclude. All results were the usual ones with a
    /// probability of at least alpha/2 if each of n is so with (alpha/2)^(1/n).
    fn change(self, units: usize, level: Level) -> f64 {
        if self.places <= 0.0 {
            return 0.0;
        }
        let results = self.places * units as f64;
        self.most * (1.0 - (level.alpha() / 2.0).powf(1.0 / results))
    }
}

impl Unvaried {
    /// The interval of the difference if the same was seen in this many units.
    pub(super) fn interval(&self, units: usize, level: Level) -> Interval {
        Interval {
            low: self.mean - self.down.change(units, level),
            high: self.mean + self.up.change(units, level),
        }
    }
}

impl PairTest {
    /// The test over tasks or, if there are too few for the level, over trials.
    pub fn new(
        baseline: &Scores,
        candidate: &Scores,
        level: Level,
        resampling: Resampling,
    ) -> Option<PairTest> {
        let tasks = Paired::new(baseline, candidate).tasks();
        let sample = PairSample {
            baseline,
            candidate,
            scope: Scope::of(tasks, level),
            resampling,
            is_share: false,
        };
        sample.test(level)
    }

    fn of_tasks(comparison: Comparison) -> PairTest {
        PairTest {
            significance: Significance::NotApart,
            difference: comparison.difference,
            interval: comparison.interval,
            p_value: comparison.p_value,
            smallest_p: comparison.smallest_p,
            scope: Scope::TasksLikeThese,
            effect: Some(comparison.effect),
        }
    }

    fn of_trials(within: Within) -> PairTest {
        PairTest {
            significance: Significance::NotApart,
            difference: within.difference,
            interval: within.interval,
            p_value: within.p_value,
            smallest_p: within.smallest_p,
            scope: Scope::ExactlyTheseTasks,
            effect: None,
        }
    }

    fn conclude(&self, level: Level) -> Significance {
        Significance::of(
            (self.p_value, self.smallest_p),
            self.difference,
            self.interval,
            level,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    fn test(scope: Scope, tasks: usize, trials: usize, values: [f64; 2]) -> PairTest {
        let [baseline, candidate] = values.map(|value| {
            let names = (0..tasks * trials).map(|at| ((at % tasks).to_string(), value));
            Scores::collect(names).unwrap()
        });
        let sample = PairSample {
            baseline: &baseline,
            candidate: &candidate,
            scope,
            resampling: Resampling::seeded(Seed(1)).times(1_999),
            is_share: true,
        };
        sample.test(Level::P95).unwrap()
    }

    #[test]
    fn constant_differences_have_an_interval() {
        // 1 - 0.025^(1/40) = 0.088: an unseen difference of 1 may have this probability.
        let same = test(Scope::TasksLikeThese, 40, 1, [1.0, 1.0]);
        let interval = same.interval.unwrap();
        assert!((interval.high - 0.088).abs() < 1e-3, "{interval:?}");
        assert!((interval.low + 0.088).abs() < 1e-3, "{interval:?}");
        assert_eq!(same.significance, Significance::NotApart);
    }

    #[test]
    fn few_tasks_that_all_changed_are_a_difference_of_these_tasks() {
        let flipped = test(Scope::ExactlyTheseTasks, 4, 3, [0.0, 1.0]);
        assert_eq!(flipped.significance, Significance::Higher);
        // 24 results that are as seen with a probability of 0.025^(1/24): 2 * 0.8575 - 1.
        let interval = flipped.interval.unwrap();
        assert!((interval.low - 0.715).abs() < 1e-3, "{interval:?}");
        assert!((interval.high - 1.0).abs() < 1e-12, "{interval:?}");
        let single = test(Scope::ExactlyTheseTasks, 1, 4, [0.0, 1.0]);
        assert_eq!(single.significance, Significance::Higher);
        let once = test(Scope::ExactlyTheseTasks, 4, 1, [0.0, 1.0]);
        assert_eq!(once.significance, Significance::TooFew);
    }
}
