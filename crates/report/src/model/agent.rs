//! The figures of one agent, each with n and confidence interval, with excluded trials handled both
//! ways.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
};

use proctor_record::{record::TrialStatus, usage::Usd};
use serde::Serialize;

use crate::stats::{
    AllOf, BothWays, Interval, Median, PassRate, Passes, RankRange, Scores, Unit, bootstrap_mean,
    mean, median, pass_at_k, pass_pow_k, pass_rate,
};
use crate::{
    definitions::Defined,
    model::{report::Basis, task::TaskReport},
    trials::{AgentRow, Trial, Trials},
};

/// The role of an agent in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is a contestant.
    Contender,
    /// The null agent: its score is the floor of every task.
    Floor,
    /// The reference solution: its score is the ceiling of every task.
    Ceiling,
}

impl Role {
    /// The role. The null agent and the oracle are not contestants, whether they are built in or an
    /// adapter script with that name.
    pub(crate) fn of(agent: &AgentRow) -> Role {
        let kind = |word: &str| agent.kinds.iter().all(|kind| kind == word);
        Role::of_words(|word| agent.own_name() == word || kind(word))
    }

    /// The role of an agent with this name and type.
    pub fn named(name: &str, kind: &str) -> Role {
        Role::of_words(|word| name == word || kind == word)
    }

    fn of_words(is: impl Fn(&str) -> bool) -> Role {
        if is("null") {
            Role::Floor
        } else if is("oracle") {
            Role::Ceiling
        } else {
            Role::Contender
        }
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Contender => "contender",
            Role::Floor => "floor",
            Role::Ceiling => "ceiling",
        }
    }
}

/// A mean over tasks, with equal weight for all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The confidence interval; null for a single unit, and if nothing varied.
    pub interval: Option<Interval>,
    /// The number of trials.
    pub trials: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The independent unit of the sample.
    pub unit: Unit,
}

impl Figure {
    pub(crate) fn of(scores: &Scores, basis: Basis) -> Option<Figure> {
        let each = if scores.tasks() == 1 {
            scores.clone()
        } else {
            scores.by_task()
        };
        let mean = mean(&each, basis.level)?;
        Some(Figure {
            mean: mean.mean,
            interval: bootstrap_mean(&each, basis.level, basis.resampling()),
            trials: scores.trials(),
            tasks: scores.tasks(),
            unit: mean.unit,
        })
    }
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentReport {
    /// Its name, kinds, versions and models.
    #[serde(flatten)]
    pub row: AgentRow,
    /// The name, repeated for serialization.
    #[serde(skip)]
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The range of ranks; null for floor and ceiling and with fewer than two tasks.
    pub place: Option<RankRange>,
    /// All its trials.
    pub trials: usize,
    /// Trials with a score.
    pub judged: usize,
    /// Trials without a score, by reason.
    pub excluded: BTreeMap<&'static str, usize>,
    /// The score, without excluded trials.
    pub score: Option<Figure>,
    /// The score with excluded trials as 0; null if there are none.
    pub score_excluded_as_zero: Option<Figure>,
    /// The score where the floor is 0 and the ceiling is 1, on tasks that have both.
    pub normalised_score: Option<Figure>,
    /// The mean of each reward on the Harbor tasks that have several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rewards: BTreeMap<String, Figure>,
    /// The fraction of passed trials.
    pub pass_rate: Option<PassRate>,
    /// The probability that at least one of k attempts passes; null unless every task has k trials.
    pub pass_at_k: Option<AllOf>,
    /// The probability that all of k attempts pass.
    pub pass_pow_k: Option<AllOf>,
    /// The cost of a judged trial, in dollars.
    pub cost_usd: Option<Median>,
    /// The total cost of its trials; null if it is unknown for one.
    pub total_cost_usd: Option<Usd>,
    /// The duration of a judged trial, in milliseconds.
    pub duration_ms: Option<Median>,
    /// The tokens of a judged trial: input plus output, without cached input.
    pub tokens: Option<Median>,
    /// The cached input of a judged trial.
    pub cached_tokens: Option<Median>,
}

/// The trials of one agent, grouped.
pub(crate) struct Row<'a> {
    pub(crate) agent: &'a AgentRow,
    pub(crate) role: Role,
    pub(crate) trials: &'a [Trial],
    pub(crate) scores: BothWays,
    pub(crate) passes: Passes,
    pub(crate) keys: &'a [String],
}

