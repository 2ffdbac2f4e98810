//! Applies the rules of a gate to a run and its baseline.

use serde::Serialize;

use super::{
    change::{Ruled, Ruling, gate},
    level,
    rule::{ChangeRule, Rule, RuleKind},
    tasks::{FlippedTask, SharedTasks, every_task},
};
use crate::{
    compare::{Chosen, PairingError, Side, Versus, about_excluded, compare_all, pair_up},
    model::{Basis, agent::Row, run_notes},
    stats::PassCount,
    trials::Trials,
};

/// The trials that a gate decides about.
#[derive(Clone, Copy, Debug)]
pub struct GateRuns<'a> {
    /// The run.
    pub candidate: Chosen<'a>,
    /// The trials that it is compared with.
    pub baseline: Option<Chosen<'a>>,
}

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gated {
    /// The answer.
    pub answer: Answer,
    /// The settings of the figures.
    pub basis: Basis,
    /// Each rule for each agent.
    pub rules: Vec<Ruled>,
    /// Each agent against the baseline.
    pub comparisons: Vec<Versus>,
    /// Tasks whose result flipped.
    pub flipped: Vec<FlippedTask>,
    /// Agents that a rule does not apply to, incomplete runs and unreadable records.
    pub notes: Vec<String>,
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// All rules hold.
    Pass,
    /// A rule is broken.
    Fail,
    /// A rule is undecided, and none is broken.
    Undecided,
    /// A rule has nothing to decide about, and none is broken.
    Nothing,
}

impl Answer {
    /// The answer of all rules.
    pub fn of(rulings: impl IntoIterator<Item = Ruling>) -> Answer {
        match rulings.into_iter().max() {
            Some(Ruling::Broken) => Answer::Fail,
            Some(Ruling::Undecided) => Answer::Undecided,
            Some(Ruling::Holds) => Answer::Pass,
            Some(Ruling::Nothing) | None => Answer::Nothing,
        }
    }

    /// The answer with undecided rules counted otherwise.
    #[must_use]
    pub fn counted(self, on_undecided: Option<OnUndecided>) -> Answer {
        match (self, on_undecided) {
            (Answer::Undecided, Some(OnUndecided::Pass)) => Answer::Pass,
            (Answer::Undecided, Some(OnUndecided::Fail)) => Answer::Fail,
            (answer, _) => answer,
        }
    }

    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Answer::Pass => 0,
            Answer::Fail => 1,
            Answer::Nothing => 3,
            Answer::Undecided => 4,
        }
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Answer::Pass => "pass",
            Answer::Fail => "fail",
            Answer::Undecided => "undecided",
            Answer::Nothing => "nothing to decide",
        }
    }
}

/// How undecided rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUndecided {
    /// As if they held.
    Pass,
    /// As if they were broken.
    Fail,
}

/// Why a gate cannot decide.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A rule needs a baseline.
    #[error("the rule `{rule}` needs a baseline")]
    NoBaseline {
        /// The rule.
        rule: String,
    },
    /// The baseline has other agents.
    #[error(transparent)]
    Pairing(#[from] PairingError),
}

/// Applies the rules to each contestant. Floor and ceiling agents are left out, unless there are no
/// others.
pub fn decide(rules: &[Rule], runs: GateRuns, basis: Basis) -> Result<Gated, GateError> {
    let relative = rules.iter().find(|rule| rule.kind.needs_baseline());
    let pairs = match (runs.baseline, relative) {
        (Some(baseline), _) => pair_up(baseline, runs.candidate)?,
        (None, None) => Vec::new(),
        (None, Some(rule)) => {
            let rule = rule.text.clone();
            return Err(GateError::NoBaseline { rule });
        }
    };
    let shared: Vec<(Side, SharedTasks)> = pairs
        .iter()
        .map(|(one, other)| (*other, SharedTasks::of(*one, *other)))
        .collect();
    let comparisons = compare_all(&pairs, basis);
    let tasks = &runs.candidate.trials.tasks;
    let case = Case {
        runs,
        changes: changes(rules, &comparisons, &shared, basis),
        shared,
        task_names: tasks.iter().map(|task| task.name.clone()).collect(),
        basis,
    };
    let mut notes = case.notes(relative.is_some());
    let mut applied: Vec<Ruled> = Vec::new();
    for rule in rules {
        applied.extend(case.apply(rule, &mut notes));
    }
    let flipped = case.shared.iter();
    let flipped = flipped.flat_map(|(side, tasks)| tasks.flipped(agent_name(*side)));
    Ok(Gated {
        answer: Answer::of(applied.iter().map(|it| it.ruling)),
        basis,
        flipped: flipped.collect(),
        comparisons,
        rules: applied,
        notes,
    })
}

