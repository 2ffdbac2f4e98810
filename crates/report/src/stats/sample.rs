//! Measurements by trial, grouped by task. The order of trials does not matter, bit for bit.

use std::collections::BTreeMap;

use serde::Serialize;

/// A value that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of task {task} is not a finite number")]
pub struct NotFinite {
    /// The task of the value.
    pub task: String,
}

/// The values of one agent's trials, by task. All are finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    tasks: BTreeMap<String, Vec<f64>>,
}

/// The independent unit of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Tasks: the figure is about similar tasks.
    Task,
    /// Trials: there is only one task, and the figure is about that task.
    Trial,
}

/// The sum and number of the values of one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TaskCluster {
    pub(super) sum: f64,
    pub(super) count: f64,
}

impl Scores {
    /// Groups values by task.
    pub fn collect<K: Into<String>>(
        values: impl IntoIterator<Item = (K, f64)>,
    ) -> Result<Scores, NotFinite> {
        let mut tasks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (task, value) in values {
            let task = task.into();
            if !value.is_finite() {
                return Err(NotFinite { task });
            }
            tasks.entry(task).or_default().push(value);
        }
        // Sums of floats depend on their order, but reports must not.
        for values in tasks.values_mut() {
            values.sort_unstable_by(f64::total_cmp);
        }
        Ok(Scores { tasks })
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The number of trials.
    pub fn trials(&self) -> usize {
        self.tasks.values().map(Vec::len).sum()
    }

    /// One value for each task, the mean of its trials: all tasks have equal weight, even if some
    /// trials were lost.
    #[must_use]
    pub fn by_task(&self) -> Scores {
        let means = self.task_means();
        Scores {
            tasks: means
                .map(|(task, mean)| (task.to_owned(), vec![mean]))
                .collect(),
        }
    }

    /// Each task and its values, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.tasks
            .iter()
            .map(|(task, values)| (task.as_str(), values.as_slice()))
    }

    /// The values of one task.
    pub(super) fn of(&self, task: &str) -> Option<&[f64]> {
        self.tasks.get(task).map(Vec::as_slice)
    }

    /// The independent unit of the sample.
    pub(super) fn unit(&self) -> Unit {
        if self.tasks.len() == 1 {
            Unit::Trial
        } else {
            Unit::Task
        }
    }

    /// The units with their sums.
    pub(super) fn clusters(&self) -> Vec<TaskCluster> {
        match self.unit() {
            Unit::Task => self.tasks.values().map(|it| TaskCluster::of(it)).collect(),
            Unit::Trial => {
                let values = self.tasks.values().flatten();
                values.map(|value| TaskCluster::of(&[*value])).collect()
            }
        }
    }

    fn task_means(&self) -> impl Iterator<Item = (&str, f64)> {
        self.iter().map(|(task, values)| (task, average(values)))
    }
}

impl TaskCluster {
    pub(super) fn of(values: &[f64]) -> TaskCluster {
        TaskCluster {
            sum: values.iter().sum(),
            count: values.len() as f64,
        }
    }
}

/// The mean of at least one value.
pub(super) fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample variance (n - 1) of at least two values.
pub(super) fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = average(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// The numbers of passed and of all trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PassCount {
    /// Trials that passed; never more than `trials`.
    passed: u64,
    /// All trials.
    trials: u64,
}

impl PassCount {
    /// A tally; `None` if more passed than there were.
    pub fn new(passed: u64, trials: u64) -> Option<PassCount> {
        (passed <= trials).then_some(PassCount { passed, trials })
    }

    /// Trials that passed.
    pub fn passed(self) -> u64 {
        self.passed
    }

    /// All trials.
    pub fn trials(self) -> u64 {
        self.trials
    }
}

/// The passed trials of one agent, by task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    tasks: BTreeMap<String, PassCount>,
}

