//! Decides the next step for each trial of a run on a cluster: a pure function of the records, the
//! leases and the engine's state. Records are authoritative; the engine only knows which jobs are
//! queued, and why a job is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{outcome::Outcome, record::lease::Ended};

/// A trial whose jobs are lost this often without a record is given up.
const MOST_LOSSES: u32 = 3;
/// How long after a job is gone its record may still come to light: shared file systems keep
/// what they saw for a while.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A task of a job array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job.
    pub job: u64,
    /// The task's index in it.
    pub index: u32,
}

/// The engine's state of a known task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It has not begun.
    Pending,
    /// It was begun.
    Running,
}

/// Why a task is gone, in the engine's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It took too long.
    Timeout,
    /// It took too much memory.
    Memory,
    /// It was cancelled.
    Cancelled,
    /// It ended, or its node failed, or the engine has forgotten it.
    Gone,
}

/// The state of a trial whose task is not pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Its result, if its record is finished.
    pub record: Option<Outcome>,
    /// The lease that counts.
    pub lease: LeaseState,
    /// The engine's state of its task, if it is gone.
    pub word: Option<Word>,
}

/// The lease to a trial.
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
    /// Nothing: it goes on.
    Wait,
    /// Nothing: it has its record.
    Ended,
    /// Nothing: it was not run, and is not to be.
    NotRun,
    /// It was given something bad; the job's log says what.
    Refused,
    /// Submit it again.
    Again,
    /// Write its record: the process that ran it cannot do so any more.
    Conclude(Outcome, String),
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Queued(TaskId),
    /// Its task is gone since then.
    Gone(TaskId, Duration),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    state: State,
    retries: u32,
    losses: u32,
}

/// All trials of a run, by their number in the plan.
#[derive(Debug)]
pub struct Planner {
    trials: Vec<Trial>,
    tasks: BTreeMap<TaskId, usize>,
    /// How often infrastructure is tried again.
    retries: u32,
    left: usize,
}

impl Planner {
    /// A run of so many trials, none of which was submitted.
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
    /// trials are awaited, trials that the engine killed are concluded, and the rest is submitted.
    pub fn restore(
        &mut self,
        known: &BTreeMap<usize, TaskId>,
        queue: &BTreeMap<TaskId, Queued>,
        word: impl Fn(TaskId) -> Word,
    ) {
        for (number, task) in known {
            let is_there = queue.contains_key(task);
            if self.trials[*number].state == State::Waiting
                && (is_there || matches!(word(*task), Word::Timeout | Word::Memory))
            {
                self.submitted(*number, *task);
            }
        }
    }

    /// Whether the engine has, or had, a task of which more is to come.
    pub fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// A trial was submitted as this task.
    pub fn submitted(&mut self, trial: usize, task: TaskId) {
        self.trials[trial].state = State::Queued(task);
        self.tasks.insert(task, trial);
    }

    /// A trial needs nothing more.
    pub fn over(&mut self, trial: usize) {
        let state = std::mem::replace(&mut self.trials[trial].state, State::Over);
        if let State::Queued(task) | State::Gone(task, _) = state {
            self.tasks.remove(&task);
        }
        if state != State::Over {
            self.left -= 1;
        }
    }

    /// The trials that are to be submitted.
    pub fn waiting(&self) -> Vec<usize> {
        let waiting = |(_, trial): &(usize, &Trial)| trial.state == State::Waiting;
        let all = self.trials.iter().enumerate();
        all.filter(waiting).map(|(number, _)| number).collect()
    }

