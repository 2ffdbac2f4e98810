//! Probabilistic bisection: finds the version since which fewer trials pass, although trials of the
//! same version differ.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The steps of the grid of pass probabilities.
const GRID: usize = 20;
/// The posterior probability that ends the search.
const SURE: f64 = 0.95;
/// The least information of a trial that is worth running, in nats. The first trial of a search has about 0.05.
const WORTH: f64 = 1e-6;

/// The state of a search over versions, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bisection {
    /// The results of each version.
    versions: Vec<VersionTally>,
    /// Versions that cannot be tried.
    #[serde(default)]
    unavailable: BTreeSet<usize>,
    /// The most trials of the search.
    budget: u64,
    /// The smallest drop of the pass rate to search for.
    smallest_drop: f64,
}

/// The results of one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionTally {
    /// Trials that passed.
    pub passed: u64,
    /// All trials.
    pub trials: u64,
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BisectStep {
    /// Run trials of this version.
    Query(usize),
    /// This version is the first with fewer passed trials.
    Found {
        /// The index of the version, at least 1.
        version: usize,
        /// Its posterior probability.
        probability: f64,
    },
    /// All versions are alike.
    NoChange {
        /// The posterior probability.
        probability: f64,
    },
    /// The budget ended first, or no version that can be tried says more.
    BudgetSpent {
        /// The most probable first version with fewer passed trials; null for no change.
        version: Option<usize>,
        /// Its posterior probability.
        probability: f64,
    },
}

/// The most probable answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeliest {
    /// The first version with fewer passed trials, at least 1; `None` for no change.
    pub version: Option<usize>,
    /// The number of versions directly before it that cannot be tried: each of them can be the first one as well.
    pub untried: usize,
    /// The posterior probability, of all of these versions together.
    pub probability: f64,
}

impl Likeliest {
    /// Whether the search is over.
    pub fn is_sure(self) -> bool {
        self.probability >= SURE
    }
}

/// A hypothesis with its posterior probability.
#[derive(Clone, Copy, Debug)]
struct Hypothesis {
    /// The first bad version; the number of versions if there is no change.
    change: usize,
    probability: f64,
    /// The expected pass rates before and after.
    rates: (f64, f64),
}

impl Bisection {
    /// A search over this many versions for a drop of the pass rate by at least `smallest_drop`.
    pub fn new(versions: usize, budget: u64, smallest_drop: f64) -> Bisection {
        Bisection {
            versions: vec![VersionTally::default(); versions],
            unavailable: BTreeSet::new(),
            budget,
            smallest_drop: smallest_drop.clamp(0.05, 0.9),
        }
    }

    /// Adds results of a version. Results of unknown versions, and more passed trials than trials,
    /// are ignored; the answer says whether they were added.
    pub fn observe(&mut self, version: usize, passed: u64, of: u64) -> bool {
        match self.versions.get_mut(version) {
            Some(tally) if passed <= of => {
                tally.passed += passed;
                tally.trials += of;
                true
            }
            _ => false,
        }
    }

    /// Leaves out a version that cannot be tried. Its neighbours narrow the change down to a range.
    pub fn exclude(&mut self, version: usize) {
        self.unavailable.insert(version);
    }

    /// The results so far, by version.
    pub fn evidence(&self) -> &[VersionTally] {
        &self.versions
    }

    /// The number of trials so far.
    pub fn trials(&self) -> u64 {
        self.versions.iter().map(|it| it.trials).sum()
    }

    /// The posterior probability of each version to be the first bad one, and of no change as the
    /// last value. The first version cannot be the change.
    pub fn posterior(&self) -> Vec<f64> {
        let all = self.hypotheses();
        let mut probabilities = vec![0.0; self.versions.len() + 1];
        for it in all {
            probabilities[it.change] = it.probability;
        }
        probabilities
    }

    /// The most probable answer so far.
    pub fn likeliest(&self) -> Likeliest {
        self.best_of(&self.hypotheses())
    }

