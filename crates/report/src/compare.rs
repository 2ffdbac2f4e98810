//! Compares two agents, metric by metric, on the tasks that both tried: the changes, with their
//! confidence intervals.

use std::collections::BTreeMap;

use proctor_record::{parallel_map::parallel_map, record::TrialStatus, text::counted};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    model::{
        agent::{Role, Row, cost, duration, tokens},
        report::Basis,
    },
    trials::{AgentRow, TaskRow, Trial, Trials},
};
use crate::definitions::{Defined, shared_keys};
use crate::stats::{
    Effect, Interval, McNemar, PairTest, Paired, Passes, Power, Scope, Significance, mcnemar,
};

/// The compared metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The score.
    Score,
    /// The fraction of passed trials.
    Passed,
    /// Dollars.
    Cost,
    /// The duration of the agent in seconds.
    Time,
    /// Tokens: input plus output, without cached input.
    Tokens,
}

impl Metric {
    /// All metrics, in display order.
    pub const ALL: [Metric; 5] = [
        Metric::Score,
        Metric::Passed,
        Metric::Cost,
        Metric::Time,
        Metric::Tokens,
    ];

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::Score => "score",
            Metric::Passed => "passed",
            Metric::Cost => "cost",
            Metric::Time => "time",
            Metric::Tokens => "tokens",
        }
    }

    /// Whether higher is better.
    pub fn is_gain(self) -> bool {
        matches!(self, Metric::Score | Metric::Passed)
    }

    /// The value of a trial.
    pub(crate) fn of(self, trial: &Trial) -> Option<f64> {
        match self {
            Metric::Score => trial.score,
            Metric::Passed => Some(f64::from(trial.status == TrialStatus::Passed)),
            Metric::Cost => cost(trial),
            Metric::Time => duration(trial).map(|ms| ms / 1000.0),
            Metric::Tokens => tokens(trial),
        }
    }
}

/// The change of one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The metric.
    pub metric: Metric,
    /// The baseline's mean over shared tasks, with equal weight for all tasks.
    pub baseline: f64,
    /// The candidate's mean.
    pub candidate: f64,
    /// The candidate's mean minus the baseline's.
    pub difference: f64,
    /// The confidence interval of the difference; null if no task differs from another.
    pub interval: Option<Interval>,
    /// The probability of a difference at least as large between equal agents.
    pub p_value: f64,
    /// The smallest possible p-value with this many tasks and trials.
    pub smallest_p: f64,
    /// The conclusion.
    #[serde(rename = "told")]
    pub significance: Significance,
    /// Its scope.
    pub scope: Scope,
    /// The standardized effect size.
    pub effect: Option<Effect>,
    /// The sample size needed for a conclusion.
    pub power: Option<Power>,
    /// The number of shared tasks.
    pub tasks: usize,
    /// Tasks that only one of them tried.
    pub left_out: usize,
    /// The baseline's trials of all its tasks.
    pub baseline_trials: usize,
    /// The candidate's trials.
    pub candidate_trials: usize,
    /// The difference with excluded trials as 0; null for other metrics and without excluded
    /// trials.
    pub difference_excluded_as_zero: Option<f64>,
}

impl Change {
    /// The difference relative to the baseline; `None` if that is 0.
    pub fn relative(&self, difference: f64) -> Option<f64> {
        (self.baseline.abs() > 0.0).then(|| difference / self.baseline.abs())
    }

    /// Whether the change is an improvement; `None` if it is not significant.
    pub fn is_better(&self) -> Option<bool> {
        match self.significance {
            Significance::Higher => Some(self.metric.is_gain()),
            Significance::Lower => Some(!self.metric.is_gain()),
            Significance::NotApart | Significance::TooFew => None,
        }
    }
}

/// One agent of a set of trials.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its label.
    pub label: &'a str,
    /// The trials.
    pub trials: &'a Trials,
    /// The index of the agent.
    pub agent: usize,
}

/// Two agents compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    /// The baseline's label.
    pub baseline: String,
    /// The candidate's label.
    pub candidate: String,
    /// The metrics that both have.
    pub changes: Vec<Change>,
    /// Metrics that one of them does not have on any shared task.
    pub unknown: Vec<Metric>,
    /// Tasks that changed from failed to passed, and back.
    pub tasks_changed: Option<McNemar>,
    /// Notes for reading the comparison.
    pub notes: Vec<String>,
}

/// Compares each pair of agents in parallel.
pub fn compare_all(pairs: &[(Side, Side)], basis: Basis) -> Vec<Versus> {
    parallel_map(pairs, |(one, other)| compare(*one, *other, basis))
}

