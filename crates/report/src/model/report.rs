//! The report of trials as figures: what every format shows. Made from rows alone, so the same
//! records give the same report, to the last byte.

use std::{collections::BTreeMap, num::NonZeroU64};

use proctor_record::{parallel_map::parallel_map, record::TrialStatus};
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
    },
    trials::{RunRow, Trial, Trials},
};

/// The version of the report's JSON.
pub const REPORT_VERSION: &str = "1.0.0";

/// How a report is made: what it depends on besides the records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Basis {
    /// How sure intervals are, and claims have to be.
    pub level: Level,
    /// Where random draws start.
    pub seed: Seed,
    /// How often something is drawn.
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
    /// How many trials there are, and what became of them.
    pub totals: Totals,
    /// The agents: contenders, the best first, then floor and ceiling.
    pub agents: Vec<AgentReport>,
    /// Neighbours of which no two can be told apart.
    pub groups: Vec<Vec<String>>,
    /// The contenders that no other beats on cost and score at once, the cheapest first.
    pub pareto_front: Vec<String>,
    /// Neighbours that cannot be told apart, and what would settle it.
    pub unsettled: Vec<Unsettled>,
    /// The tasks, by name.
    pub tasks: Vec<TaskReport>,
    /// Each agent on each task that it tried.
    pub cells: Vec<Cell>,
    /// How much each component of the contenders' scores varies.
    pub components: Vec<Variation>,
    /// Notes for reading the figures.
    pub notes: Vec<String>,
}

/// How many trials there are, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// All with a record.
    pub trials: usize,
    /// Those that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those of which nothing can be said.
    pub errors: usize,
    /// Those that were cut off.
    pub interrupted: usize,
    /// Those that were planned and have no record.
    pub not_run: usize,
    /// Those whose record cannot be read.
    pub unreadable: usize,
}

/// Two neighbours of a ranking that cannot be told apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsettled {
    /// The one with the higher mean.
    pub better: String,
    /// Its neighbour.
    pub worse: String,
    /// By how much, on the tasks that both tried.
    pub difference: f64,
    /// How many tasks both tried.
    pub tasks: usize,
    /// The sample size needed to separate them.
    pub power: Power,
}

impl Report {
    /// The report of these trials.
    pub fn new(trials: &Trials, basis: Basis) -> Report {
        let rows = Row::all(trials);
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
            agents,
            tasks,
            notes: Vec::new(),
        };
        report.notes = notes::notes(trials, &report);
        report
    }

    /// The contenders, the best first.
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

/// How many tries `pass@k` asks for: as many as every contender has on every task, if there are two.
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

/// Put agents into the order of the ranking: contenders, floor, ceiling.
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
