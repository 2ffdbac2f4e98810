//! Where to spend further trials: the parts of the variance, the size of an experiment, and the
//! allocation of trials to tasks.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    equivalence::{AnalysisLevels, Margins, within},
    interval::{Level, normal_quantile},
    pair_test::{PairSample, Scope, Unvaried},
    power::{self, Needed, Spread, errors_apart},
    sample::average,
    within::smallest_of,
};

/// More additional tasks than these are not reasonable.
const MOST_TASKS: u64 = 200;
/// More additional trials of each task than these are not reasonable.
const MOST_TRIALS: u64 = 50;

/// The parts of the variance of a difference, as shares of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VarianceShares {
    /// The difference depends on the task. More trials of the same tasks do not reduce it.
    pub tasks: f64,
    /// The baseline's trials of one task differ.
    pub baseline_luck: f64,
    /// The candidate's trials of one task differ.
    pub candidate_luck: f64,
}

/// The parts of the variance of a sample. `None` if no task has two trials of each agent, and if
/// nothing varied.
pub fn variance_shares(sample: &PairSample) -> Option<VarianceShares> {
    let spread = sample.paired().spread()?;
    let baseline = spread.baseline? * spread.per_baseline;
    let candidate = spread.candidate? * spread.per_candidate;
    let tasks = (spread.between - baseline - candidate).max(0.0);
    let total = tasks + baseline + candidate;
    (total > 0.0).then(|| VarianceShares {
        tasks: tasks / total,
        baseline_luck: baseline / total,
        candidate_luck: candidate / total,
    })
}

/// The variances for planning an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlannedVariance {
    /// The variance of the true difference over tasks.
    pub tasks: f64,
    /// The variance of trials of one task and agent.
    pub trials: f64,
}

impl Default for PlannedVariance {
    /// Pass or fail with U-shaped difficulty, and a difference that depends on the task.
    fn default() -> PlannedVariance {
        PlannedVariance {
            tasks: 0.025,
            trials: 0.125,
        }
    }
}

impl PlannedVariance {
    /// The variance of one task's difference.
    fn of_task(self, trials: usize, scope: Scope) -> f64 {
        let luck = 2.0 * self.trials / trials.max(1) as f64;
        match scope {
            Scope::TasksLikeThese => self.tasks + luck,
            Scope::ExactlyTheseTasks => luck,
        }
    }

    /// The smallest true difference that a planned experiment detects with a power of 80 %. `None`
    /// if no result of it is significant.
    pub fn detectable(self, tasks: usize, trials: usize, level: Level) -> Option<f64> {
        let scope = Scope::of_experiment(tasks, trials, level);
        let freedom = match scope {
            Scope::TasksLikeThese => tasks,
            Scope::ExactlyTheseTasks if smallest_of(tasks, trials) > level.alpha() => return None,
            Scope::ExactlyTheseTasks => (2 * tasks * (trials - 1)).max(1) + 1,
        };
        let error = (self.of_task(trials, scope) / tasks as f64).sqrt();
        Some(errors_apart(freedom, level) * error)
    }

    /// The number of tasks to detect a difference with a power.
    pub fn tasks_for(self, difference: f64, trials: usize, level: Level, power: f64) -> f64 {
        let errors = level.z() + normal_quantile(power);
        let variance = self.of_task(trials, Scope::TasksLikeThese);
        (errors / difference).powi(2) * variance
    }
}

/// The additional tasks, or trials of each task, that would decide an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToDecide {
    /// More tasks with as many trials.
    pub tasks: Needed,
    /// More trials of each of these tasks.
    pub trials: Needed,
}

/// The sample size that would decide an experiment with a power of 80 % if the observed difference
/// is the true one: as a difference or, with a margin, as equivalence. `None` without a shared
/// task.
pub fn to_decide(sample: &PairSample, level: Level, margins: Margins) -> Option<ToDecide> {
    let spread = with_assumed_luck(sample)?;
    let by_difference = for_difference(&spread, sample.scope, level);
    let margin = margins.equivalent.or(margins.not_worse);
    let room = margin.map(|margin| margin - spread.difference.abs());
    let by_margin = room.filter(|room| *room > 0.0).map(|room| {
        if let Some(unvaried) = sample.unvaried() {
            return for_margin(unvaried, sample, level, margins);
        }
        let apart = Spread {
            difference: room,
            ..spread
        };
        for_difference(&apart, sample.scope, level)
    });
    let needed = by_margin.map_or(by_difference, |by_margin| ToDecide {
        tasks: fewer(by_difference.tasks, by_margin.tasks),
        trials: fewer(by_difference.trials, by_margin.trials),
    });
    Some(ToDecide {
        tasks: reasonable(needed.tasks, MOST_TASKS),
        trials: reasonable(needed.trials, MOST_TRIALS),
    })
}

