//! The report of trials as figures, which every format shows. It depends on rows only, so that the
//! same records give the same report, byte for byte.

use std::{collections::BTreeMap, num::NonZeroU64};

use proctor_record::{
    parallel_map::parallel_map,
    record::{NotPassed, ReasonGroup, TrialStatus, delivery::DeliverySummary},
};
use serde::Serialize;

use crate::stats::{
    Contender, Level, Paired, Point, Power, Ranking, Resampling, Scores, Seed, Variation,
    pareto_front, rank, variations,
};
use crate::{
    model::{
        agent::{AgentReport, Role, Row, agent_report},
        notes,
        task::{Cell, TaskReport, cells, task_reports},
        treatments,
    },
    trials::{RunRow, Trial, Trials},
};

/// The version of the report's JSON.
pub const REPORT_VERSION: &str = "1.0.0";

/// The settings of a report in addition to the records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Basis {
    /// The confidence level of intervals and tests.
    pub level: Level,
    /// The seed of random draws.
    pub seed: Seed,
    /// The number of random draws.
    pub draws: usize,
}

impl Default for Basis {
    fn default() -> Basis {
        Basis {
            level: Level::P95,
            seed: Seed(1),
            draws: 10_000,
        }
    }
}

impl Basis {
    pub(crate) fn resampling(self) -> Resampling {
        Resampling::seeded(self.seed).times(self.draws)
    }
}

/// The report of one or more runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of this format.
    pub version: &'static str,
    /// The settings of the computation.
    pub basis: Basis,
    /// The runs.
    pub runs: Vec<RunRow>,
    /// The numbers of trials.
    pub totals: Totals,
    /// The agents: contestants, best first, then floor and ceiling.
    pub agents: Vec<AgentReport>,
    /// Groups of neighbours that cannot be told apart.
    pub groups: Vec<Vec<String>>,
    /// The contestants on the Pareto front of cost and score, the cheapest first.
    pub pareto_front: Vec<String>,
    /// Neighbours that cannot be told apart, with the required sample size.
    pub unsettled: Vec<Unsettled>,
    /// The tasks, by name.
    pub tasks: Vec<TaskReport>,
    /// Each agent on each task that it tried.
    pub cells: Vec<Cell>,
    /// The variation of each component of the contestants' scores.
    pub components: Vec<Variation>,
    /// Why trials did not pass, grouped by agent and reason.
    pub failures: Vec<ReasonGroup>,
    /// Whether the parts of agents' treatments reached the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delivery: Vec<DeliverySummary>,
    /// Notes for reading the figures.
    pub notes: Vec<String>,
}

/// The numbers of trials by result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Trials with a record.
    pub trials: usize,
    /// Passed trials.
    pub passed: usize,
    /// Failed trials.
    pub failed: usize,
    /// Excluded trials.
    pub errors: usize,
    /// Interrupted trials.
    pub interrupted: usize,
    /// Planned trials without a record.
    pub not_run: usize,
    /// Trials with an unreadable record.
    pub unreadable: usize,
    /// Those with a record and without a score, by reason.
    pub excluded: BTreeMap<&'static str, usize>,
}

/// Two neighbours of a ranking that cannot be told apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsettled {
    /// The one with the higher mean.
    pub better: String,
    /// Its neighbour.
    pub worse: String,
    /// The difference on shared tasks.
    pub difference: f64,
    /// The number of shared tasks.
    pub tasks: usize,
    /// The sample size needed to separate them.
    pub power: Power,
}

impl Report {
    /// The report of these trials.
    pub fn new(trials: &Trials, basis: Basis) -> Report {
        let keys: Vec<String> = trials.tasks.iter().map(|it| it.name.clone()).collect();
        let rows = Row::all(trials, &keys);
        let tasks = task_reports(trials, &rows);
        let k = tries(&rows);
        let mut agents = parallel_map(&rows, |row| agent_report(row, &tasks, k, basis));
        let ranking = ranking(&rows, basis);
        place(&mut agents, &ranking);
        let mut report = Report {
            version: REPORT_VERSION,
            basis,
            runs: trials.runs.clone(),
            totals: Totals::of(trials),
            pareto_front: front(&agents),
            unsettled: unsettled(&rows, &ranking, basis),
            groups: ranking.groups,
            cells: cells(trials, &rows),
            components: components(&rows),
            failures: failures(trials),
            agents,
            tasks,
            delivery: treatments::delivery(trials),
            notes: Vec::new(),
        };
        report.notes = notes::notes(trials, &report);
        report
    }

    /// The contestants, best first.
    pub fn contenders(&self) -> impl Iterator<Item = &AgentReport> {
        let agents = self.agents.iter();
        agents.filter(|agent| agent.role == Role::Contender)
    }
}