    /// The trials whose state may have changed: running and gone ones. Pending ones have not
    /// started.
    pub fn to_look_at(
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

    /// Whether a trial's task has been gone for long enough to believe that no record comes.
    pub fn is_lost(&self, trial: usize, now: Duration) -> bool {
        match self.trials[trial].state {
            State::Gone(_, since) => now.saturating_sub(since) >= GRACE,
            _ => false,
        }
    }

    /// Decide what to do with a trial at this time.
    pub fn decide(&mut self, number: usize, look: Look, now: Duration) -> Step {
        let step = self.step(number, look, now);
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

    fn step(&mut self, number: usize, look: Look, now: Duration) -> Step {
        let is_lost = self.is_lost(number, now);
        let trial = &mut self.trials[number];
        let is_gone = matches!(trial.state, State::Gone(..));
        match look.record {
            Some(outcome) if !outcome.is_infrastructure() => return Step::Ended,
            // Its task is about to end; another would find the lease taken. The visible result may
            // also be that of an earlier task.
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
        match (look.lease, look.word.unwrap_or(Word::Gone)) {
            (LeaseState::Over(Ended::Refused), _) => Step::Refused,
            (_, Word::Timeout) if is_lost => Step::Conclude(
                Outcome::Timeout,
                "the engine ended the job at its time limit".to_owned(),
            ),
            (_, Word::Memory) if is_lost => Step::Conclude(
                Outcome::OutOfMemory,
                "the engine killed the job for want of memory".to_owned(),
            ),
            (_, Word::Cancelled) if is_lost => Step::NotRun,
            (LeaseState::Alive, _) => Step::Wait,
            _ if !is_lost => Step::Wait,
            _ => {
                trial.losses += 1;
                if trial.losses < MOST_LOSSES {
                    return Step::Again;
                }
                let message = format!("its job was lost {MOST_LOSSES} times without a record");
                Step::Conclude(Outcome::Sandbox, message)
            }
        }
    }

    /// The tasks of these trials that are queued, by their job.
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
    /// Their numbers in the plan are their indices and this.
    pub base: u32,
    /// The indices.
    pub indices: BTreeSet<u32>,
}

/// Put trials of the same shape together, in arrays whose indices the engine takes.
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

    /// A planner of one trial whose task is gone for good, and the time.
    fn gone(retries: u32) -> (Planner, Duration) {
        let mut planner = Planner::new(1, retries);
        planner.submitted(0, TASK);
        planner.to_look_at(&BTreeMap::new(), Duration::ZERO);
        (planner, GRACE)
    }

    fn look(record: Option<Outcome>, lease: LeaseState, word: Word) -> Look {
        Look {
            record,
            lease,
            word: Some(word),
        }
    }

    #[test]
    fn a_record_is_the_truth_whatever_the_engine_says() {
        let (mut planner, now) = gone(0);
        let seen = look(Some(Outcome::Completed), LeaseState::Free, Word::Timeout);
        assert_eq!(planner.decide(0, seen, now), Step::Ended);
        assert!(planner.is_done());
    }

    #[test]
    fn a_pending_task_is_not_looked_at_and_a_running_one_waits() {
        let mut planner = Planner::new(2, 0);
        planner.submitted(0, TASK);
        planner.submitted(1, TaskId { job: 7, index: 1 });
        let queue = BTreeMap::from([
            (TASK, Queued::Running),
            (TaskId { job: 7, index: 1 }, Queued::Pending),
        ]);
        assert_eq!(planner.to_look_at(&queue, Duration::ZERO), [(0, None)]);
        let step = planner.decide(0, Look::default(), Duration::ZERO);
        assert_eq!(step, Step::Wait);
    }

    #[test]
    fn what_the_engine_killed_is_concluded_by_its_word_and_not_before_the_file_system_had_time() {
        for (word, outcome) in [
            (Word::Timeout, Outcome::Timeout),
            (Word::Memory, Outcome::OutOfMemory),
        ] {
            let (mut planner, now) = gone(0);
            let seen = look(None, LeaseState::Alive, word);
            assert_eq!(planner.decide(0, seen, Duration::ZERO), Step::Wait);
            let Step::Conclude(concluded, _) = planner.decide(0, seen, now) else {
                panic!("{word:?} is not concluded");
            };
            assert_eq!(concluded, outcome);
        }
    }

    #[test]
    fn a_lost_trial_is_submitted_again_but_not_for_ever() {
        let (mut planner, now) = gone(0);
        let seen = look(None, LeaseState::Free, Word::Gone);
        for job in [8, 9] {
            assert_eq!(planner.decide(0, seen, now), Step::Again);
            assert_eq!(planner.waiting(), [0]);
            planner.submitted(0, TaskId { job, index: 0 });
            planner.to_look_at(&BTreeMap::new(), Duration::ZERO);
        }
        assert!(matches!(
            planner.decide(0, seen, now),
            Step::Conclude(Outcome::Sandbox, _)
        ));
    }

    #[test]
    fn a_trial_that_another_process_runs_is_left_to_it() {
        let (mut planner, now) = gone(0);
        let seen = look(None, LeaseState::Alive, Word::Gone);
        assert_eq!(planner.decide(0, seen, now * 100), Step::Wait);
    }

    #[test]
    fn infrastructure_is_tried_again_as_often_as_asked_and_hopeless_cases_never() {
        let (mut planner, now) = gone(1);
        let seen = look(Some(Outcome::Network), LeaseState::Free, Word::Gone);
        assert_eq!(planner.decide(0, seen, now), Step::Again);
        planner.submitted(0, TASK);
        planner.to_look_at(&BTreeMap::new(), now);
        assert_eq!(
            planner.decide(0, seen, now),
            Step::Wait,
            "the file system may show what the first task came to"
        );
        assert_eq!(planner.decide(0, seen, now * 2), Step::Ended);
        let (mut planner, now) = gone(1);
        let seen = look(Some(Outcome::Auth), LeaseState::Free, Word::Gone);
        assert_eq!(planner.decide(0, seen, now), Step::Ended);
    }

    #[test]
    fn arrays_hold_one_shape_and_no_index_that_the_engine_refuses() {
        let shape = |trial: usize| if trial == 3 { "large" } else { "small" };
        let made = arrays(&[0, 1, 3, 11, 12], shape, 10);
        let shown: Vec<_> = made
            .iter()
            .map(|array| (array.shape, array.base, array.indices.len()))
            .collect();
        assert_eq!(shown, [("large", 0, 1), ("small", 0, 2), ("small", 10, 2)]);
    }
}