/// The sample size that detects the difference. A single task does not show how tasks differ.
fn for_difference(spread: &Spread, scope: Scope, level: Level) -> ToDecide {
    if spread.tasks < 2 {
        return ToDecide {
            tasks: Needed::OutOfReach,
            trials: trials_of_these(spread, level),
        };
    }
    let needed = power::needed(spread, level);
    ToDecide {
        tasks: needed.tasks,
        trials: match scope {
            Scope::TasksLikeThese => needed.trials_per_task.unwrap_or(Needed::OutOfReach),
            Scope::ExactlyTheseTasks => trials_of_these(spread, level),
        },
    }
}

/// The sample size that shows a margin if nothing varies: units in which another result was not
/// seen. More trials of the same tasks do not say more about tasks like these.
fn for_margin(unvaried: Unvaried, sample: &PairSample, level: Level, margins: Margins) -> ToDecide {
    let level = AnalysisLevels::fixed(level).margin;
    let holds = |units: usize| within(unvaried.interval(units, level), margins, true).is_some();
    let least = |most: u64, units: &dyn Fn(usize) -> usize| {
        let enough =
            (1..=most).find(|more| usize::try_from(*more).is_ok_and(|it| holds(units(it))));
        enough.map_or(Needed::OutOfReach, Needed::More)
    };
    let tasks = sample.paired().tasks();
    let of_task = unvaried.units / tasks.max(1);
    ToDecide {
        tasks: least(MOST_TASKS, &|more| (tasks + more) * of_task),
        trials: match sample.scope {
            Scope::TasksLikeThese => Needed::OutOfReach,
            Scope::ExactlyTheseTasks => least(MOST_TRIALS, &|more| tasks * (of_task + more)),
        },
    }
}

/// The variance components. Without repeated trials, the variance of trials is that of pass or fail
/// with the observed mean, which no score from 0 to 1 exceeds.
fn with_assumed_luck(sample: &PairSample) -> Option<Spread> {
    let paired = sample.paired();
    let spread = paired.spread();
    let mut spread = spread.or_else(|| paired.spread_with(0.0))?;
    let assumed = |values: Vec<&[f64]>| {
        let each = values
            .iter()
            .map(|it| deviation(average(it), it.len()).powi(2));
        average(&each.collect::<Vec<_>>())
    };
    let (one, other): (Vec<&[f64]>, Vec<&[f64]>) = paired.trials().unzip();
    let varied = |it: Option<f64>| it.filter(|it| *it > 0.0);
    spread.baseline = varied(spread.baseline).or_else(|| Some(assumed(one)));
    spread.candidate = varied(spread.candidate).or_else(|| Some(assumed(other)));
    Some(spread)
}

/// More trials for a conclusion about exactly these tasks.
fn trials_of_these(spread: &Spread, level: Level) -> Needed {
    let luck = spread.baseline.unwrap_or(0.0) + spread.candidate.unwrap_or(0.0);
    let suffices = |trials: usize| {
        let freedom = (2 * spread.tasks * (trials - 1)).max(1);
        let error = (luck / (spread.tasks * trials) as f64).sqrt();
        spread.difference.abs() >= errors_apart(freedom + 1, level) * error
            && smallest_of(spread.tasks, trials) <= level.alpha()
    };
    let now = spread.trials.max(1);
    let most = now + usize::try_from(MOST_TRIALS).unwrap_or(0);
    let enough = (now..=most).find(|trials| suffices(*trials));
    match enough {
        Some(trials) if trials == now => Needed::Enough,
        Some(trials) => Needed::More((trials - now) as u64),
        None => Needed::OutOfReach,
    }
}

fn fewer(one: Needed, other: Needed) -> Needed {
    let count = |it: Needed| match it {
        Needed::Enough => 0,
        Needed::More(more) => more,
        Needed::OutOfReach => u64::MAX,
    };
    if count(one) <= count(other) {
        one
    } else {
        other
    }
}