impl Totals {
    fn of(trials: &Trials) -> Totals {
        let mut totals = Totals {
            trials: trials.trials.len(),
            not_run: trials.runs.iter().map(|run| run.not_run).sum(),
            unreadable: trials.runs.iter().map(|run| run.unreadable.len()).sum(),
            ..Totals::default()
        };
        for trial in &trials.trials {
            if trial.score.is_none() {
                *totals.excluded.entry(trial.exclusion()).or_default() += 1;
            }
            match trial.status {
                TrialStatus::Passed => totals.passed += 1,
                TrialStatus::Failed => totals.failed += 1,
                TrialStatus::Error => totals.errors += 1,
                TrialStatus::Interrupted => totals.interrupted += 1,
            }
        }
        totals
    }
}

/// The k of `pass@k`: the number of trials that every contestant has on every task, if it is at
/// least two.
fn tries(rows: &[Row]) -> Option<NonZeroU64> {
    let fewest = |row: &Row| row.passes.iter().map(|(_, it)| it.trials()).min();
    let contenders = rows.iter().filter(|row| row.role == Role::Contender);
    let k = contenders.filter_map(fewest).min()?;
    NonZeroU64::new(k).filter(|k| k.get() >= 2)
}

fn ranking(rows: &[Row], basis: Basis) -> Ranking {
    let contenders: Vec<Contender> = rows
        .iter()
        .filter(|row| row.role == Role::Contender)
        .map(|row| Contender {
            name: &row.agent.name,
            scores: &row.scores.without,
        })
        .collect();
    rank(&contenders, basis.level, basis.resampling())
}

/// Sorts agents: contestants by rank, floor, ceiling.
fn place(agents: &mut [AgentReport], ranking: &Ranking) {
    let places: BTreeMap<&str, usize> = ranking
        .agents
        .iter()
        .enumerate()
        .map(|(place, ranked)| (ranked.name.as_str(), place))
        .collect();
    for agent in agents.iter_mut() {
        let ranked = places.get(agent.name.as_str());
        agent.place = ranked.and_then(|place| ranking.agents[*place].place);
    }
    agents.sort_by_key(|agent| {
        let place = places.get(agent.name.as_str()).copied();
        (agent.role, place.unwrap_or(usize::MAX), agent.name.clone())
    });
}

fn front(agents: &[AgentReport]) -> Vec<String> {
    let contenders: Vec<&AgentReport> = agents
        .iter()
        .filter(|agent| agent.role == Role::Contender)
        .collect();
    let points: Vec<Point> = contenders
        .iter()
        .map(|agent| Point {
            cost: agent.cost_usd.map_or(f64::NAN, |cost| cost.median),
            score: agent.score.map_or(f64::NAN, |score| score.mean),
        })
        .collect();
    let front = pareto_front(&points).into_iter();
    front.map(|index| contenders[index].name.clone()).collect()
}

/// Neighbours of the ranking that share a group.
fn unsettled(rows: &[Row], ranking: &Ranking, basis: Basis) -> Vec<Unsettled> {
    let scores = |name: &str| -> Option<&Scores> {
        let row = rows.iter().find(|row| row.agent.name == name)?;
        Some(&row.scores.without)
    };
    let pairs = ranking.agents.windows(2).filter_map(|pair| {
        let (better, worse) = (pair[0].name.as_str(), pair[1].name.as_str());
        let together = |group: &Vec<String>| {
            group.iter().any(|name| name == better) && group.iter().any(|name| name == worse)
        };
        ranking.groups.iter().any(together).then_some(())?;
        let (one, other) = (scores(better)?, scores(worse)?);
        let paired = Paired::new(other, one);
        Some(Unsettled {
            better: better.to_owned(),
            worse: worse.to_owned(),
            difference: paired.difference()?,
            tasks: paired.tasks(),
            power: paired.power(basis.level)?,
        })
    });
    pairs.collect()
}

fn components(rows: &[Row]) -> Vec<Variation> {
    let contenders = rows.iter().filter(|row| row.role == Role::Contender);
    let trials = contenders.flat_map(|row| row.trials);
    let components = trials.flat_map(|trial: &Trial| &trial.components);
    variations(components.map(|it| (it.name.as_str(), it.value)))
}

/// Why trials did not pass.
fn failures(trials: &Trials) -> Vec<ReasonGroup> {
    let rows = trials.trials.iter();
    let failed = rows.filter(|trial| trial.status != TrialStatus::Passed);
    ReasonGroup::all(failed.map(|trial| NotPassed {
        agent: &trials.agents[trial.agent].name,
        task: &trials.tasks[trial.task].name,
        status: trial.status,
        outcome: trial.outcome,
        reason: &trial.message,
    }))
}
