//! Two agents compared, metric by metric, on the tasks that both tried: what got better or worse,
//! by how much, and how sure that is.

use std::collections::BTreeMap;

use proctor_record::{parallel_map::parallel_map, record::TrialStatus};
use serde::Serialize;

use super::{
    model::{
        agent::{Role, Row, cost, duration, tokens},
        report::Basis,
    },
    trials::{TaskRow, Trial, Trials},
};
use crate::stats::{
    Comparison, Effect, Interval, Level, McNemar, Paired, Passes, Power, Scores, Told, Within,
    mcnemar, within_tasks,
};

/// The compared metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The score.
    Score,
    /// The share of trials that passed.
    Passed,
    /// Dollars.
    Cost,
    /// Seconds that the agent worked.
    Time,
    /// Tokens, cached ones included.
    Tokens,
}

impl Metric {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Metric; 5] = [
        Metric::Score,
        Metric::Passed,
        Metric::Cost,
        Metric::Time,
        Metric::Tokens,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::Score => "score",
            Metric::Passed => "passed",
            Metric::Cost => "cost",
            Metric::Time => "time",
            Metric::Tokens => "tokens",
        }
    }

    /// Whether more of it is better.
    pub fn is_gain(self) -> bool {
        matches!(self, Metric::Score | Metric::Passed)
    }

    fn of(self, trial: &Trial) -> Option<f64> {
        match self {
            Metric::Score => trial.score,
            Metric::Passed => Some(f64::from(trial.status == TrialStatus::Passed)),
            Metric::Cost => cost(trial),
            Metric::Time => duration(trial).map(|ms| ms / 1000.0),
            Metric::Tokens => tokens(trial),
        }
    }
}

/// The scope of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Tasks like these: there are enough of them.
    TasksLikeThese,
    /// Exactly these tasks: there are too few to speak of others, but they were tried often.
    ExactlyTheseTasks,
}

/// How one metric changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which.
    pub metric: Metric,
    /// The baseline's mean over shared tasks, every task counting the same.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
    /// The candidate's less the baseline's.
    pub difference: f64,
    /// Where the difference may lie; null where no task differs from another.
    pub interval: Option<Interval>,
    /// How likely so large a difference is between agents that are alike.
    pub p_value: f64,
    /// The smallest p-value that so many tasks and trials can give.
    pub smallest_p: f64,
    /// The conclusion.
    pub told: Told,
    /// Its scope.
    pub scope: Scope,
    /// How large it is, free of its unit.
    pub effect: Option<Effect>,
    /// The sample size needed for a conclusion.
    pub power: Option<Power>,
    /// How many tasks both tried.
    pub tasks: usize,
    /// Tasks that only one of them tried.
    pub left_out: usize,
    /// The baseline's trials of all its tasks.
    pub baseline_trials: usize,
    /// The candidate's.
    pub candidate_trials: usize,
    /// The difference with excluded trials as 0; null unless it is a score and there are some.
    pub difference_excluded_as_zero: Option<f64>,
}

impl Change {
    /// The difference as a share of the baseline; `None` when that is 0.
    pub fn relative(&self, difference: f64) -> Option<f64> {
        (self.baseline.abs() > 0.0).then(|| difference / self.baseline.abs())
    }

