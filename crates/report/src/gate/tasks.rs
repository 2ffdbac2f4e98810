//! Decides about single tasks over their repeats, and finds tasks whose result flipped.

use proctor_record::text::counted;
use serde::Serialize;

use super::{change::Ruling, rule::Attempts};
use crate::{
    compare::{Side, row},
    definitions::shared_keys,
    figures,
    model::agent::Row,
    stats::{Level, PassCount, Passes, fewer_passes, holm, trials_to_tell_apart},
};

/// The maximum number of tasks that a message names.
const MOST_NAMED: usize = 5;

/// The results of a task before and now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskChange {
    /// The task.
    pub task: String,
    /// The judged trials of the baseline.
    pub before: PassCount,
    /// The judged trials of the candidate.
    pub now: PassCount,
}

impl TaskChange {
    fn passed(tally: PassCount) -> bool {
        2 * tally.passed() > tally.trials()
    }

    fn tallies(&self) -> String {
        let text = |it: PassCount| format!("{}/{}", it.passed(), it.trials());
        format!("{} → {}", text(self.before), text(self.now))
    }
}

/// A task that most trials passed before and fail now, or the reverse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlippedTask {
    /// The agent of the candidate.
    pub agent: String,
    /// Whether most trials pass now.
    pub passes_now: bool,
    /// Its results.
    #[serde(flatten)]
    pub change: TaskChange,
}

impl FlippedTask {
    /// The results, such as `3/3 → 0/3`.
    pub fn tallies(&self) -> String {
        self.change.tallies()
    }
}

/// The tasks of two sides that have the same definition, and the names of tasks that passed before
/// and have no judged trial now.
pub(super) struct SharedTasks {
    pub(super) changes: Vec<TaskChange>,
    pub(super) missing: Vec<String>,
}

impl SharedTasks {
    pub(super) fn of(baseline: Side, candidate: Side) -> SharedTasks {
        let (ones, others) = shared_keys(&baseline.trials.tasks, &candidate.trials.tasks);
        let passes = |row: Option<Row>| row.map_or_else(Passes::default, |it| it.passes);
        let before = passes(row(baseline, &ones));
        let now = passes(row(candidate, &others));
        let (mut changes, mut missing) = (Vec::new(), Vec::new());
        for (key, tally) in before.iter() {
            let task = baseline.trials.tasks.iter().zip(&ones);
            let mut task = task
                .filter(|(_, own)| *own == key)
                .map(|(task, _)| &task.name);
            let task = task.next_back().cloned().unwrap_or_default();
            match now.of(key) {
                Some(now) => changes.push(TaskChange {
                    task,
                    before: tally,
                    now,
                }),
                None if TaskChange::passed(tally) => missing.push(task),
                None => {}
            }
        }
        SharedTasks { changes, missing }
    }

    /// The tasks whose result flipped.
    pub(super) fn flipped(&self, agent: &str) -> Vec<FlippedTask> {
        let is_flipped =
            |it: &&TaskChange| TaskChange::passed(it.before) != TaskChange::passed(it.now);
        let flipped = self.changes.iter().filter(is_flipped);
        let flipped = flipped.map(|change| FlippedTask {
            agent: agent.to_owned(),
            passes_now: TaskChange::passed(change.now),
            change: change.clone(),
        });
        flipped.collect()
    }

    /// The ruling on regressions, with its reason.
    pub(super) fn no_regression(&self, level: Level) -> (Ruling, String) {
        if self.changes.is_empty() {
            let message = "no task with the same definition was judged on both sides";
            return (Ruling::Nothing, message.to_owned());
        }
        let p_values: Vec<f64> = self
            .changes
            .iter()
            .map(|it| fewer_passes(it.before, it.now))
            .collect();
        let rulings: Vec<Ruling> = self
            .changes
            .iter()
            .zip(holm(&p_values))
            .map(|(change, p_value)| regression(change, p_value, level))
            .collect();
        let of = |ruling: Ruling| -> Vec<&TaskChange> {
            let pairs = self.changes.iter().zip(&rulings);
            pairs.filter(|it| *it.1 == ruling).map(|it| it.0).collect()
        };
        let (broken, open) = (of(Ruling::Broken), of(Ruling::Undecided));
        let describe = |it: &&TaskChange| format!("{} {}", it.task, it.tallies());
        if !broken.is_empty() {
            let names = named(broken.iter().map(describe));
            return (Ruling::Broken, format!("fails now: {names}"));
        }
        if !open.is_empty() {
            let wanted = |it: &&TaskChange| {
                let needed = trials_to_tell_apart(it.before, it.now, level.alpha());
                let needed = figures::would_decide(needed, "trial");
                format!("{} ({needed})", describe(it))
            };
            let names = named(open.iter().map(wanted));
            return (Ruling::Undecided, format!("passes less often: {names}"));
        }
        if !self.missing.is_empty() {
            let names = named(self.missing.iter().cloned());
            let message = format!("not judged now, or with another definition: {names}");
            return (Ruling::Undecided, message);
        }
        let tasks = counted(self.changes.len(), "task");
        (Ruling::Holds, format!("none of {tasks} that both tried"))
    }
}

/// The ruling on the change of one task. A task passes if most of its trials do.
fn regression(change: &TaskChange, p_value: f64, level: Level) -> Ruling {
    let (before, now) = (change.before, change.now);
    if !TaskChange::passed(before) || TaskChange::passed(now) {
        return Ruling::Holds;
    }
    let is_total = before.passed() == before.trials() && now.passed() == 0;
    if is_total || p_value <= level.alpha() {
        Ruling::Broken
    } else {
        Ruling::Undecided
    }
}

