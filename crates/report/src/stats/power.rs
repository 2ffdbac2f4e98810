//! The number of additional trials or tasks for a significant comparison.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    interval::{Level, t_quantile},
    signs,
};

/// The statistical power.
const POWER: f64 = 0.8;
/// Larger numbers are reported as out of reach.
const MOST: f64 = 100_000.0;

/// The sample size for a power of 80 % to separate two agents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// The smallest true difference that this sample can detect; `None` if no task differs from
    /// another.
    pub detectable: Option<f64>,
    /// More trials of each of these tasks; `None` if no task has a second trial.
    pub trials_per_task: Option<Needed>,
    /// More tasks with the same number of trials each.
    pub tasks: Needed,
}

/// The number of additional units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// The sample is sufficient.
    Enough,
    /// This many more.
    More(u64),
    /// No number is sufficient.
    OutOfReach,
}

/// The variance components of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) difference: f64,
    pub(super) tasks: usize,
    /// The variance of the tasks' differences.
    pub(super) between: f64,
    /// The variance of the baseline's trials of one task.
    pub(super) baseline: Option<f64>,
    /// The variance of the candidate's trials of one task.
    pub(super) candidate: Option<f64>,
    /// The mean over tasks of 1/(number of the baseline's trials).
    pub(super) per_baseline: f64,
    /// The mean over tasks of 1/(number of the candidate's trials).
    pub(super) per_candidate: f64,
    /// The minimum number of trials of a task.
    pub(super) trials: usize,
}

pub(super) fn needed(spread: &Spread, level: Level) -> Power {
    let error = (spread.between / spread.tasks as f64).sqrt();
    let varies = error > spread.difference.abs() * 1e-12;
    Power {
        detectable: varies.then(|| errors_apart(spread.tasks, level) * error),
        trials_per_task: more_trials(spread, level),
        tasks: more_tasks(spread, level),
    }
}

/// The number of standard errors between 0 and a detectable difference.
pub(super) fn errors_apart(tasks: usize, level: Level) -> f64 {
    let freedom = (tasks - 1) as f64;
    level.t(tasks - 1) + t_quantile(POWER, freedom)
}

fn more_tasks(spread: &Spread, level: Level) -> Needed {
    let suffices = |tasks: usize| {
        let error = (spread.between / tasks as f64).sqrt();
        spread.difference.abs() >= errors_apart(tasks, level) * error
            && signs::smallest(tasks) <= level.alpha()
    };
    if spread.difference == 0.0 {
        return Needed::OutOfReach;
    }
    fewest_more(spread.tasks, suffices)
}

/// The number of further units until a sample suffices. `suffices` must stay true once it is, and
/// `now` is at least 1.
pub fn fewest_more(now: usize, suffices: impl Fn(usize) -> bool) -> Needed {
    if suffices(now) {
        return Needed::Enough;
    }
    // Double until it suffices, then bisect.
    let (mut short, mut enough) = (now, now * 2);
    while !suffices(enough) {
        if enough as f64 > MOST {
            return Needed::OutOfReach;
        }
        (short, enough) = (enough, enough * 2);
    }
    while enough - short > 1 {
        let middle = short.midpoint(enough);
        if suffices(middle) {
            enough = middle;
        } else {
            short = middle;
        }
    }
    Needed::More((enough - now) as u64)
}

fn more_trials(spread: &Spread, level: Level) -> Option<Needed> {
    let (baseline, candidate) = (spread.baseline?, spread.candidate?);
    let within = baseline * spread.per_baseline + candidate * spread.per_candidate;
    // The variance that more trials cannot reduce: the difference between agents depends on the task.
    let remaining = (spread.between - within).max(0.0);
    let tasks = spread.tasks as f64;
    let allowed = tasks * (spread.difference / errors_apart(spread.tasks, level)).powi(2);
    let too_few_tasks = signs::smallest(spread.tasks) > level.alpha();
    if too_few_tasks || allowed <= remaining {
        return Some(Needed::OutOfReach);
    }
    if spread.between <= allowed {
        return Some(Needed::Enough);
    }
    let trials = ((baseline + candidate) / (allowed - remaining)).ceil();
    if trials > MOST {
        return Some(Needed::OutOfReach);
    }
    // Bounded above and positive.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let more = (trials as u64).saturating_sub(spread.trials as u64);
    Some(Needed::More(more.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread() -> Spread {
        Spread {
            difference: 0.1,
            tasks: 20,
            between: 0.09,
            baseline: Some(0.12),
            candidate: Some(0.12),
            per_baseline: 1.0 / 3.0,
            per_candidate: 1.0 / 3.0,
            trials: 3,
        }
    }

    #[test]
    fn more_trials_reduce_the_variance_within_tasks_only() {
        // 0.09 consists of 0.08 within tasks and 0.01 between tasks.
        let Some(Needed::More(more)) = needed(&spread(), Level::P95).trials_per_task else {
            panic!("{:?}", needed(&spread(), Level::P95));
        };
        let trials = (more + 3) as f64;
        let error = ((0.01 + 0.24 / trials) / 20.0).sqrt();
        assert!(0.1 >= errors_apart(20, Level::P95) * error);

        let of_tasks = Spread {
            baseline: Some(0.01),
            candidate: Some(0.01),
            ..spread()
        };
        let power = needed(&of_tasks, Level::P95);
        assert_eq!(power.trials_per_task, Some(Needed::OutOfReach));
    }

    #[test]
    fn variance_of_single_trials_is_unknown() {
        let single = Spread {
            baseline: None,
            ..spread()
        };
        assert_eq!(needed(&single, Level::P95).trials_per_task, None);
    }

    #[test]
    fn clear_difference_needs_no_more_tasks() {
        let clear = Spread {
            difference: 0.9,
            ..spread()
        };
        let power = needed(&clear, Level::P95);
        assert_eq!(
            (power.tasks, power.trials_per_task),
            (Needed::Enough, Some(Needed::Enough))
        );
        let none = Spread {
            difference: 0.0,
            ..spread()
        };
        let power = needed(&none, Level::P95);
        assert_eq!(
            (power.tasks, power.trials_per_task),
            (Needed::OutOfReach, Some(Needed::OutOfReach))
        );
    }

    #[test]
    fn three_tasks_are_never_enough() {
        let few = Spread {
            difference: 5.0,
            tasks: 3,
            ..spread()
        };
        assert_eq!(needed(&few, Level::P95).tasks, Needed::More(3));
        let trials = needed(&few, Level::P95).trials_per_task;
        assert_eq!(trials, Some(Needed::OutOfReach));
    }
}
