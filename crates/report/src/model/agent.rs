//! One agent in figures: each with its n and its interval, and with the excluded trials both ways.

use std::{collections::BTreeMap, num::NonZeroU64};

use proctor_record::{record::TrialStatus, usage::Usd};
use serde::Serialize;

use crate::stats::{
    AllOf, BothWays, Interval, Median, PassRate, Passes, Place, Scores, Unit, bootstrap_mean, mean,
    median, pass_at_k, pass_pow_k, pass_rate,
};
use crate::{
    model::{report::Basis, task::TaskReport},
    trials::{AgentRow, Trial, Trials},
};

/// An agent in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It takes part.
    Contender,
    /// It does nothing: what it scores is every task's floor.
    Floor,
    /// It is the reference solution: what it scores is every task's ceiling.
    Ceiling,
}

impl Role {
    /// The null agent and the oracle are not contestants, whether they are built in or an adapter
    /// script of that name.
    pub(crate) fn of(agent: &AgentRow) -> Role {
        let is = |word: &str| agent.name == word || agent.kinds.iter().all(|kind| kind == word);
        if is("null") {
            Role::Floor
        } else if is("oracle") {
            Role::Ceiling
        } else {
            Role::Contender
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Contender => "contender",
            Role::Floor => "floor",
            Role::Ceiling => "ceiling",
        }
    }
}

/// A mean over tasks, every task counting the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// Where it may lie; null for a single unit, and where nothing varied.
    pub interval: Option<Interval>,
    /// Of how many trials.
    pub trials: usize,
    /// Of how many tasks.
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
    /// Its name again, for reading.
    #[serde(skip)]
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The places that it may have; null for floor and ceiling and with less than two tasks.
    pub place: Option<Place>,
    /// All its trials.
    pub trials: usize,
    /// Those with a score.
    pub judged: usize,
    /// The others, by why.
    pub excluded: BTreeMap<&'static str, usize>,
    /// Its score, without the excluded trials.
    pub score: Option<Figure>,
    /// Its score with the excluded trials as 0; null when there are none.
    pub score_excluded_as_zero: Option<Figure>,
    /// Its score where the floor is 0 and the ceiling 1, on the tasks that have both.
    pub normalised_score: Option<Figure>,
    /// The share of its trials that passed.
    pub pass_rate: Option<PassRate>,
    /// How likely one of k tries passes; null unless every task has k.
    pub pass_at_k: Option<AllOf>,
    /// How likely all of k tries pass.
    pub pass_pow_k: Option<AllOf>,
    /// The cost of a judged trial, in dollars.
    pub cost_usd: Option<Median>,
    /// The total cost of its trials; null if it is unknown for one.
    pub total_cost_usd: Option<Usd>,
    /// How long it works on a judged trial, in milliseconds.
    pub duration_ms: Option<Median>,
    /// The tokens of a judged trial, cached ones included.
    pub tokens: Option<Median>,
}

/// The trials of one agent, grouped.
pub(crate) struct Row<'a> {
    pub(crate) agent: &'a AgentRow,
    pub(crate) role: Role,
    pub(crate) trials: &'a [Trial],
    pub(crate) scores: BothWays,
    pub(crate) passes: Passes,
    names: &'a Trials,
}

impl<'a> Row<'a> {
    /// All agents, by name.
    pub(crate) fn all(trials: &'a Trials) -> Vec<Row<'a>> {
        let agents = trials
            .trials
            .chunk_by(|one, other| one.agent == other.agent);
        agents.map(|own| Row::new(trials, own)).collect()
    }

    /// One agent, by its number; `None` when it has no trial.
    pub(crate) fn of(trials: &'a Trials, agent: usize) -> Option<Row<'a>> {
        let begin = trials.trials.partition_point(|it| it.agent < agent);
        let end = trials.trials.partition_point(|it| it.agent <= agent);
        (begin < end).then(|| Row::new(trials, &trials.trials[begin..end]))
    }

    fn new(names: &'a Trials, trials: &'a [Trial]) -> Row<'a> {
        let agent = &names.agents[trials[0].agent];
        let task = |trial: &Trial| names.tasks[trial.task].name.clone();
        let scores = BothWays::collect(trials.iter().map(|trial| (task(trial), trial.score)));
        let judged = trials.iter().filter(|trial| trial.score.is_some());
        let passed = |trial: &Trial| trial.status == TrialStatus::Passed;
        Row {
            role: Role::of(agent),
            agent,
            trials,
            scores: scores.expect("rows keep finite scores only"),
            passes: Passes::collect(judged.map(|trial| (task(trial), passed(trial)))),
            names,
        }
    }

    /// A figure of the judged trials that have it, by task.
    pub(crate) fn values(&self, value: impl Fn(&Trial) -> Option<f64>) -> Scores {
        let judged = self.trials.iter().filter(|trial| trial.score.is_some());
        let values = judged.filter_map(|trial| {
            let task = self.names.tasks[trial.task].name.as_str();
            Some((task, value(trial)?))
        });
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
        pass_rate: pass_rate(&row.passes, level),
        pass_at_k: k.and_then(|k| pass_at_k(&row.passes, k, level)),
        pass_pow_k: k.and_then(|k| pass_pow_k(&row.passes, k, level)),
        cost_usd: median(cost),
        total_cost_usd: row.trials.iter().map(|trial| trial.cost_usd).sum(),
        duration_ms: median(duration),
        tokens: median(tokens),
    }
}

fn normalised(row: &Row, tasks: &[TaskReport]) -> Scores {
    let values = row.trials.iter().filter_map(|trial| {
        let task = &tasks[trial.task];
        let calibration = task.calibration?;
        Some((task.name.as_str(), calibration.normalise(trial.score?)))
    });
    Scores::collect(values).expect("a calibration is finite")
}