    /// Whether the change is for the better; `None` when nothing can be claimed.
    pub fn is_better(&self) -> Option<bool> {
        match self.told {
            Told::Higher => Some(self.metric.is_gain()),
            Told::Lower => Some(!self.metric.is_gain()),
            Told::NotApart | Told::TooFew => None,
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
    /// The number of the agent.
    pub agent: usize,
}

/// Two agents compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    /// The baseline, and where it comes from.
    pub baseline: String,
    /// The candidate, and where it comes from.
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

/// Compare each pair of agents, side by side.
pub fn compare_all(pairs: &[(Side, Side)], basis: Basis) -> Vec<Versus> {
    parallel_map(pairs, |(one, other)| compare(*one, *other, basis))
}

/// Compare two agents.
pub fn compare(baseline: Side, candidate: Side, basis: Basis) -> Versus {
    let (one, other) = (row(baseline), row(candidate));
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

fn row(side: Side<'_>) -> Option<Row<'_>> {
    Row::of(side.trials, side.agent)
}

fn change(metric: Metric, one: Option<&Row>, other: Option<&Row>, basis: Basis) -> Option<Change> {
    let (one, other) = (one?, other?);
    let values = |row: &Row| row.values(|trial| metric.of(trial));
    let (baseline, candidate) = (values(one), values(other));
    let found = Found::new(&baseline, &candidate, basis)?;
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
        told: found.told,
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

/// The result of the tests: over tasks or, if there are too few, over trials.
struct Found {
    difference: f64,
    interval: Option<Interval>,
    p_value: f64,
    smallest_p: f64,
    told: Told,
    scope: Scope,
    effect: Option<Effect>,
}

impl Found {
    fn new(baseline: &Scores, candidate: &Scores, basis: Basis) -> Option<Found> {
        let over_tasks = Paired::new(baseline, candidate).compare(basis.level, basis.resampling());
        let enough = over_tasks.filter(|it| it.told() != Told::TooFew);
        enough.map(Found::of_tasks).or_else(|| {
            let within = within_tasks(baseline, candidate, basis.level, basis.resampling())?;
            Some(Found::of_trials(within, basis.level))
        })
    }

    fn of_tasks(comparison: Comparison) -> Found {
        Found {
            told: comparison.told(),
            difference: comparison.difference,
            interval: comparison.interval,
            p_value: comparison.p_value,
            smallest_p: comparison.smallest_p,
            scope: Scope::TasksLikeThese,
            effect: Some(comparison.effect),
        }
    }

    fn of_trials(within: Within, level: Level) -> Found {
        let reaches_zero = within.interval.is_some_and(|it| it.contains(0.0));
        let told = if within.smallest_p > level.alpha() {
            Told::TooFew
        } else if within.p_value > level.alpha() || reaches_zero {
            Told::NotApart
        } else if within.difference > 0.0 {
            Told::Higher
        } else {
            Told::Lower
        };
        Found {
            told,
            difference: within.difference,
            interval: within.interval,
            p_value: within.p_value,
            smallest_p: within.smallest_p,
            scope: Scope::ExactlyTheseTasks,
            effect: None,
        }
    }
}

fn notes(baseline: Side, candidate: Side) -> Vec<String> {
    let mut notes = Vec::new();
    let agents = [baseline, candidate].map(|side| &side.trials.agents[side.agent]);
    let mut differs = |what: &str, one: &[String], other: &[String]| {
        if one != other {
            notes.push(format!("{what}: {} → {}", listed(one), listed(other)));
        }
    };
    differs("version", &agents[0].versions, &agents[1].versions);
    differs("model", &agents[0].models, &agents[1].models);
    let others = candidate.trials.tasks.iter();
    let others: BTreeMap<&str, &TaskRow> = others.map(|it| (it.name.as_str(), it)).collect();
    for task in &baseline.trials.tasks {
        let other = others.get(task.name.as_str());
        if other.is_some_and(|other| other.hashes != task.hashes) {
            notes.push(format!(
                "task {} is not defined alike on both sides",
                task.name
            ));
        }
    }
    for side in [baseline, candidate] {
        let own = side
            .trials
            .trials
            .iter()
            .filter(|it| it.agent == side.agent);
        let excluded = own.clone().filter(|it| it.score.is_none()).count();
        if excluded > 0 {
            let all = own.count();
            notes.push(format!(
                "{}: {excluded} of {all} trials say nothing of the agent and are excluded",
                label(side)
            ));
        }
    }
    notes
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "unknown".to_owned()
    } else {
        names.join(", ")
    }
}

/// Two sets of trials have nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// An agent is not there.
    #[error("{place} has no agent {agent}")]
    NoAgent {
        /// In what.
        place: String,
        /// As it was named.
        agent: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It is ambiguous which agents are meant.
    #[error("{baseline} and {candidate} have no agent name in common")]
    NoSharedAgent {
        /// The one.
        baseline: String,
        /// The other.
        candidate: String,
    },
}

/// A set of trials, and the agent of it that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    /// Its name.
    pub label: &'a str,
    /// The trials.
    pub trials: &'a Trials,
    /// The agent's name; all that both sets have when left out.
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

    fn find(self, name: &str) -> Option<usize> {
        let mut agents = self.trials.agents.iter();
        agents.position(|agent| agent.name == name)
    }

    fn named(self) -> Result<Option<usize>, PairingError> {
        let Some(name) = self.agent else {
            return Ok(None);
        };
        let known = || self.trials.agents.iter().map(|it| it.name.clone());
        let missing = || PairingError::NoAgent {
            place: self.label.to_owned(),
            agent: name.to_owned(),
            known: known().collect(),
        };
        self.find(name).map(Some).ok_or_else(missing)
    }

    /// The contestants, or all agents if there are none.
    fn contenders(self) -> Vec<usize> {
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
/// ones that they have.
pub fn pair_up<'a>(
    baseline: Chosen<'a>,
    candidate: Chosen<'a>,
) -> Result<Vec<(Side<'a>, Side<'a>)>, PairingError> {
    let (one, other) = (baseline.named()?, candidate.named()?);
    let ones = one.map_or_else(|| baseline.contenders(), |it| vec![it]);
    let others = other.map_or_else(|| candidate.contenders(), |it| vec![it]);
    let sides = |one, other| (baseline.side(one), candidate.side(other));
    if let ([one], [other]) = (ones.as_slice(), others.as_slice()) {
        return Ok(vec![sides(*one, *other)]);
    }
    let shared = |one: &usize| {
        let name = &baseline.trials.agents[*one].name;
        let other = candidate.find(name).filter(|it| others.contains(it))?;
        Some(sides(*one, other))
    };
    let pairs: Vec<(Side, Side)> = ones.iter().filter_map(shared).collect();
    if pairs.is_empty() {
        return Err(PairingError::NoSharedAgent {
            baseline: baseline.label.to_owned(),
            candidate: candidate.label.to_owned(),
        });
    }
    Ok(pairs)
}
