//! From rows to the result of an experiment.

use std::collections::BTreeSet;

use proctor_record::record::TrialStatus;

use super::{
    result::{
        EXPERIMENT_VERSION, ExperimentResult, ExperimentStage, FlippedTasks, MetricResult,
        SolvedCost,
    },
    text,
};
use crate::{
    compare::{Metric, Side, notes, row},
    definitions::{Defined, shared_keys},
    model::{
        agent::{Row, cost},
        report::Basis,
        treatments::delivery,
    },
    stats::{
        AnalysisLevels, ArmResults, CostPerSolved, Decided, Decision, Level, Look, Margins,
        NotFinite, PairSample, Paired, PricedAgent, Progress, Resampling, Schedule, Scope, Scores,
        Seed, Significance, Step, TaskCost, cost_per_solved, decide, recommend, to_decide,
        variance_shares,
    },
    trials::{AgentRow, Trial, Trials},
};

/// The order of metrics: differences of costs and tokens are decided by fewer trials.
const IN_ORDER: [Metric; 5] = [
    Metric::Cost,
    Metric::Tokens,
    Metric::Time,
    Metric::Score,
    Metric::Passed,
];

/// An experiment to analyse.
#[derive(Clone, Copy, Debug)]
pub struct ExperimentRequest<'a> {
    /// The trials of its run.
    pub trials: &'a Trials,
    /// The name of the baseline.
    pub baseline: &'a str,
    /// The name of the candidate.
    pub candidate: &'a str,
    /// The schedule of the plan; `None` for a single analysis of all trials.
    pub schedule: Option<&'a Schedule>,
    /// The margins of an experiment without a schedule.
    pub margins: Margins,
    /// The level of an experiment without a schedule, and the random draws.
    pub basis: Basis,
}

/// The reason why an experiment cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The agent does not exist.
    #[error("the run has no trial of agent {agent}")]
    NoAgent {
        /// The name.
        agent: String,
        /// The known names.
        known: Vec<String>,
    },
    /// Trials of different definitions are never pooled.
    #[error("{name} has trials of several definitions: {}", labels.join(", "))]
    SeveralDefinitions {
        /// The agent or task.
        name: String,
        /// The names of the definitions.
        labels: Vec<String>,
    },
    /// A score is not a number.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
}

/// The state of a scheduled experiment: whether it stops, and otherwise which trials are next. An
/// agent can be without trials.
pub fn progress(
    request: ExperimentRequest,
    schedule: &Schedule,
) -> Result<Progress, ExperimentError> {
    let find = |name: &str| find(request.trials, name);
    let agents = [find(request.baseline)?, find(request.candidate)?];
    let known: Vec<usize> = agents.into_iter().flatten().collect();
    check_tasks(request.trials, &known)?;
    let [one, other] = agents.map(|agent| {
        let mut results = ArmResults::new();
        let own = request.trials.trials.iter();
        // A resumed run runs interrupted trials again.
        let is_ended = |it: &&Trial| it.status != TrialStatus::Interrupted;
        for trial in own.filter(|it| Some(it.agent) == agent).filter(is_ended) {
            let task = request.trials.tasks[trial.task].own_name().to_owned();
            let trials = results.entry(task).or_default();
            trials.insert(trial.trial, trial.score);
        }
        results
    });
    Ok(schedule.progress(&one, &other, request.basis.draws)?)
}

/// Analyses an experiment. With a schedule, the result is that of its last analysis, at the level
/// of that analysis and with the trials of that analysis only.
pub fn analyse(request: ExperimentRequest) -> Result<ExperimentResult, ExperimentError> {
    let agents = agents(request)?;
    let progress = match request.schedule {
        Some(schedule) => Some((schedule, progress(request, schedule)?)),
        None => None,
    };
    let used = used_trials(request.trials, agents, progress.as_ref().map(|it| &it.1));
    let sides = agents.map(|agent| Side {
        label: "experiment",
        trials: &used,
        agent,
    });
    let (keys, _) = shared_keys(&used.tasks, &used.tasks);
    let rows = sides.map(|side| row(side, &keys));
    let plan = AnalysisPlan::new(request, progress.as_ref());
    let mut result = ExperimentResult {
        version: EXPERIMENT_VERSION,
        baseline: used.agents[agents[0]].name.clone(),
        candidate: used.agents[agents[1]].name.clone(),
        sentence: String::new(),
        decision: None,
        margins: plan.margins,
        metrics: Vec::new(),
        unknown: Vec::new(),
        stage: plan.stage.map(|stage| ExperimentStage {
            unused_trials: of_agents(request.trials, agents) - of_agents(&used, agents),
            ..stage
        }),
        flipped: FlippedTasks::default(),
        variance: None,
        to_decide: None,
        cost_per_solved: SolvedCost::default(),
        delivery: delivery(&used),
        registration: None,
        excluded: rows.iter().flatten().map(|it| it.scores.excluded).sum(),
        notes: notes(sides[0], sides[1]),
    };
    let [Some(one), Some(other)] = &rows else {
        result.unknown = Metric::ALL.to_vec();
        text::finish(&mut result);
        return Ok(result);
    };
    plan.fill(&mut result, one, other);
    result.flipped = flipped(one, other, &used);
    if result.not_delivered().next().is_some() {
        result.decision = Some(Decision::Undecided);
        result.to_decide = None;
        result.cost_per_solved.recommended = None;
    }
    text::finish(&mut result);
    Ok(result)
}