    fn best_of(&self, all: &[Hypothesis]) -> Likeliest {
        let none = self.versions.len();
        // Changes on both sides of a version without trials cannot be told apart.
        let is_same = |one: &Hypothesis, next: &Hypothesis| {
            self.unavailable.contains(&one.change) && next.change < none
        };
        let groups = all.chunk_by(is_same).map(|group| {
            let change = group.last().map_or(none, |it| it.change);
            Likeliest {
                version: Some(change).filter(|it| *it < none),
                untried: group.len() - 1,
                probability: group.iter().map(|it| it.probability).sum(),
            }
        });
        let best = groups.max_by(|one, other| one.probability.total_cmp(&other.probability));
        best.unwrap_or(Likeliest {
            version: None,
            untried: 0,
            probability: 1.0,
        })
    }

    /// The next step, if these versions can be tried.
    pub fn next(&self, can_try: impl Fn(usize) -> bool) -> BisectStep {
        let all = self.hypotheses();
        let best = self.best_of(&all);
        let probability = best.probability;
        let is_spent = self.trials() >= self.budget;
        match (best.version, self.most_informative(&all, can_try)) {
            (None, _) if best.is_sure() => BisectStep::NoChange { probability },
            (Some(version), _) if best.is_sure() => BisectStep::Found {
                version,
                probability,
            },
            (_, Some(version)) if !is_spent => BisectStep::Query(version),
            (version, _) => BisectStep::BudgetSpent {
                version,
                probability,
            },
        }
    }

    /// The number of trials until the budget is spent.
    pub fn left(&self) -> u64 {
        self.budget.saturating_sub(self.trials())
    }

    /// The version whose next trial says most about the change. With known pass rates it is the
    /// median of the posterior.
    fn most_informative(
        &self,
        all: &[Hypothesis],
        can_try: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let information = |version: usize| {
            let rate = |it: &Hypothesis| {
                if version < it.change {
                    it.rates.0
                } else {
                    it.rates.1
                }
            };
            let mean: f64 = all.iter().map(|it| it.probability * rate(it)).sum();
            let within = all.iter().map(|it| it.probability * entropy(rate(it)));
            // With equal information, a version with fewer trials.
            let new = 1e-9 / (1 + self.versions[version].trials) as f64;
            entropy(mean) - within.sum::<f64>() + new
        };
        let is_open = |version: &usize| can_try(*version) && !self.unavailable.contains(version);
        let versions = (0..self.versions.len()).filter(is_open);
        let versions = versions.map(|version| (version, information(version)));
        let best = versions
            .filter(|(_, information)| *information > WORTH)
            .max_by(|one, other| one.1.total_cmp(&other.1));
        best.map(|(version, _)| version)
    }

    fn hypotheses(&self) -> Vec<Hypothesis> {
        let none = self.versions.len();
        if none < 2 {
            return Vec::new();
        }
        let sum = |range: &[VersionTally]| {
            let passed = range.iter().map(|it| it.passed).sum();
            let trials = range.iter().map(|it| it.trials).sum();
            VersionTally { passed, trials }
        };
        // A change is as probable as no change.
        let prior = |change: usize| {
            if change == none {
                0.5
            } else {
                0.5 / (none - 1) as f64
            }
        };
        let weigh = |change: usize| {
            let (before, after) = self.versions.split_at(change);
            let gap = (change != none).then_some(self.smallest_drop);
            let (logarithm, rates) = evidence(sum(before), sum(after), gap);
            (change, logarithm + prior(change).ln(), rates)
        };
        let all: Vec<(usize, f64, (f64, f64))> = (1..=none).map(weigh).collect();
        let largest = all.iter().map(|it| it.1).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = all.iter().map(|it| (it.1 - largest).exp()).sum();
        let hypothesis = |(change, logarithm, rates): (usize, f64, (f64, f64))| Hypothesis {
            change,
            probability: (logarithm - largest).exp() / total,
            rates,
        };
        all.into_iter().map(hypothesis).collect()
    }
}