/// At least one more, because this sample did not decide it, and not more than is reasonable.
fn reasonable(needed: Needed, most: u64) -> Needed {
    match needed {
        Needed::Enough => Needed::More(1),
        Needed::More(more) if more > most => Needed::OutOfReach,
        other => other,
    }
}

/// The results of one task so far, of both agents together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskTally {
    /// The mean of the values, from 0 to 1.
    pub mean: f64,
    /// The number of values.
    pub values: usize,
    /// The number of trials of each agent so far.
    pub trials: usize,
}

/// The number of trials of each task and agent after `more` further trials (Neyman): proportional
/// to the standard deviation of a task's trials, never fewer than now, and at most `most`. Both
/// agents count together, so that the allocation does not depend on which of them is better.
pub fn neyman(tasks: &[TaskTally], more: usize, most: usize) -> Vec<usize> {
    let mut trials: Vec<usize> = tasks.iter().map(|it| it.trials).collect();
    let variances = tasks.iter().map(|it| deviation(it.mean, it.values).powi(2));
    let variances: Vec<f64> = variances.collect();
    // The reduction of the variance of the mean by one more trial.
    let gain = |task: usize, now: usize| {
        if now == 0 {
            f64::INFINITY
        } else {
            variances[task] / (now * (now + 1)) as f64
        }
    };
    for _ in 0..more {
        let best = (0..trials.len())
            .rev()
            .filter(|task| trials[*task] < most)
            .max_by(|one, other| gain(*one, trials[*one]).total_cmp(&gain(*other, trials[*other])));
        if let Some(best) = best {
            trials[best] += 1;
        }
    }
    trials
}