/// The ruling on all tasks of an agent, with its reason. `unjudged` are tasks without a judged
/// trial.
pub(super) fn every_task(
    attempts: Attempts,
    tasks: &[(String, PassCount)],
    unjudged: &[String],
) -> (Ruling, String) {
    if tasks.is_empty() {
        return (Ruling::Nothing, "no task was judged".to_owned());
    }
    let of = |ruling: Ruling| {
        let chosen = tasks.iter();
        chosen.filter(move |(_, tally)| on_attempts(attempts, *tally) == ruling)
    };
    let describe = |(task, tally): &(String, PassCount)| {
        format!("{task} {}/{}", tally.passed(), tally.trials())
    };
    if of(Ruling::Broken).next().is_some() {
        let names = named(of(Ruling::Broken).map(describe));
        return (Ruling::Broken, format!("not passed: {names}"));
    }
    let (Attempts::All(k) | Attempts::Any(k)) = attempts;
    let missing = |(task, tally): &(String, PassCount)| {
        let more = counted(k.get() - tally.trials(), "more trial");
        format!("{task} needs {more}")
    };
    let open = of(Ruling::Undecided).map(missing);
    let unjudged = unjudged
        .iter()
        .map(|task| format!("{task} needs {}", counted(k.get(), "trial")));
    let open: Vec<String> = open.chain(unjudged).collect();
    if open.is_empty() {
        return (
            Ruling::Holds,
            format!("{} passed", counted(tasks.len(), "task")),
        );
    }
    (
        Ruling::Undecided,
        format!("too few trials: {}", named(open)),
    )
}

/// The ruling on the repeats of one task.
fn on_attempts(attempts: Attempts, tally: PassCount) -> Ruling {
    let (passed, trials) = (tally.passed(), tally.trials());
    match attempts {
        Attempts::All(_) if passed < trials => Ruling::Broken,
        Attempts::Any(_) if passed > 0 => Ruling::Holds,
        Attempts::All(k) | Attempts::Any(k) if trials < k.get() => Ruling::Undecided,
        Attempts::All(_) => Ruling::Holds,
        Attempts::Any(_) => Ruling::Broken,
    }
}

/// The first few names.
fn named(names: impl IntoIterator<Item = String>) -> String {
    let mut names: Vec<String> = names.into_iter().collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn tally(passed: u64, trials: u64) -> PassCount {
        PassCount::new(passed, trials).unwrap()
    }

    #[test]
    fn repeats_of_one_task_are_decided() {
        let k = NonZeroU64::new(3).unwrap();
        let table = [
            (Attempts::All(k), tally(3, 3), Ruling::Holds),
            (Attempts::All(k), tally(5, 5), Ruling::Holds),
            (Attempts::All(k), tally(2, 2), Ruling::Undecided),
            (Attempts::All(k), tally(1, 2), Ruling::Broken),
            (Attempts::All(k), tally(4, 5), Ruling::Broken),
            (Attempts::Any(k), tally(1, 3), Ruling::Holds),
            (Attempts::Any(k), tally(1, 1), Ruling::Holds),
            (Attempts::Any(k), tally(0, 2), Ruling::Undecided),
            (Attempts::Any(k), tally(0, 3), Ruling::Broken),
        ];
        for (attempts, tally, expect) in table {
            assert_eq!(
                on_attempts(attempts, tally),
                expect,
                "{attempts:?} {tally:?}"
            );
        }
    }

    #[test]
    fn regressions_of_one_task_are_decided() {
        let table = [
            (tally(3, 3), tally(0, 3), Ruling::Broken),
            (tally(1, 1), tally(0, 1), Ruling::Broken),
            (tally(9, 10), tally(1, 10), Ruling::Broken),
            (tally(3, 3), tally(1, 3), Ruling::Undecided),
            (tally(2, 3), tally(0, 3), Ruling::Undecided),
            (tally(3, 3), tally(2, 3), Ruling::Holds),
            (tally(3, 3), tally(3, 3), Ruling::Holds),
            (tally(0, 3), tally(0, 3), Ruling::Holds),
            (tally(1, 3), tally(0, 3), Ruling::Holds),
        ];
        for (before, now, expect) in table {
            let change = TaskChange {
                task: "t".to_owned(),
                before,
                now,
            };
            let shared = SharedTasks {
                changes: vec![change],
                missing: Vec::new(),
            };
            assert_eq!(
                shared.no_regression(Level::P95).0,
                expect,
                "{before:?} {now:?}"
            );
        }
    }

    #[test]
    fn tasks_without_counterpart_leave_regressions_undecided() {
        let change = TaskChange {
            task: "t".to_owned(),
            before: tally(1, 1),
            now: tally(1, 1),
        };
        let shared = SharedTasks {
            changes: vec![change],
            missing: vec!["u".to_owned()],
        };
        let (ruling, message) = shared.no_regression(Level::P95);
        assert_eq!(ruling, Ruling::Undecided);
        assert!(message.ends_with(": u"), "{message}");
        let empty = SharedTasks {
            changes: Vec::new(),
            missing: Vec::new(),
        };
        assert_eq!(empty.no_regression(Level::P95).0, Ruling::Nothing);
    }
}
