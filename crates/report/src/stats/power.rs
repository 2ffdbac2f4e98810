//! How many more trials or tasks would settle a comparison.

use serde::Serialize;

use super::{
    interval::{Level, t_quantile},
    signs,
};

/// How likely a true difference shall be found.
const POWER: f64 = 0.8;
/// More than so many is out of reach.
const MOST: f64 = 100_000.0;

/// The sample size for a power of 80 % to separate two agents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// The smallest true difference that so many tasks and trials find; unknown where no task
    /// differs from another.
    pub detectable: Option<f64>,
    /// More trials of each of these tasks; unknown while no task has a second trial.
    pub trials_per_task: Option<Needed>,
    /// More tasks, each tried as often as these.
    pub tasks: Needed,
}

/// How many more are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// The sample is sufficient.
    Enough,
    /// So many more.
    More(u64),
    /// No number of them would do.
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
    /// One over the baseline's trials of a task, on average.
    pub(super) per_baseline: f64,
    /// One over the candidate's trials of a task, on average.
    pub(super) per_candidate: f64,
    /// The fewest trials of any task.
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

/// So many standard errors must lie between 0 and the difference.
fn errors_apart(tasks: usize, level: Level) -> f64 {
    let freedom = (tasks - 1) as f64;
    level.t(tasks - 1) + t_quantile(POWER, freedom)
}

fn more_tasks(spread: &Spread, level: Level) -> Needed {
    let suffices = |tasks: usize| {
        let error = (spread.between / tasks as f64).sqrt();
        spread.difference.abs() >= errors_apart(tasks, level) * error
            && signs::smallest(tasks) <= level.alpha()
    };
    if suffices(spread.tasks) && spread.difference != 0.0 {
        return Needed::Enough;
    }
    // The certainty grows with tasks: double until it suffices, then halve the gap.
    let (mut short, mut enough) = (spread.tasks, spread.tasks * 2);
    while !suffices(enough) || spread.difference == 0.0 {
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
    Needed::More((enough - spread.tasks) as u64)
}

fn more_trials(spread: &Spread, level: Level) -> Option<Needed> {
    let (baseline, candidate) = (spread.baseline?, spread.candidate?);
    let within = baseline * spread.per_baseline + candidate * spread.per_candidate;
    // The variance that more trials cannot remove: tasks differ in which agent they suit.
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
    fn more_trials_help_only_against_the_luck_of_trials() {
        // 0.09 is 0.08 of trials and 0.01 of tasks.
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
    fn single_trials_do_not_tell_how_trials_vary() {
        let single = Spread {
            baseline: None,
            ..spread()
        };
        assert_eq!(needed(&single, Level::P95).trials_per_task, None);
    }

    #[test]
    fn what_is_clear_needs_nothing_and_no_difference_is_never_found() {
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
    fn three_tasks_settle_nothing_whatever_their_difference() {
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