/// The rulings on changes, corrected over all rules and agents.
fn changes(
    rules: &[Rule],
    comparisons: &[Versus],
    shared: &[(Side, SharedTasks)],
    basis: Basis,
) -> Vec<Ruled> {
    let changes = rules.iter().filter_map(|rule| match &rule.kind {
        RuleKind::Change(rule) => Some(rule.clone()),
        _ => None,
    });
    let changes: Vec<ChangeRule> = changes.collect();
    let applied = gate(&changes, comparisons, basis.level);
    // All rules of one comparison follow each other.
    let sides = shared.iter();
    let sides = sides.flat_map(|(side, _)| std::iter::repeat_n(*side, changes.len()));
    let named = applied.into_iter().zip(sides).map(|(ruled, side)| Ruled {
        candidate: agent_name(side).to_owned(),
        ..ruled
    });
    named.collect()
}

fn agent_name(side: Side<'_>) -> &str {
    &side.trials.agents[side.agent].name
}

/// A run with its comparisons.
struct Case<'a> {
    runs: GateRuns<'a>,
    /// The rulings on changes.
    changes: Vec<Ruled>,
    /// The tasks of each agent and its counterpart.
    shared: Vec<(Side<'a>, SharedTasks)>,
    task_names: Vec<String>,
    basis: Basis,
}

impl Case<'_> {
    fn trials(&self) -> &Trials {
        self.runs.candidate.trials
    }

    /// Incomplete runs, excluded trials, and agents without counterpart in the baseline.
    fn notes(&self, is_relative: bool) -> Vec<String> {
        let trials = self.trials();
        let mut notes = run_notes(&trials.runs);
        if let Some(baseline) = self.runs.baseline {
            notes.extend(run_notes(&baseline.trials.runs));
        }
        for agent in self.runs.candidate.contenders() {
            let name = &trials.agents[agent].name;
            notes.extend(about_excluded(name, trials, |it| it == agent));
            let is_paired = self.shared.iter().any(|(side, _)| side.agent == agent);
            if is_relative && !is_paired {
                let note = "is not in the baseline: rules about changes leave it out";
                notes.push(format!("{name} {note}"));
            }
        }
        notes
    }

    fn apply(&self, rule: &Rule, notes: &mut Vec<String>) -> Vec<Ruled> {
        let ruled = |candidate: &str, (ruling, message): (Ruling, String)| Ruled {
            rule: rule.text.clone(),
            candidate: candidate.to_owned(),
            ruling,
            message,
        };
        match &rule.kind {
            RuleKind::Change(_) => {
                let own = self.changes.iter().filter(|it| it.rule == rule.text);
                own.cloned().collect()
            }
            RuleKind::NoRegression => {
                let shared = self.shared.iter();
                let each = shared.map(|(side, tasks)| {
                    ruled(agent_name(*side), tasks.no_regression(self.basis.level))
                });
                each.collect()
            }
            RuleKind::EveryTask(attempts) => {
                let each = self.agents().map(|(name, row)| {
                    let (tasks, unjudged) = self.tasks_of(row.as_ref());
                    ruled(name, every_task(*attempts, &tasks, &unjudged))
                });
                each.collect()
            }
            RuleKind::Level(limit) => {
                let mut found = Vec::new();
                let figure = limit.metric.as_str();
                for (name, row) in self.agents() {
                    match row.and_then(|row| level::rule_on(limit, &row, self.basis)) {
                        Some(decided) => found.push(ruled(name, decided)),
                        None => notes.push(format!(
                            "{name} is left out of `{}`: its {figure} is not known",
                            rule.text
                        )),
                    }
                }
                if found.is_empty() {
                    let message = format!("the {figure} of no agent is known");
                    found.push(ruled("all agents", (Ruling::Nothing, message)));
                }
                found
            }
        }
    }

    /// The contestants with their trials.
    fn agents(&self) -> impl Iterator<Item = (&str, Option<Row<'_>>)> {
        let trials = self.trials();
        let agents = self.runs.candidate.contenders().into_iter();
        agents.map(|agent| {
            let row = Row::of(trials, agent, &self.task_names);
            (trials.agents[agent].name.as_str(), row)
        })
    }

    /// The tasks of an agent with judged trials, and those without.
    fn tasks_of(&self, row: Option<&Row>) -> (Vec<(String, PassCount)>, Vec<String>) {
        let Some(row) = row else {
            return (Vec::new(), Vec::new());
        };
        let judged = row.passes.iter();
        let judged: Vec<(String, PassCount)> = judged
            .map(|(task, tally)| (task.to_owned(), tally))
            .collect();
        let mut unjudged: Vec<String> = row
            .trials
            .iter()
            .map(|trial| self.trials().tasks[trial.task].name.clone())
            .filter(|task| row.passes.of(task).is_none())
            .collect();
        unjudged.dedup();
        (judged, unjudged)
    }
}