impl<'a> Row<'a> {
    /// All agents, by name. `keys` tell the tasks apart.
    pub(crate) fn all(trials: &'a Trials, keys: &'a [String]) -> Vec<Row<'a>> {
        let agents = trials
            .trials
            .chunk_by(|one, other| one.agent == other.agent);
        agents.map(|own| Row::new(trials, own, keys)).collect()
    }

    /// One agent, by its number; `None` when it has no trial. `keys` tell the tasks apart.
    pub(crate) fn of(trials: &'a Trials, agent: usize, keys: &'a [String]) -> Option<Row<'a>> {
        let begin = trials.trials.partition_point(|it| it.agent < agent);
        let end = trials.trials.partition_point(|it| it.agent <= agent);
        (begin < end).then(|| Row::new(trials, &trials.trials[begin..end], keys))
    }

    fn new(names: &'a Trials, trials: &'a [Trial], keys: &'a [String]) -> Row<'a> {
        let agent = &names.agents[trials[0].agent];
        let task = |trial: &Trial| keys[trial.task].clone();
        let scores = BothWays::collect(trials.iter().map(|trial| (task(trial), trial.score)));
        let judged = trials.iter().filter(|trial| trial.score.is_some());
        let passed = |trial: &Trial| trial.status == TrialStatus::Passed;
        Row {
            role: Role::of(agent),
            agent,
            trials,
            scores: scores.expect("rows have finite scores only"),
            passes: Passes::collect(judged.map(|trial| (task(trial), passed(trial)))),
            keys,
        }
    }

    /// A figure of the judged trials that have it, by task.
    pub(crate) fn values(&self, value: impl Fn(&Trial) -> Option<f64>) -> Scores {
        let judged = self.trials.iter().filter(|trial| trial.score.is_some());
        let values =
            judged.filter_map(|trial| Some((self.keys[trial.task].as_str(), value(trial)?)));
        Scores::collect(values).expect("costs, times and counts are finite")
    }
}

pub(crate) fn cost(trial: &Trial) -> Option<f64> {
    trial.cost_usd.map(Usd::dollars)
}

pub(crate) fn duration(trial: &Trial) -> Option<f64> {
    trial.duration_ms.map(|ms| ms as f64)
}

pub(crate) fn tokens(trial: &Trial) -> Option<f64> {
    trial.tokens.map(|tokens| tokens as f64)
}

fn cached_tokens(trial: &Trial) -> Option<f64> {
    trial.cached_tokens.map(|tokens| tokens as f64)
}

pub(crate) fn agent_report(
    row: &Row,
    tasks: &[TaskReport],
    k: Option<NonZeroU64>,
    basis: Basis,
) -> AgentReport {
    let level = basis.level;
    let median = |value: fn(&Trial) -> Option<f64>| median(&row.values(value), level);
    let is_contender = row.role == Role::Contender;
    let k = k.filter(|_| is_contender);
    let mut excluded = BTreeMap::new();
    for trial in row.trials.iter().filter(|trial| trial.score.is_none()) {
        *excluded.entry(trial.exclusion()).or_default() += 1;
    }
    let has_excluded = row.scores.excluded > 0;
    AgentReport {
        row: row.agent.clone(),
        name: row.agent.name.clone(),
        role: row.role,
        place: None,
        trials: row.trials.len(),
        judged: row.trials.len() - row.scores.excluded,
        excluded,
        score: Figure::of(&row.scores.without, basis),
        score_excluded_as_zero: has_excluded
            .then(|| Figure::of(&row.scores.as_zero, basis))
            .flatten(),
        normalised_score: is_contender
            .then(|| Figure::of(&normalised(row, tasks), basis))
            .flatten(),
        rewards: rewards(row, basis),
        pass_rate: pass_rate(&row.passes, level),
        pass_at_k: k.and_then(|k| pass_at_k(&row.passes, k, level)),
        pass_pow_k: k.and_then(|k| pass_pow_k(&row.passes, k, level)),
        cost_usd: median(cost),
        total_cost_usd: row.trials.iter().map(|trial| trial.cost_usd).sum(),
        duration_ms: median(duration),
        tokens: median(tokens),
        cached_tokens: median(cached_tokens),
    }
}

/// The figure of each reward key. A judged trial without a reward that others of its task have counts as 0, as in
/// Harbor.
fn rewards(row: &Row, basis: Basis) -> BTreeMap<String, Figure> {
    let all = row.trials.iter();
    let known: BTreeSet<(&String, usize)> = all
        .flat_map(|trial| trial.rewards.keys().map(|name| (name, trial.task)))
        .collect();
    let names: BTreeSet<&String> = known.iter().map(|(name, _)| *name).collect();
    let figure = |name: &String| {
        let value = |trial: &Trial| {
            let missing = known.contains(&(name, trial.task)).then_some(0.0);
            trial.rewards.get(name).copied().or(missing)
        };
        Some((name.clone(), Figure::of(&row.values(value), basis)?))
    };
    names.into_iter().filter_map(figure).collect()
}

fn normalised(row: &Row, tasks: &[TaskReport]) -> Scores {
    let values = row.trials.iter().filter_map(|trial| {
        let task = &tasks[trial.task];
        let calibration = task.calibration?;
        Some((task.name.as_str(), calibration.normalise(trial.score?)))
    });
    Scores::collect(values).expect("a calibration is finite")
}