/// Compares two agents.
pub fn compare(baseline: Side, candidate: Side, basis: Basis) -> Versus {
    let (ones, others) = shared_keys(&baseline.trials.tasks, &candidate.trials.tasks);
    let (one, other) = (row(baseline, &ones), row(candidate, &others));
    let (mut changes, mut unknown) = (Vec::new(), Vec::new());
    for metric in Metric::ALL {
        match change(metric, one.as_ref(), other.as_ref(), basis) {
            Some(change) => changes.push(change),
            None => unknown.push(metric),
        }
    }
    let passes = |row: &Option<Row>| {
        row.as_ref()
            .map_or_else(Passes::default, |it| it.passes.clone())
    };
    Versus {
        baseline: label(baseline),
        candidate: label(candidate),
        changes,
        unknown,
        tasks_changed: mcnemar(&passes(&one), &passes(&other)),
        notes: notes(baseline, candidate),
    }
}

fn label(side: Side) -> String {
    let agent = &side.trials.agents[side.agent].name;
    format!("{agent} ({})", side.label)
}

pub(crate) fn row<'a>(side: Side<'a>, keys: &'a [String]) -> Option<Row<'a>> {
    Row::of(side.trials, side.agent, keys)
}

fn change(metric: Metric, one: Option<&Row>, other: Option<&Row>, basis: Basis) -> Option<Change> {
    let (one, other) = (one?, other?);
    let values = |row: &Row| row.values(|trial| metric.of(trial));
    let (baseline, candidate) = (values(one), values(other));
    let found = PairTest::new(&baseline, &candidate, basis.level, basis.resampling())?;
    let paired = Paired::new(&baseline, &candidate);
    let zeroed = Paired::new(&one.scores.as_zero, &other.scores.as_zero);
    let has_excluded = one.scores.excluded + other.scores.excluded > 0;
    let (mean, candidates) = paired.means()?;
    Some(Change {
        metric,
        baseline: mean,
        candidate: candidates,
        difference: found.difference,
        interval: found.interval,
        p_value: found.p_value,
        smallest_p: found.smallest_p,
        significance: found.significance,
        scope: found.scope,
        effect: found.effect,
        power: paired.power(basis.level),
        tasks: paired.tasks(),
        left_out: baseline.tasks() + candidate.tasks() - 2 * paired.tasks(),
        baseline_trials: baseline.trials(),
        candidate_trials: candidate.trials(),
        difference_excluded_as_zero: (metric == Metric::Score && has_excluded)
            .then(|| zeroed.difference())
            .flatten(),
    })
}

pub(crate) fn notes(baseline: Side, candidate: Side) -> Vec<String> {
    let mut notes = Vec::new();
    let agents = [baseline, candidate].map(|side| &side.trials.agents[side.agent]);
    let mut differs = |what: &str, one: &[String], other: &[String]| {
        if one != other {
            notes.push(format!("{what}: {} → {}", listed(one), listed(other)));
        }
    };
    differs("version", &agents[0].versions, &agents[1].versions);
    differs("model", &agents[0].models, &agents[1].models);
    match (&agents[0].definition, &agents[1].definition) {
        (Some(one), Some(other)) if one.record.digest != other.record.digest => {
            notes.push(format!("the agents differ in {}", one.differences(other)));
        }
        (Some(_), Some(_)) => {}
        _ => notes.push(
            "the digest of an agent's definition is not on record: what differs between the agents is not known"
                .to_owned(),
        ),
    }
    task_notes(baseline, candidate, &mut notes);
    for side in [baseline, candidate] {
        let name = label(side);
        notes.extend(about_excluded(&name, side.trials, |agent| {
            agent == side.agent
        }));
    }
    notes
}

/// The number of excluded trials of some agents, with the reasons; `None` without any.
pub(crate) fn about_excluded(
    name: &str,
    trials: &Trials,
    is_own: impl Fn(usize) -> bool,
) -> Option<String> {
    let own: Vec<&Trial> = trials.trials.iter().filter(|it| is_own(it.agent)).collect();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in own.iter().filter(|it| it.score.is_none()) {
        *reasons.entry(trial.exclusion()).or_default() += 1;
    }
    let excluded: usize = reasons.values().sum();
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    (excluded > 0).then(|| {
        format!(
            "{name}: {excluded} of {} excluded ({})",
            counted(own.len(), "trial"),
            reasons.join(", ")
        )
    })
}