/// How an experiment is analysed.
struct AnalysisPlan {
    levels: Option<AnalysisLevels>,
    /// The level of the final analysis, for planning.
    last_level: Level,
    margins: Margins,
    scope: Option<Scope>,
    resampling: Resampling,
    stage: Option<ExperimentStage>,
    /// The result for the score, of a scheduled analysis.
    decided: Option<Decided>,
}

impl AnalysisPlan {
    fn new(request: ExperimentRequest, progress: Option<&(&Schedule, Progress)>) -> AnalysisPlan {
        let basis = request.basis;
        let Some((schedule, progress)) = progress else {
            return AnalysisPlan {
                levels: Some(AnalysisLevels::fixed(basis.level)),
                last_level: basis.level,
                margins: request.margins,
                scope: None,
                resampling: basis.resampling(),
                stage: None,
                decided: None,
            };
        };
        // Before the first analysis, its level applies and nothing is decided.
        let look = schedule.looks.get(progress.look.unwrap_or(0));
        let last = schedule.looks.last().and_then(Look::levels);
        AnalysisPlan {
            levels: look.and_then(Look::levels),
            last_level: last.map_or(basis.level, |it| it.difference),
            margins: schedule.margins,
            scope: Some(schedule.scope),
            resampling: Resampling::seeded(Seed(schedule.seed)).times(basis.draws),
            stage: Some(ExperimentStage {
                analysis: progress.look.map_or(0, |it| it + 1),
                of: schedule.looks.len(),
                level: look.map_or(0.0, |it| it.level),
                step: progress.step,
                can_decide: schedule.can_decide(),
                unused_trials: 0,
            }),
            decided: progress.decided,
        }
    }

    fn fill(&self, result: &mut ExperimentResult, one: &Row, other: &Row) {
        for metric in IN_ORDER {
            match self.metric(metric, one, other) {
                Some(found) => result.metrics.push(found),
                None => result.unknown.push(metric),
            }
        }
        let score = result.metric(Metric::Score);
        result.decision = score.map(|it| it.decision);
        let Some(levels) = self.levels else {
            return;
        };
        let arms = [&one.scores.without, &other.scores.without];
        let sample = self.sample(arms, levels.difference, true);
        result.variance = variance_shares(&sample);
        if result.decision == Some(Decision::Undecided) {
            result.to_decide = to_decide(&sample, self.last_level, self.margins);
        }
        result.cost_per_solved = self.solved_cost(result, one, other);
    }

    /// The sample in the scope of the schedule, or of its size.
    fn sample<'a>(&self, arms: [&'a Scores; 2], level: Level, is_share: bool) -> PairSample<'a> {
        let sample = PairSample::of_experiment(arms[0], arms[1], level, self.resampling);
        PairSample {
            scope: self.scope.unwrap_or(sample.scope),
            is_share,
            ..sample
        }
    }

    fn metric(&self, metric: Metric, one: &Row, other: &Row) -> Option<MetricResult> {
        let levels = self.levels?;
        let values = |row: &Row| row.values(|trial| metric.of(trial));
        let (baseline, candidate) = (values(one), values(other));
        let paired = Paired::new(&baseline, &candidate);
        let (mean, candidate_mean) = paired.means()?;
        let unit = if metric.is_gain() { 1.0 } else { mean.abs() };
        let arms = [&baseline, &candidate];
        let sample = self.sample(arms, levels.difference, metric.is_gain());
        let planned = self.decided.filter(|_| metric == Metric::Score);
        let found = || decide(&sample, levels, self.margins.times(unit), metric.is_gain());
        let decided = planned.or_else(found)?;
        // Nothing is decided before the first analysis.
        let is_early = self.stage.is_some_and(|it| it.analysis == 0);
        Some(MetricResult {
            metric,
            decision: if is_early {
                Decision::Undecided
            } else {
                decided.decision
            },
            sentence: String::new(),
            baseline: mean,
            candidate: candidate_mean,
            difference: decided.test.difference,
            interval: decided.test.interval,
            confidence: levels.difference.confidence(),
            p_value: decided.test.p_value,
            scope: decided.test.scope,
            tasks: paired.tasks(),
            baseline_trials: baseline.trials(),
            candidate_trials: candidate.trials(),
        })
    }

    fn solved_cost(&self, result: &ExperimentResult, one: &Row, other: &Row) -> SolvedCost {
        let [baseline, candidate] = [one, other].map(|row| self.cost_of(row));
        let is_behind = |decision: Decision| match result.decision {
            Some(found) if found == decision => Significance::Lower,
            _ => Significance::NotApart,
        };
        let priced = [
            (&result.baseline, Decision::Better, baseline),
            (&result.candidate, Decision::Worse, candidate),
        ];
        let priced = priced.map(|(name, behind, cost)| PricedAgent {
            name,
            against_best: is_behind(behind),
            cost_per_solved: cost.map(|it| it.mean),
        });
        let recommended = result.decision.and_then(|_| recommend(&priced));
        SolvedCost {
            baseline,
            candidate,
            recommended: recommended.map(str::to_owned),
        }
    }

    fn cost_of(&self, row: &Row) -> Option<CostPerSolved> {
        let judged = row.trials.iter().filter(|it| it.score.is_some());
        let is_known = judged.clone().all(|it| it.cost_usd.is_some());
        let tasks = row.passes.iter().map(|(task, tally)| {
            let own = judged.clone().filter(|it| row.keys[it.task] == task);
            TaskCost {
                cost: own.filter_map(cost).sum(),
                solved: tally.passed() as f64,
            }
        });
        let tasks: Vec<TaskCost> = tasks.collect();
        let level = self.levels?.difference;
        is_known
            .then(|| cost_per_solved(&tasks, level, self.resampling))
            .flatten()
    }
}