/// The standard deviation of pass or fail, with the mean shrunk by a Beta(1/2, 1/2) prior.
fn deviation(mean: f64, values: usize) -> f64 {
    let number = values as f64;
    let shrunk = ((mean * number + 0.5) / (number + 1.0)).clamp(0.0, 1.0);
    (shrunk * (1.0 - shrunk)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Resampling, Scores, Seed};

    fn scores(values: &[(&str, &[f64])]) -> Scores {
        let all = values
            .iter()
            .flat_map(|(task, values)| values.iter().map(|value| (*task, *value)));
        Scores::collect(all).unwrap()
    }

    fn sample<'a>(baseline: &'a Scores, candidate: &'a Scores, scope: Scope) -> PairSample<'a> {
        PairSample {
            baseline,
            candidate,
            scope,
            resampling: Resampling::seeded(Seed(1)).times(999),
            is_share: true,
        }
    }

    #[test]
    fn shares_of_the_variance_add_up() {
        let a = scores(&[("a", &[0.0, 0.4]), ("b", &[0.5, 0.5]), ("c", &[0.2, 0.2])]);
        let b = scores(&[("a", &[0.1, 0.3]), ("b", &[0.9, 0.9]), ("c", &[0.2, 0.2])]);
        let found = variance_shares(&sample(&a, &b, Scope::TasksLikeThese)).unwrap();
        let sum = found.tasks + found.baseline_luck + found.candidate_luck;
        assert!((sum - 1.0).abs() < 1e-12);
        // Baseline: 0.08 / 3 / 2; candidate: 0.02 / 3 / 2; tasks: 0.16 / 3 in all.
        assert!((found.baseline_luck - 0.25).abs() < 1e-9, "{found:?}");
        assert!((found.candidate_luck - 0.0625).abs() < 1e-9, "{found:?}");
        let once = scores(&[("a", &[0.0]), ("b", &[1.0])]);
        assert_eq!(
            variance_shares(&sample(&once, &once, Scope::TasksLikeThese)),
            None
        );
    }

    #[test]
    fn planned_size_and_detectable_difference_agree() {
        let planned = PlannedVariance::default();
        let found = planned.detectable(40, 3, Level::P95).unwrap();
        assert!((found - 0.15).abs() < 0.005, "{found}");
        let tasks = planned.tasks_for(found, 3, Level::P95, 0.8);
        assert!((tasks - 40.0).abs() < 3.0, "{tasks}");
        // More tasks are better than more trials.
        let many = planned.detectable(120, 1, Level::P95).unwrap();
        assert!(many < found, "{many} {found}");
        assert_eq!(planned.detectable(4, 1, Level::P95), None);
        assert!(planned.detectable(4, 3, Level::P95).is_some());
    }

    #[test]
    fn few_tasks_need_more_tasks_or_more_trials() {
        let a = scores(&[("a", &[0.0]), ("b", &[1.0]), ("c", &[0.0]), ("d", &[0.0])]);
        let b = scores(&[("a", &[1.0]), ("b", &[1.0]), ("c", &[1.0]), ("d", &[0.0])]);
        let sample = sample(&a, &b, Scope::ExactlyTheseTasks);
        let found = to_decide(&sample, Level::P95, Margins::default()).unwrap();
        let (Needed::More(tasks), Needed::More(trials)) = (found.tasks, found.trials) else {
            panic!("{found:?}");
        };
        assert!(
            (4..=12).contains(&tasks) && (2..=6).contains(&trials),
            "{found:?}"
        );
    }

    #[test]
    fn tiny_differences_are_out_of_reach_and_margins_are_not() {
        let tasks: Vec<String> = (0..40).map(|task| task.to_string()).collect();
        let value = |shift: f64| {
            let value = move |(at, task): (usize, &String)| {
                (
                    task.clone(),
                    0.5 + shift * if at % 2 == 0 { 1.0 } else { -0.9 },
                )
            };
            Scores::collect(tasks.iter().enumerate().map(value)).unwrap()
        };
        let (a, b) = (value(0.0), value(0.2));
        let sample = sample(&a, &b, Scope::TasksLikeThese);
        let found = to_decide(&sample, Level::P95, Margins::default()).unwrap();
        assert_eq!(found.tasks, Needed::OutOfReach);
        let margins = Margins {
            equivalent: Some(0.1),
            not_worse: None,
        };
        let found = to_decide(&sample, Level::P95, margins).unwrap();
        assert!(matches!(found.tasks, Needed::More(1..=30)), "{found:?}");
    }

    #[test]
    fn equal_agents_need_units_in_which_no_difference_was_seen() {
        // 0.95^59 < 0.05: 59 units without a difference show a margin of 5 points at 90 %.
        let margins = Margins {
            equivalent: Some(0.05),
            not_worse: None,
        };
        let arm = |tasks: usize, trials: usize| {
            let all = (0..tasks * trials).map(|at| (format!("t{}", at % tasks), 1.0));
            Scores::collect(all).unwrap()
        };
        for (tasks, trials, scope, expected) in [
            (
                30,
                1,
                Scope::TasksLikeThese,
                (Needed::More(29), Needed::OutOfReach),
            ),
            (
                8,
                3,
                Scope::ExactlyTheseTasks,
                (Needed::More(12), Needed::More(5)),
            ),
            (
                1,
                4,
                Scope::ExactlyTheseTasks,
                (Needed::More(14), Needed::OutOfReach),
            ),
        ] {
            let all = arm(tasks, trials);
            let found = to_decide(&sample(&all, &all, scope), Level::P95, margins).unwrap();
            assert_eq!((found.tasks, found.trials), expected, "{tasks} x {trials}");
        }
    }

    #[test]
    fn single_task_needs_more_trials() {
        let a = scores(&[("a", &[0.0, 0.0, 1.0])]);
        let b = scores(&[("a", &[1.0, 1.0, 1.0])]);
        let sample = sample(&a, &b, Scope::ExactlyTheseTasks);
        let found = to_decide(&sample, Level::P95, Margins::default()).unwrap();
        assert_eq!(found.tasks, Needed::OutOfReach);
        assert!(matches!(found.trials, Needed::More(1..=12)), "{found:?}");
    }

    #[test]
    fn trials_go_to_tasks_with_varying_results() {
        let tally = |mean: f64| TaskTally {
            mean,
            values: 4,
            trials: 2,
        };
        let found = neyman(&[tally(0.0), tally(0.5), tally(1.0), tally(0.75)], 8, 9);
        assert_eq!(found.iter().sum::<usize>(), 16);
        assert!(found[1] >= found[3] && found[3] > found[0], "{found:?}");
        // Shrunk: deviations of 0.3, 0.5, 0.3 and 0.46.
        assert_eq!(found, [3, 5, 3, 5]);
        let capped = neyman(&[tally(0.0), tally(0.5)], 4, 4);
        assert_eq!(capped, [4, 4]);
        let new = TaskTally {
            mean: 0.0,
            values: 0,
            trials: 0,
        };
        assert_eq!(neyman(&[new; 3], 3, 9), [1, 1, 1]);
    }
}
