//! Why trials did not pass: one line for each trial, and groups of trials with the same reason.

use std::fmt;

use serde::Serialize;

use super::{Record, TrialStatus, VerdictStatus};
use crate::{outcome::Outcome, text::one_line};

/// The longest reason, in characters.
pub const LONGEST_REASON: usize = 300;

impl Record {
    /// Why the trial did not pass, in one line: its first verdict that is not passed, or its first error. `None` if
    /// it passed.
    pub fn reason(&self) -> Option<String> {
        if self.status == TrialStatus::Passed {
            return None;
        }
        let is_bad = |status| matches!(status, VerdictStatus::Failed | VerdictStatus::Error);
        let verdicts = self.verdicts.iter().filter(|it| is_bad(it.status));
        let verdicts = verdicts.map(|it| format!("{}: {}", it.evaluator, it.message));
        let errors = self.errors.iter().map(|error| error.message.clone());
        let first = if self.outcome == Outcome::Completed {
            verdicts.chain(errors).next()
        } else {
            errors.chain(verdicts).next()
        };
        let text = first.unwrap_or_else(|| format!("the outcome is {}", self.outcome.as_str()));
        Some(one_line(&text).chars().take(LONGEST_REASON).collect())
    }
}

/// A trial that did not pass.
#[derive(Clone, Copy, Debug)]
pub struct NotPassed<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The task.
    pub task: &'a str,
    /// The status of the trial.
    pub status: TrialStatus,
    /// How the agent ended.
    pub outcome: Outcome,
    /// Why it did not pass.
    pub reason: &'a str,
}

/// Trials of one agent that did not pass for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasonGroup {
    /// The agent.
    pub agent: String,
    /// The tasks, in the order of the trials.
    pub tasks: Vec<String>,
    /// The status of the trials.
    pub status: TrialStatus,
    /// How the agent ended.
    pub outcome: Outcome,
    /// The number of trials.
    pub trials: usize,
    /// Why they did not pass.
    pub reason: String,
}

impl ReasonGroup {
    /// Groups trials by agent and reason, in the order in which the reasons occur.
    pub fn all<'a>(trials: impl IntoIterator<Item = NotPassed<'a>>) -> Vec<ReasonGroup> {
        let mut groups: Vec<ReasonGroup> = Vec::new();
        for trial in trials {
            let known = groups.iter_mut().find(|group| {
                group.agent == trial.agent
                    && group.status == trial.status
                    && group.outcome == trial.outcome
                    && group.reason == trial.reason
            });
            let Some(group) = known else {
                groups.push(ReasonGroup {
                    agent: trial.agent.to_owned(),
                    tasks: vec![trial.task.to_owned()],
                    status: trial.status,
                    outcome: trial.outcome,
                    trials: 1,
                    reason: trial.reason.to_owned(),
                });
                continue;
            };
            group.trials += 1;
            if !group.tasks.iter().any(|task| task == trial.task) {
                group.tasks.push(trial.task.to_owned());
            }
        }
        groups
    }
}

/// One line, such as `a on t: 2 failed (timeout): the agent was ended after 300 s`.
impl fmt::Display for ReasonGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on ", self.agent)?;
        match self.tasks.as_slice() {
            [task] => f.write_str(task)?,
            tasks => write!(f, "{} tasks", tasks.len())?,
        }
        let status = match self.status {
            TrialStatus::Error => "excluded",
            other => other.as_str(),
        };
        write!(f, ": {} {status}", self.trials)?;
        if self.outcome != Outcome::Completed && self.status != TrialStatus::Interrupted {
            write!(f, " ({})", self.outcome.as_str())?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed<'a>(task: &'a str, reason: &'a str) -> NotPassed<'a> {
        NotPassed {
            agent: "a",
            task,
            status: TrialStatus::Failed,
            outcome: Outcome::Completed,
            reason,
        }
    }

    #[test]
    fn trials_with_the_same_reason_are_one_line() {
        let trials = [
            failed("t1", "tests: 1 failed"),
            failed("t1", "tests: 1 failed"),
            failed("t2", "lint: 3 errors"),
            NotPassed {
                status: TrialStatus::Error,
                outcome: Outcome::NotInstalled,
                ..failed("t1", "`x` is not installed")
            },
            NotPassed {
                status: TrialStatus::Error,
                outcome: Outcome::NotInstalled,
                ..failed("t2", "`x` is not installed")
            },
            NotPassed {
                outcome: Outcome::Timeout,
                ..failed("t1", "300 s are over")
            },
        ];
        let lines = ReasonGroup::all(trials);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "a on t1: 2 failed: tests: 1 failed",
                "a on t2: 1 failed: lint: 3 errors",
                "a on 2 tasks: 2 excluded (not_installed): `x` is not installed",
                "a on t1: 1 failed (timeout): 300 s are over",
            ]
        );
    }
}
