//! Decides the next step for each trial of a run on a cluster: a pure function of the records, the
//! leases and Slurm's state. Records are authoritative; Slurm only knows which jobs are queued, and
//! why a job ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proctor_record::{outcome::Outcome, record::lease::Ended};

/// A trial is given up after this many lost jobs without a record.
const MOST_LOSSES: u32 = 3;
/// How long to wait for a record after a job has ended: shared file systems cache old state for a
/// while.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A task of a job array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job.
    pub job: u64,
    /// The task's index in the job array.
    pub index: u32,
}

/// Slurm's state of a known task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It is waiting.
    Pending,
    /// It has started.
    Running,
}

/// Why a task ended, according to Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// It exceeded its time limit.
    Timeout,
    /// It exceeded its memory limit.
    Memory,
    /// It was cancelled.
    Cancelled,
    /// It ended, its node failed, or Slurm no longer knows it.
    Gone,
}

/// The observed state of a trial whose task is not pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrialObservation {
    /// The outcome, if its record is finished.
    pub record: Option<Outcome>,
    /// The current lease.
    pub lease: LeaseState,
    /// The cause of the end, if the task has ended.
    pub end: Option<TaskEnd>,
}

/// The state of a trial's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseState {
    /// There is no lease, or its holder is dead.
    #[default]
    Free,
    /// The holder is alive.
    Alive,
    /// The holder released it.
    Over(Ended),
}

/// The next step for a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait: the trial continues.
    Wait,
    /// None: the trial has its record.
    Ended,
    /// None: the trial did not run and must not run.
    NotRun,
    /// None: the input is invalid; the job's log has the error.
    Refused,
    /// Submit it again.
    Again,
    /// Write its record, because its process can no longer do so.
    Conclude(Outcome, String),
}

/// The progress of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Queued(TaskId),
    /// The task has ended at this time.
    Gone(TaskId, Duration),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    state: State,
    retries: u32,
    losses: u32,
}

/// All trials of a run, by their index in the plan.
#[derive(Debug)]
pub struct Planner {
    trials: Vec<Trial>,
    tasks: BTreeMap<TaskId, usize>,
    /// The number of retries after infrastructure failures.
    retries: u32,
    left: usize,
}

impl Planner {
    /// A run of this many trials, none submitted.
    pub fn new(trials: usize, retries: u32) -> Planner {
        let trial = Trial {
            state: State::Waiting,
            retries: 0,
            losses: 0,
        };
        Planner {
            trials: vec![trial; trials],
            tasks: BTreeMap::new(),
            retries,
            left: trials,
        }
    }

    /// Continues a run of another head: `known` has the last task of each submitted trial. Queued
    /// trials are awaited, trials that Slurm killed are concluded, and the others are submitted.
    pub fn restore(
        &mut self,
        known: &BTreeMap<usize, TaskId>,
        queue: &BTreeMap<TaskId, Queued>,
        end: impl Fn(TaskId) -> TaskEnd,
    ) {
        for (number, task) in known {
            let is_there = queue.contains_key(task);
            if self.trials[*number].state == State::Waiting
                && (is_there || matches!(end(*task), TaskEnd::Timeout | TaskEnd::Memory))
            {
                self.submitted(*number, *task);
            }
        }
    }

    /// Whether there are tasks whose result is still expected.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether all trials are done.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Records that a trial was submitted as this task.
    pub fn submitted(&mut self, trial: usize, task: TaskId) {
        self.trials[trial].state = State::Queued(task);
        self.tasks.insert(task, trial);
    }

    /// Records that a trial is done.
    pub fn over(&mut self, trial: usize) {
        let state = std::mem::replace(&mut self.trials[trial].state, State::Over);
        if let State::Queued(task) | State::Gone(task, _) = state {
            self.tasks.remove(&task);
        }
        if state != State::Over {
            self.left -= 1;
        }
    }

    /// The trials to submit.
    pub fn waiting(&self) -> Vec<usize> {
        let waiting = |(_, trial): &(usize, &Trial)| trial.state == State::Waiting;
        let all = self.trials.iter().enumerate();
        all.filter(waiting).map(|(number, _)| number).collect()
    }

