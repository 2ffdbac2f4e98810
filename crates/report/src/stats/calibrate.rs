//! The calibration of scores: between the floor of the null agent and the ceiling of the reference
//! solution, and the variation of components.

use std::collections::BTreeMap;

use serde::Serialize;

/// A task whose reference solution scores no more than the null agent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the reference solution scores {ceiling} and the null agent {floor}: the task measures nothing"
)]
pub struct FlatTask {
    /// The score of the null agent.
    pub floor: f64,
    /// The score of the reference solution.
    pub ceiling: f64,
}

/// The floor and ceiling of a task's score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    floor: f64,
    ceiling: f64,
}

impl Calibration {
    /// A calibration from the scores of the null agent and the reference solution.
    pub fn new(floor: f64, ceiling: f64) -> Result<Calibration, FlatTask> {
        let is_sound = floor.is_finite() && ceiling.is_finite() && ceiling > floor;
        if is_sound {
            Ok(Calibration { floor, ceiling })
        } else {
            Err(FlatTask { floor, ceiling })
        }
    }

    /// The score on a scale where the null agent is 0 and the reference solution is 1. Values below
    /// 0 and above 1 are kept.
    pub fn normalise(self, score: f64) -> f64 {
        (score - self.floor) / (self.ceiling - self.floor)
    }
}

/// The variation of a component of the score over trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variation {
    /// The component.
    pub component: String,
    /// The number of trials.
    pub trials: usize,
    /// Its most common value.
    pub commonest: f64,
    /// The number of trials with that value.
    pub times: usize,
}

impl Variation {
    /// Whether several trials all have the same value.
    pub fn is_constant(&self) -> bool {
        self.trials >= 2 && self.times == self.trials
    }

    /// Whether at least 99 % of a hundred or more trials have the same value.
    pub fn is_nearly_constant(&self) -> bool {
        self.trials >= 100 && (self.trials - self.times) * 100 <= self.trials
    }
}

/// The variation of each component, by name.
pub fn variations<'a>(values: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<Variation> {
    let mut components: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (component, value) in values {
        components.entry(component).or_default().push(value);
    }
    let of = |(component, mut values): (&str, Vec<f64>)| {
        values.sort_unstable_by(f64::total_cmp);
        let runs = values.chunk_by(|one, other| one.total_cmp(other).is_eq());
        let longest = runs.max_by_key(|run| run.len()).unwrap_or(&[]);
        Variation {
            component: component.to_owned(),
            trials: values.len(),
            commonest: longest.first().copied().unwrap_or(f64::NAN),
            times: longest.len(),
        }
    };
    components.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_agent_is_0_and_the_reference_is_1() {
        let task = Calibration::new(0.79, 0.99).unwrap();
        assert!(task.normalise(0.79).abs() < 1e-12);
        assert!((task.normalise(0.99) - 1.0).abs() < 1e-12);
        assert!((task.normalise(0.84) - 0.25).abs() < 1e-12);
        assert!(task.normalise(0.5) < 0.0);
    }

    #[test]
    fn task_without_a_range_is_refused() {
        for (floor, ceiling) in [
            (1.0, 1.0),
            (0.9, 0.2),
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
        ] {
            assert!(
                Calibration::new(floor, ceiling).is_err(),
                "{floor} {ceiling}"
            );
        }
    }

    #[test]
    fn constant_components_are_found() {
        let lint = (0..2930).map(|i| ("lint", if i < 2921 { 1.0 } else { 0.0 }));
        let tests = (0..10).map(|i| ("tests", f64::from(i % 3)));
        let build = [("build", 1.0), ("build", 1.0)];
        let once = [("once", 1.0)];
        let found = variations(lint.chain(tests).chain(build).chain(once));
        let names = |of: fn(&Variation) -> bool| -> Vec<&str> {
            let found = found.iter().filter(|it| of(it));
            found.map(|it| it.component.as_str()).collect()
        };
        assert_eq!(names(Variation::is_constant), ["build"]);
        assert_eq!(names(Variation::is_nearly_constant), ["lint"]);
        assert_eq!((found[1].commonest, found[1].times), (1.0, 2921));
    }
}
