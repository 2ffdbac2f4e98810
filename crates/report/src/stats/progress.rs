//! The state of an experiment with a schedule: which analyses are due, and what they conclude. It
//! is a function of the recorded trials, so that an experiment can be observed and resumed at any
//! time without another result.

use std::collections::BTreeMap;

use super::{
    allocation::{TaskTally, neyman},
    bootstrap::{Resampling, Seed},
    equivalence::Decided,
    pair_test::PairSample,
    sample::{NotFinite, Scores},
    sequential::{LookUnit, Schedule, Step},
};

/// The results of one agent: by task and by number of the trial, from 1. `None` is excluded.
pub type ArmResults = BTreeMap<String, BTreeMap<u32, Option<f64>>>;

/// The number of trials of each task and agent.
pub type Quotas = BTreeMap<String, usize>;

/// The state of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The last analysis, by index; `None` before the first.
    pub look: Option<usize>,
    /// Its consequence.
    pub step: Step,
    /// Its result; `None` before the first, and without enough shared tasks.
    pub decided: Option<Decided>,
    /// The trials that the analysis used.
    pub used: Quotas,
    /// The trials that the next analysis needs; `None` after the last one, and after a stop for an
    /// effect or a margin. A stop for futility is not binding, so that it has them.
    pub next: Option<Quotas>,
}

/// With adaptive allocation, a task has at most this many times the planned trials.
const MOST_TIMES: usize = 2;

impl Schedule {
    /// The largest number of trials that a task can have.
    pub fn most_trials(&self) -> usize {
        if self.adaptive {
            MOST_TIMES * self.trials
        } else {
            self.trials
        }
    }

    /// The state of the experiment after these trials. Trials beyond the last complete analysis
    /// are not used, and a stop for an effect is final.
    pub fn progress(
        &self,
        baseline: &ArmResults,
        candidate: &ArmResults,
        draws: usize,
    ) -> Result<Progress, NotFinite> {
        let resampling = Resampling::seeded(Seed(self.seed)).times(draws);
        let mut state = Progress {
            look: None,
            step: Step::Continue,
            decided: None,
            used: Quotas::new(),
            next: None,
        };
        for look in 0..self.looks.len() {
            let quotas = self.quotas(look, &state.used, [baseline, candidate]);
            if ![baseline, candidate]
                .iter()
                .all(|arm| is_complete(arm, &quotas))
            {
                state.next = Some(quotas);
                return Ok(state);
            }
            let (one, other) = (scores(baseline, &quotas)?, scores(candidate, &quotas)?);
            let sample = PairSample {
                baseline: &one,
                candidate: &other,
                scope: self.scope,
                resampling,
                is_share: true,
            };
            let analysed = self.analyse(look, &sample);
            let is_last = look + 1 == self.looks.len();
            let unknown = if is_last {
                Step::Complete
            } else {
                Step::Continue
            };
            state.look = Some(look);
            state.step = analysed.map_or(unknown, |it| it.1);
            state.decided = analysed.map(|it| it.0);
            state.used = quotas;
            if matches!(state.step, Step::StopForEffect | Step::StopForMargin) {
                break;
            }
        }
        Ok(state)
    }

    /// The trials of a look, given those of the look before.
    fn quotas(&self, look: usize, before: &Quotas, arms: [&ArmResults; 2]) -> Quotas {
        let (tasks, trials) = self.size(look);
        let tasks = &self.tasks[..tasks.min(self.tasks.len())];
        if !self.adaptive || look == 0 || self.unit == LookUnit::Task {
            return tasks.iter().map(|task| (task.clone(), trials)).collect();
        }
        let tally = |task: &String| {
            let now = before.get(task).copied().unwrap_or(0);
            let values = arms.iter().flat_map(|arm| valid(arm, task, now));
            let values: Vec<f64> = values.collect();
            let number = values.len();
            TaskTally {
                mean: values.iter().sum::<f64>() / number.max(1) as f64,
                values: number,
                trials: now,
            }
        };
        let tallies: Vec<TaskTally> = tasks.iter().map(tally).collect();
        let now: usize = tallies.iter().map(|it| it.trials).sum();
        let more = (trials * tasks.len()).saturating_sub(now);
        let after = neyman(&tallies, more, self.most_trials());
        tasks.iter().cloned().zip(after).collect()
    }
}