    /// The trials whose state may have changed: running and ended ones. Pending ones have not
    /// started.
    pub fn to_check(
        &mut self,
        queue: &BTreeMap<TaskId, Queued>,
        now: Duration,
    ) -> Vec<(usize, Option<TaskId>)> {
        let mut found = Vec::new();
        for (task, number) in &self.tasks {
            let trial = &mut self.trials[*number];
            match queue.get(task) {
                Some(Queued::Pending) => trial.state = State::Queued(*task),
                Some(Queued::Running) => {
                    trial.state = State::Queued(*task);
                    found.push((*number, None));
                }
                None => {
                    if let State::Queued(task) = trial.state {
                        trial.state = State::Gone(task, now);
                    }
                    found.push((*number, Some(*task)));
                }
            }
        }
        found
    }

    /// Whether a trial's task ended so long ago that no record is expected.
    pub fn is_lost(&self, trial: usize, now: Duration) -> bool {
        match self.trials[trial].state {
            State::Gone(_, since) => now.saturating_sub(since) >= GRACE,
            _ => false,
        }
    }

    /// Decides the next step for a trial.
    pub fn decide(&mut self, number: usize, observed: TrialObservation, now: Duration) -> Step {
        let step = self.step(number, observed, now);
        match step {
            Step::Ended | Step::NotRun | Step::Refused => self.over(number),
            Step::Again => {
                let trial = &mut self.trials[number];
                if let State::Queued(task) | State::Gone(task, _) = trial.state {
                    self.tasks.remove(&task);
                }
                trial.state = State::Waiting;
            }
            Step::Wait | Step::Conclude(..) => {}
        }
        step
    }

    fn step(&mut self, number: usize, observed: TrialObservation, now: Duration) -> Step {
        let is_lost = self.is_lost(number, now);
        let trial = &mut self.trials[number];
        let is_gone = matches!(trial.state, State::Gone(..));
        match observed.record {
            Some(outcome) if !outcome.is_infrastructure() => return Step::Ended,
            // Its task is about to end, and another would find the lease taken. The visible result
            // may also belong to an earlier task.
            Some(_) if !is_lost => return Step::Wait,
            Some(outcome) if outcome.is_hopeless() || trial.retries == self.retries => {
                return Step::Ended;
            }
            Some(_) => {
                trial.retries += 1;
                return Step::Again;
            }
            None => {}
        }
        if !is_gone {
            return Step::Wait;
        }
        match (observed.lease, observed.end.unwrap_or(TaskEnd::Gone)) {
            (LeaseState::Over(Ended::Refused), _) => Step::Refused,
            (_, TaskEnd::Timeout) if is_lost => Step::Conclude(
                Outcome::Timeout,
                "Slurm ended the job at its time limit".to_owned(),
            ),
            (_, TaskEnd::Memory) if is_lost => Step::Conclude(
                Outcome::OutOfMemory,
                "Slurm killed the job because it exceeded its memory limit".to_owned(),
            ),
            (_, TaskEnd::Cancelled) if is_lost => Step::NotRun,
            (LeaseState::Alive, _) => Step::Wait,
            _ if !is_lost => Step::Wait,
            _ => {
                trial.losses += 1;
                if trial.losses < MOST_LOSSES {
                    return Step::Again;
                }
                let message =
                    format!("the trial's job was lost {MOST_LOSSES} times without a record");
                Step::Conclude(Outcome::Sandbox, message)
            }
        }
    }

    /// The queued tasks of the selected trials, by job.
    pub fn tasks_of(&self, is_meant: impl Fn(usize) -> bool) -> BTreeMap<u64, BTreeSet<u32>> {
        let mut tasks: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for (task, number) in &self.tasks {
            if is_meant(*number) {
                tasks.entry(task.job).or_default().insert(task.index);
            }
        }
        tasks
    }
}

/// Trials that are submitted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array<S> {
    /// The resources of each of their jobs.
    pub shape: S,
    /// The offset between their indices and their index in the plan.
    pub base: u32,
    /// The indices.
    pub indices: BTreeSet<u32>,
}

