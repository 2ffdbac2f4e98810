//! The next trials of a run: all at once, up to each analysis of an experiment, or as a search
//! needs them. It depends on the plan and the records only, so that a resumed run continues.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use proctor_report::{
    experiment::{SearchState, search_state},
    stats::BisectStep,
};

use super::experiment;
use crate::plan::{BisectionPlan, RunPlan, TrialPlan};

/// The order of a run's trials.
pub(super) struct Agenda<'a> {
    plan: &'a RunPlan,
    run: &'a Utf8Path,
    /// The trials that were started by this process, which are not started again.
    started: BTreeSet<usize>,
}

impl<'a> Agenda<'a> {
    pub(super) fn new(plan: &'a RunPlan, run: &'a Utf8Path) -> Agenda<'a> {
        Agenda {
            plan,
            run,
            started: BTreeSet::new(),
        }
    }

    /// The indices of the next trials; none at the end of the run.
    pub(super) fn next(&mut self) -> Vec<usize> {
        let next = match &self.plan.search {
            Some(search) => self.next_of_search(search),
            None => self.next_stage(),
        };
        self.started.extend(&next);
        next
    }

    /// The trials up to the next analysis of an experiment, or all.
    fn next_stage(&self) -> Vec<usize> {
        let experiment = self.plan.experiment.as_ref();
        let quotas = experiment.map(|plan| experiment::quotas(plan, self.run));
        let is_needed = |trial: &TrialPlan| {
            quotas.as_ref().is_none_or(|quotas| {
                let quota = quotas.get(&trial.task.name).copied().unwrap_or(0);
                trial.number as usize <= quota
            })
        };
        let trials = self.plan.trials.iter().enumerate();
        let next = trials.filter(|(at, trial)| !self.started.contains(at) && is_needed(trial));
        next.map(|(at, _)| at).collect()
    }

    fn next_of_search(&self, search: &BisectionPlan) -> Vec<usize> {
        let Ok(trials) = proctor_report::read(&[self.run.to_owned()]) else {
            return Vec::new();
        };
        let Ok(state) = search_state(search.request(&trials)) else {
            return Vec::new();
        };
        let rounds: Vec<Rounds> = self.rounds(search);
        if self.started.is_empty() {
            // Trials of an earlier process are part of the run's summary.
            let complete = rounds.iter().zip(&state.complete);
            let complete = complete.flat_map(|(rounds, complete)| {
                let complete = complete.iter().filter_map(|it| rounds.get(it));
                complete.flatten().copied()
            });
            let complete: Vec<usize> = complete.collect();
            if !complete.is_empty() {
                return complete;
            }
        }
        let untried = |version: usize| self.untried(&rounds[version], &state.complete[version]);
        let can_try = |version: usize| {
            let is_left = !untried(version).is_empty();
            is_left && !self.is_failing(&rounds[version], &state.complete[version])
        };
        match state.search.next(can_try) {
            BisectStep::Query(version) => {
                let most = search.rounds().min(affordable(search, &state));
                untried(version).into_iter().take(most).flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The trials of each round of each version.
    fn rounds(&self, search: &BisectionPlan) -> Vec<Rounds> {
        let mut rounds = vec![Rounds::new(); search.versions.len()];
        for (at, trial) in self.plan.trials.iter().enumerate() {
            let mut versions = search.versions.iter();
            if let Some(version) = versions.position(|it| it.agent == trial.name) {
                rounds[version].entry(trial.number).or_default().push(at);
            }
        }
        rounds
    }

    /// The rounds of a version that have no result yet, and were not tried by this process.
    fn untried(&self, rounds: &Rounds, complete: &BTreeSet<u32>) -> Vec<Vec<usize>> {
        let is_left = |(number, trials): &(&u32, &Vec<usize>)| {
            !complete.contains(number) && !trials.iter().any(|it| self.started.contains(it))
        };
        let left = rounds.iter().filter(is_left);
        left.map(|(_, trials)| trials.clone()).collect()
    }

    /// Whether the trials of a version keep ending without a score.
    fn is_failing(&self, rounds: &Rounds, complete: &BTreeSet<u32>) -> bool {
        let is_lost = |(number, trials): &(&u32, &Vec<usize>)| {
            !complete.contains(number) && trials.iter().any(|it| self.started.contains(it))
        };
        rounds.iter().filter(is_lost).count() > complete.len() + 1
    }
}

/// The trials of each round of a version.
type Rounds = BTreeMap<u32, Vec<usize>>;

/// The number of rounds that the budget allows.
fn affordable(search: &BisectionPlan, state: &SearchState) -> usize {
    let trials = usize::try_from(state.search.left()).unwrap_or(usize::MAX);
    trials / search.tasks.len().max(1)
}