impl Passes {
    /// Counts passed trials by task.
    pub fn collect<K: Into<String>>(trials: impl IntoIterator<Item = (K, bool)>) -> Passes {
        let mut tasks: BTreeMap<String, PassCount> = BTreeMap::new();
        for (task, passed) in trials {
            let tally = tasks.entry(task.into()).or_default();
            tally.trials += 1;
            tally.passed += u64::from(passed);
        }
        Passes { tasks }
    }

    /// Each task with its tally.
    pub fn iter(&self) -> impl Iterator<Item = (&str, PassCount)> {
        self.tasks.iter().map(|(task, tally)| (&**task, *tally))
    }

    /// The tally of one task.
    pub fn of(&self, task: &str) -> Option<PassCount> {
        self.tasks.get(task).copied()
    }

    /// The tally over all tasks.
    pub fn total(&self) -> PassCount {
        self.tasks
            .values()
            .fold(PassCount::default(), |sum, it| PassCount {
                passed: sum.passed + it.passed,
                trials: sum.trials + it.trials,
            })
    }

    /// The results as scores: 1 for passed, 0 for not.
    pub fn scores(&self) -> Scores {
        let values = |tally: &PassCount| {
            let failed = tally.trials - tally.passed;
            let zeros = (0..failed).map(|_| 0.0);
            zeros.chain((0..tally.passed).map(|_| 1.0)).collect()
        };
        let tasks = self.tasks.iter();
        Scores {
            tasks: tasks.map(|(task, it)| (task.clone(), values(it))).collect(),
        }
    }
}

/// A figure with excluded trials handled both ways, so that the exclusion hides nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct BothWays {
    /// Only trials with a value.
    pub without: Scores,
    /// Trials without a value count as 0.
    pub as_zero: Scores,
    /// The number of trials without a value.
    pub excluded: usize,
}

impl BothWays {
    /// Groups values by task; `None` is an excluded trial.
    pub fn collect<K: Into<String> + Clone>(
        values: impl IntoIterator<Item = (K, Option<f64>)>,
    ) -> Result<BothWays, NotFinite> {
        let values: Vec<(K, Option<f64>)> = values.into_iter().collect();
        let known = values.iter().filter_map(|(k, v)| Some((k.clone(), (*v)?)));
        let without = Scores::collect(known)?;
        let excluded = values.iter().filter(|(_, value)| value.is_none()).count();
        let zeroed = values.into_iter().map(|(k, v)| (k, v.unwrap_or(0.0)));
        Ok(BothWays {
            without,
            as_zero: Scores::collect(zeroed)?,
            excluded,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_trials_does_not_matter() {
        let trials = [("a", 0.1), ("b", 0.7), ("a", 0.2), ("a", 0.3), ("b", 1e-9)];
        let mut backwards = trials;
        backwards.reverse();
        let scores = Scores::collect(trials).unwrap();
        assert_eq!(scores, Scores::collect(backwards).unwrap());
        assert_eq!((scores.tasks(), scores.trials()), (2, 5));
    }

    #[test]
    fn non_finite_values_are_refused_with_their_task() {
        let refused = Scores::collect([("a", 1.0), ("b", f64::NAN)]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a value of task b is not a finite number"
        );
    }

    #[test]
    fn passes_are_ones_and_zeros() {
        let passes = Passes::collect([("a", true), ("a", false), ("b", true)]);
        assert_eq!(passes.of("a"), PassCount::new(1, 2));
        assert_eq!(passes.total(), PassCount::new(2, 3).unwrap());
        let scores = Scores::collect([("a", 0.0), ("a", 1.0), ("b", 1.0)]).unwrap();
        assert_eq!(passes.scores(), scores);
        assert_eq!(PassCount::new(3, 2), None);
    }

    #[test]
    fn excluded_trials_are_counted_and_shown_both_ways() {
        let both =
            BothWays::collect([("a", Some(1.0)), ("a", None), ("b", Some(0.5)), ("c", None)])
                .unwrap();
        assert_eq!(both.excluded, 2);
        assert_eq!((both.without.tasks(), both.without.trials()), (2, 2));
        assert_eq!((both.as_zero.tasks(), both.as_zero.trials()), (3, 4));
    }
}