/// Groups trials of the same shape into arrays with indices that Slurm accepts.
pub fn arrays<S: Ord + Clone>(
    trials: &[usize],
    shape_of: impl Fn(usize) -> S,
    most: u32,
) -> Vec<Array<S>> {
    let mut groups: BTreeMap<(S, u32), BTreeSet<u32>> = BTreeMap::new();
    for trial in trials {
        let number = u32::try_from(*trial).unwrap_or(u32::MAX);
        let base = number / most * most;
        let group = groups.entry((shape_of(*trial), base)).or_default();
        group.insert(number - base);
    }
    let arrays = groups.into_iter().map(|((shape, base), indices)| Array {
        shape,
        base,
        indices,
    });
    arrays.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId { job: 7, index: 0 };

    /// A planner with one trial whose task has ended, and the time.
    fn gone(retries: u32) -> (Planner, Duration) {
        let mut planner = Planner::new(1, retries);
        planner.submitted(0, TASK);
        planner.to_check(&BTreeMap::new(), Duration::ZERO);
        (planner, GRACE)
    }

    fn observed(record: Option<Outcome>, lease: LeaseState, end: TaskEnd) -> TrialObservation {
        TrialObservation {
            record,
            lease,
            end: Some(end),
        }
    }

    #[test]
    fn record_takes_precedence_over_slurm() {
        let (mut planner, now) = gone(0);
        let seen = observed(Some(Outcome::Completed), LeaseState::Free, TaskEnd::Timeout);
        assert_eq!(planner.decide(0, seen, now), Step::Ended);
        assert!(planner.is_done());
    }

    #[test]
    fn pending_task_is_not_checked_and_a_running_one_waits() {
        let mut planner = Planner::new(2, 0);
        planner.submitted(0, TASK);
        planner.submitted(1, TaskId { job: 7, index: 1 });
        let queue = BTreeMap::from([
            (TASK, Queued::Running),
            (TaskId { job: 7, index: 1 }, Queued::Pending),
        ]);
        assert_eq!(planner.to_check(&queue, Duration::ZERO), [(0, None)]);
        let step = planner.decide(0, TrialObservation::default(), Duration::ZERO);
        assert_eq!(step, Step::Wait);
    }

    #[test]
    fn killed_job_is_concluded_after_the_grace_period() {
        for (end, outcome) in [
            (TaskEnd::Timeout, Outcome::Timeout),
            (TaskEnd::Memory, Outcome::OutOfMemory),
        ] {
            let (mut planner, now) = gone(0);
            let seen = observed(None, LeaseState::Alive, end);
            assert_eq!(planner.decide(0, seen, Duration::ZERO), Step::Wait);
            let Step::Conclude(concluded, _) = planner.decide(0, seen, now) else {
                panic!("{end:?} is not concluded");
            };
            assert_eq!(concluded, outcome);
        }
    }

    #[test]
    fn lost_trial_is_resubmitted_a_limited_number_of_times() {
        let (mut planner, now) = gone(0);
        let seen = observed(None, LeaseState::Free, TaskEnd::Gone);
        for job in [8, 9] {
            assert_eq!(planner.decide(0, seen, now), Step::Again);
            assert_eq!(planner.waiting(), [0]);
            planner.submitted(0, TaskId { job, index: 0 });
            planner.to_check(&BTreeMap::new(), Duration::ZERO);
        }
        assert!(matches!(
            planner.decide(0, seen, now),
            Step::Conclude(Outcome::Sandbox, _)
        ));
    }

    #[test]
    fn leased_trial_is_left_to_its_holder() {
        let (mut planner, now) = gone(0);
        let seen = observed(None, LeaseState::Alive, TaskEnd::Gone);
        assert_eq!(planner.decide(0, seen, now * 100), Step::Wait);
    }

    #[test]
    fn infrastructure_failures_are_retried_and_hopeless_cases_are_not() {
        let (mut planner, now) = gone(1);
        let seen = observed(Some(Outcome::Network), LeaseState::Free, TaskEnd::Gone);
        assert_eq!(planner.decide(0, seen, now), Step::Again);
        planner.submitted(0, TASK);
        planner.to_check(&BTreeMap::new(), now);
        assert_eq!(
            planner.decide(0, seen, now),
            Step::Wait,
            "the file system may show the result of the first task"
        );
        assert_eq!(planner.decide(0, seen, now * 2), Step::Ended);
        let (mut planner, now) = gone(1);
        let seen = observed(Some(Outcome::Auth), LeaseState::Free, TaskEnd::Gone);
        assert_eq!(planner.decide(0, seen, now), Step::Ended);
    }

    #[test]
    fn arrays_have_one_shape_and_valid_indices() {
        let shape = |trial: usize| if trial == 3 { "large" } else { "small" };
        let made = arrays(&[0, 1, 3, 11, 12], shape, 10);
        let shown: Vec<_> = made
            .iter()
            .map(|array| (array.shape, array.base, array.indices.len()))
            .collect();
        assert_eq!(shown, [("large", 0, 1), ("small", 0, 2), ("small", 10, 2)]);
    }
}