/// The indices of both agents.
fn agents(request: ExperimentRequest) -> Result<[usize; 2], ExperimentError> {
    let find = |name: &str| agent_named(request.trials, name);
    Ok([find(request.baseline)?, find(request.candidate)?])
}

/// The index of an agent. A name with trials of several definitions is refused.
pub(super) fn agent_named(trials: &Trials, name: &str) -> Result<usize, ExperimentError> {
    find(trials, name)?.ok_or_else(|| ExperimentError::NoAgent {
        agent: name.to_owned(),
        known: trials.agents.iter().map(|it| it.name.clone()).collect(),
    })
}

/// The index of an agent; `None` without trials.
fn find(trials: &Trials, name: &str) -> Result<Option<usize>, ExperimentError> {
    let agents = &trials.agents;
    let of = |is_meant: &dyn Fn(&AgentRow) -> bool| -> Vec<usize> {
        let all = agents.iter().enumerate();
        let meant = all.filter(|(_, it)| is_meant(it));
        meant.map(|(number, _)| number).collect()
    };
    let named = of(&|it| it.name == name);
    let own = of(&|it| it.own_name() == name);
    match (named.as_slice(), own.as_slice()) {
        ([only], _) | ([], [only]) => Ok(Some(*only)),
        ([], []) => Ok(None),
        _ => Err(ExperimentError::SeveralDefinitions {
            name: name.to_owned(),
            labels: own.iter().map(|it| agents[*it].name.clone()).collect(),
        }),
    }
}

/// Refuses tasks with trials of several definitions: the schedule has their names only.
pub(super) fn check_tasks(trials: &Trials, agents: &[usize]) -> Result<(), ExperimentError> {
    let own = trials.trials.iter();
    let tried: BTreeSet<usize> = own
        .filter(|it| agents.contains(&it.agent))
        .map(|it| it.task)
        .collect();
    let tasks = &trials.tasks;
    for task in &tried {
        let name = tasks[*task].own_name();
        let same = tried.iter().filter(|it| tasks[**it].own_name() == name);
        let labels: Vec<String> = same.map(|it| tasks[*it].name.clone()).collect();
        if labels.len() > 1 {
            return Err(ExperimentError::SeveralDefinitions {
                name: name.to_owned(),
                labels,
            });
        }
    }
    Ok(())
}

/// The trials of both agents that the last analysis used, or all before the first one.
fn used_trials(trials: &Trials, agents: [usize; 2], progress: Option<&Progress>) -> Trials {
    let quotas = progress.and_then(|it| it.look.map(|_| &it.used));
    let is_used = |trial: &Trial| {
        let task = trials.tasks[trial.task].own_name();
        let is_planned = quotas.is_none_or(|quotas| {
            let quota = quotas.get(task).copied().unwrap_or(0);
            trial.trial as usize <= quota
        });
        agents.contains(&trial.agent) && is_planned
    };
    Trials {
        runs: trials.runs.clone(),
        agents: trials.agents.clone(),
        tasks: trials.tasks.clone(),
        trials: trials
            .trials
            .iter()
            .filter(|it| is_used(it))
            .cloned()
            .collect(),
        active: Vec::new(),
    }
}

fn of_agents(trials: &Trials, agents: [usize; 2]) -> usize {
    let own = trials.trials.iter().filter(|it| agents.contains(&it.agent));
    own.count()
}

fn flipped(one: &Row, other: &Row, trials: &Trials) -> FlippedTasks {
    let mut flipped = FlippedTasks::default();
    for (task, key) in trials.tasks.iter().zip(one.keys) {
        let passes = |row: &Row| {
            let tally = row.passes.of(key)?;
            Some(2 * tally.passed() > tally.trials())
        };
        match (passes(one), passes(other)) {
            (Some(false), Some(true)) => flipped.gained.push(task.name.clone()),
            (Some(true), Some(false)) => flipped.lost.push(task.name.clone()),
            _ => {}
        }
    }
    flipped
}

/// Whether an experiment is over.
pub(super) fn is_over(step: Step) -> bool {
    step != Step::Continue
}