fn valid<'a>(arm: &'a ArmResults, task: &str, trials: usize) -> impl Iterator<Item = f64> + 'a {
    let own = arm.get(task).into_iter().flatten();
    let planned = own.filter(move |(number, _)| **number as usize <= trials);
    planned.filter_map(|(_, value)| *value)
}

fn is_complete(arm: &ArmResults, quotas: &Quotas) -> bool {
    quotas.iter().all(|(task, trials)| {
        let own = arm.get(task).into_iter().flatten();
        own.filter(|(number, _)| **number as usize <= *trials)
            .count()
            >= *trials
    })
}

fn scores(arm: &ArmResults, quotas: &Quotas) -> Result<Scores, NotFinite> {
    let all = quotas.iter().flat_map(|(task, trials)| {
        valid(arm, task, *trials).map(move |value| (task.as_str(), value))
    });
    Scores::collect(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ScheduleOptions;

    fn arm(tasks: usize, trials: u32, value: impl Fn(usize, u32) -> f64) -> ArmResults {
        let task = |task: usize| {
            let trials = (1..=trials).map(|trial| (trial, Some(value(task, trial))));
            (format!("t{task:02}"), trials.collect())
        };
        (0..tasks).map(task).collect()
    }

    fn plan(tasks: usize, trials: usize, adaptive: bool) -> Schedule {
        let names: Vec<String> = (0..tasks).map(|task| format!("t{task:02}")).collect();
        let options = ScheduleOptions {
            adaptive,
            ..ScheduleOptions::default()
        };
        Schedule::new(&names, trials, options)
    }

    #[test]
    fn large_effect_stops_early_and_later_trials_change_nothing() {
        let plan = plan(40, 1, false);
        let (a, b) = (arm(40, 1, |_, _| 0.0), arm(40, 1, |_, _| 1.0));
        let all = plan.progress(&a, &b, 499).unwrap();
        assert_eq!((all.look, all.step), (Some(1), Step::StopForEffect));
        assert_eq!((all.used.len(), all.next.is_none()), (20, true));
        // Only the tasks of the first two analyses are there.
        let first: Vec<&String> = plan.tasks[..20].iter().collect();
        let cut = |arm: &ArmResults| -> ArmResults {
            let own = arm.iter().filter(|(task, _)| first.contains(task));
            own.map(|(task, it)| (task.clone(), it.clone())).collect()
        };
        assert_eq!(plan.progress(&cut(&a), &cut(&b), 499).unwrap(), all);
    }

    #[test]
    fn no_difference_is_futile_and_not_binding() {
        let plan = plan(40, 1, false);
        let half = |task: usize, _: u32| f64::from(u8::try_from(task % 2).unwrap());
        let a = arm(40, 1, half);
        let mut b = arm(40, 1, half);
        for task in &plan.tasks[20..] {
            b.remove(task);
        }
        let state = plan.progress(&a, &b, 499).unwrap();
        assert_eq!((state.look, state.step), (Some(1), Step::StopForFutility));
        assert_eq!(state.next.map(|it| it.len()), Some(30));
        let state = plan.progress(&a, &a, 499).unwrap();
        assert_eq!((state.look, state.step), (Some(3), Step::Complete));
    }

    #[test]
    fn incomplete_units_are_not_analysed() {
        let plan = plan(8, 3, false);
        let (a, mut b) = (arm(8, 2, |_, _| 0.0), arm(8, 1, |_, _| 1.0));
        let state = plan.progress(&a, &b, 499).unwrap();
        assert_eq!((state.look, state.step), (Some(0), Step::Continue));
        // An excluded trial is complete, and is not used.
        for trials in b.values_mut() {
            trials.insert(2, None);
        }
        let state = plan.progress(&a, &b, 499).unwrap();
        assert_eq!(state.look, Some(1));
        let none = plan.progress(&ArmResults::new(), &b, 499).unwrap();
        assert_eq!((none.look, none.next.map(|it| it.len())), (None, Some(8)));
    }

    #[test]
    fn adaptive_rounds_go_to_tasks_that_vary() {
        let plan = plan(4, 3, true);
        let odd = |task: usize, _: u32| f64::from(u8::from(task > 0));
        let (a, b) = (arm(4, 2, |_, _| 1.0), arm(4, 2, odd));
        let next = plan.progress(&a, &b, 499).unwrap().next.unwrap();
        assert_eq!(next.values().sum::<usize>(), 12);
        assert_eq!(next["t00"], 4, "{next:?}");
        assert!(next.values().all(|it| *it >= 2), "{next:?}");
    }
}