/// Tasks that both tried and that are not known to be the same.
fn task_notes(baseline: Side, candidate: Side, notes: &mut Vec<String>) {
    let tried = |side: Side, task: usize| {
        let mut trials = side.trials.trials.iter();
        trials.any(|trial| trial.agent == side.agent && trial.task == task)
    };
    let (ones, others) = shared_keys(&baseline.trials.tasks, &candidate.trials.tasks);
    for (number, task) in baseline.trials.tasks.iter().enumerate() {
        let same_name = candidate.trials.tasks.iter().enumerate();
        let same_name = same_name.filter(|(at, other)| {
            other.own_name() == task.own_name() && tried(candidate, *at) && tried(baseline, number)
        });
        let same_name: Vec<(usize, &TaskRow)> = same_name.collect();
        let is_paired = same_name.iter().any(|(at, _)| others[*at] == ones[number]);
        for (_, other) in same_name {
            match (&task.definition, &other.definition) {
                (Some(_), Some(_)) if is_paired => {}
                (Some(one), Some(two)) => notes.push(format!(
                    "task {} is not compared: it differs in {}",
                    task.own_name(),
                    one.differences(two)
                )),
                _ if !is_paired => notes.push(format!(
                    "task {} is not compared: the digest of its definition is not on record",
                    task.own_name()
                )),
                _ if other.hashes != task.hashes => notes.push(format!(
                    "task {} has different definitions on both sides",
                    task.own_name()
                )),
                _ => {}
            }
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "unknown".to_owned()
    } else {
        names.join(", ")
    }
}

/// Why two sets of trials cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// The agent does not exist.
    #[error("{place} has no agent {agent}")]
    NoAgent {
        /// The set of trials.
        place: String,
        /// The name.
        agent: String,
        /// The known names.
        known: Vec<String>,
    },
    /// It is ambiguous which agents to compare.
    #[error("{baseline} and {candidate} have no agent name in common")]
    NoSharedAgent {
        /// The baseline.
        baseline: String,
        /// The candidate.
        candidate: String,
    },
}

fn digest(agent: &AgentRow) -> Option<&str> {
    let definition = agent.definition.as_ref();
    definition.map(|it| it.record.digest.as_str())
}

/// A set of trials, and the selected agent.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    /// Its name.
    pub label: &'a str,
    /// The trials.
    pub trials: &'a Trials,
    /// The agent's name; all shared agents by default.
    pub agent: Option<&'a str>,
}

impl<'a> Chosen<'a> {
    fn side(self, agent: usize) -> Side<'a> {
        Side {
            label: self.label,
            trials: self.trials,
            agent,
        }
    }

    /// The agents that are meant: the one with this name, or all definitions of it.
    fn named(self) -> Result<Option<Vec<usize>>, PairingError> {
        let Some(name) = self.agent else {
            return Ok(None);
        };
        let agents = || self.trials.agents.iter();
        if let Some(agent) = agents().position(|agent| agent.name == name) {
            return Ok(Some(vec![agent]));
        }
        let definitions = agents().enumerate().filter(|(_, it)| it.own_name() == name);
        let definitions: Vec<usize> = definitions.map(|(number, _)| number).collect();
        if definitions.is_empty() {
            return Err(PairingError::NoAgent {
                place: self.label.to_owned(),
                agent: name.to_owned(),
                known: agents().map(|it| it.name.clone()).collect(),
            });
        }
        Ok(Some(definitions))
    }

    /// The contestants, or all agents if there are none.
    pub(crate) fn contenders(self) -> Vec<usize> {
        let all = || 0..self.trials.agents.len();
        let takes_part = |agent: &usize| Role::of(&self.trials.agents[*agent]) == Role::Contender;
        let contenders: Vec<usize> = all().filter(takes_part).collect();
        if contenders.is_empty() {
            all().collect()
        } else {
            contenders
        }
    }
}

/// Which agents to compare: those that are named, else all that both sets have, else the only
/// ones that they have. An agent with several definitions is compared with the same one, or with each of them.
pub fn pair_up<'a>(
    baseline: Chosen<'a>,
    candidate: Chosen<'a>,
) -> Result<Vec<(Side<'a>, Side<'a>)>, PairingError> {
    let (one, other) = (baseline.named()?, candidate.named()?);
    let ones = one.clone().unwrap_or_else(|| baseline.contenders());
    let others = other.clone().unwrap_or_else(|| candidate.contenders());
    let sides = |one, other| (baseline.side(one), candidate.side(other));
    let all = |ones: &[usize], others: &[usize]| -> Vec<(Side, Side)> {
        let each = |one: &usize| others.iter().map(|other| sides(*one, *other)).collect();
        ones.iter().flat_map::<Vec<_>, _>(each).collect()
    };
    let is_single = ones.len() == 1 && others.len() == 1;
    if is_single || (one.is_some() && other.is_some()) {
        return Ok(all(&ones, &others));
    }
    let mut pairs = Vec::new();
    for one in ones {
        let agent = &baseline.trials.agents[one];
        let row = |other: &usize| &candidate.trials.agents[*other];
        let same_name = others.iter().copied();
        let same_name = same_name.filter(|it| row(it).own_name() == agent.own_name());
        let same_name: Vec<usize> = same_name.collect();
        let same = same_name.iter().copied();
        let same = same.filter(|it| digest(row(it)) == digest(agent));
        let same: Vec<usize> = same.collect();
        let chosen = if same.is_empty() { &same_name } else { &same };
        pairs.extend(all(&[one], chosen));
    }
    if pairs.is_empty() {
        return Err(PairingError::NoSharedAgent {
            baseline: baseline.label.to_owned(),
            candidate: candidate.label.to_owned(),
        });
    }
    Ok(pairs)
}