/// The logarithm of the probability of results before and after a change, averaged over all pass
/// rates with a drop of at least `gap`, and the expected rates. Without a gap both are the same.
fn evidence(before: VersionTally, after: VersionTally, gap: Option<f64>) -> (f64, (f64, f64)) {
    let rate = |step: usize| (step as f64 + 0.5) / GRID as f64;
    let likelihood = |tally: VersionTally, rate: f64| {
        let failed = (tally.trials - tally.passed) as f64;
        tally.passed as f64 * rate.ln() + failed * (1.0 - rate).ln()
    };
    let mut pairs = Vec::new();
    for one in (0..GRID).map(rate) {
        let others = (0..GRID).map(rate);
        let fits =
            |other: f64| gap.map_or((other - one).abs() < 1e-9, |gap| one - other >= gap - 1e-9);
        pairs.extend(others.filter(|it| fits(*it)).map(|other| {
            let logarithm = likelihood(before, one) + likelihood(after, other);
            (logarithm, one, other)
        }));
    }
    let largest = pairs
        .iter()
        .map(|it| it.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let (mut total, mut rates) = (0.0, (0.0, 0.0));
    for (logarithm, one, other) in &pairs {
        let weight = (logarithm - largest).exp();
        total += weight;
        rates = (rates.0 + weight * one, rates.1 + weight * other);
    }
    let logarithm = largest + (total / pairs.len() as f64).ln();
    (logarithm, (rates.0 / total, rates.1 / total))
}

/// The entropy of pass or fail.
fn entropy(rate: f64) -> f64 {
    let part = |it: f64| if it > 0.0 { -it * it.ln() } else { 0.0 };
    part(rate) + part(1.0 - rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_results_are_bisected() {
        let mut search = Bisection::new(16, 400, 0.2);
        let mut queries = 0;
        let end = loop {
            match search.next(|_| true) {
                BisectStep::Query(version) => {
                    queries += 1;
                    let passed = if version < 11 { 5 } else { 0 };
                    assert!(search.observe(version, passed, 5));
                }
                end => break end,
            }
        };
        assert!(
            matches!(end, BisectStep::Found { version: 11, .. }),
            "{end:?}"
        );
        assert!(queries <= 8, "{queries}");
        assert_eq!(search.trials(), 5 * queries);
        let sum: f64 = search.posterior().iter().sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn version_that_cannot_be_tried_leaves_a_range_and_costs_no_more_trials() {
        let end_of = |unavailable: &[usize], bad: usize| {
            let mut search = Bisection::new(16, 400, 0.2);
            for version in unavailable {
                search.exclude(*version);
            }
            while let BisectStep::Query(version) = search.next(|_| true) {
                let passed = if version < bad { 5 } else { 0 };
                search.observe(version, passed, 5);
            }
            let found = search.likeliest();
            (
                found.version,
                found.untried,
                found.is_sure(),
                search.trials() <= 60,
            )
        };
        assert_eq!(end_of(&[10], 11), (Some(11), 1, true, true));
        assert_eq!(end_of(&[9, 10], 10), (Some(11), 2, true, true));
        assert_eq!(end_of(&[11], 11), (Some(12), 1, true, true));
        assert_eq!(end_of(&[3], 11), (Some(11), 0, true, true));
        // The bad version itself: no change, and a change with it, are the same.
        let (version, _, is_sure, is_cheap) = end_of(&[15], 15);
        assert_eq!((version, is_sure, is_cheap), (None, false, true));
    }

    #[test]
    fn search_continues_from_a_file_and_refuses_nonsense() {
        let mut search = Bisection::new(8, 4, 0.2);
        assert!(!search.observe(8, 0, 1));
        assert!(!search.observe(1, 2, 1));
        assert!(search.observe(3, 2, 4));
        let text = serde_json::to_string(&search).unwrap();
        let read: Bisection = serde_json::from_str(&text).unwrap();
        assert_eq!(read, search);
        assert!(matches!(
            read.next(|_| true),
            BisectStep::BudgetSpent { .. }
        ));
        assert_eq!(
            Bisection::new(1, 4, 0.2).next(|_| true),
            BisectStep::NoChange { probability: 1.0 }
        );
    }

    #[test]
    fn equal_versions_have_no_change() {
        let mut search = Bisection::new(16, 400, 0.2);
        while let BisectStep::Query(version) = search.next(|_| true) {
            search.observe(version, 4, 5);
        }
        let end = search.next(|_| true);
        assert!(matches!(end, BisectStep::NoChange { .. }), "{end:?}");
    }
}
