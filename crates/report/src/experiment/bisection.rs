//! Bisections: since which version fewer trials pass, from the trials of some of the versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use proctor_record::{record::TrialStatus, text::counted};
use serde::Serialize;

use super::analysis::{ExperimentError, agent_named, check_tasks};
use crate::{
    definitions::Defined,
    figures::columns,
    stats::{Bisection, Interval, Level, Likeliest, PassCount, VersionTally, wilson},
    trials::{Trial, Trials},
};

/// The version of the result's JSON.
pub const BISECTION_VERSION: &str = "1.0.0";

/// The lost rounds after which a version without any complete round cannot be tried.
const LOST_ROUNDS: usize = 2;

/// A search over versions.
#[derive(Clone, Copy, Debug)]
pub struct BisectionRequest<'a> {
    /// The trials of its run.
    pub trials: &'a Trials,
    /// The versions, oldest first.
    pub versions: &'a [SearchVersion],
    /// The names of the tasks.
    pub tasks: &'a [String],
    /// The most trials of the search.
    pub budget: u64,
    /// The smallest drop of the pass rate to search for.
    pub smallest_drop: f64,
}

/// A version of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchVersion {
    /// The name of its agent.
    pub agent: String,
    /// Its description.
    pub label: String,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct SearchState {
    /// The results of complete rounds.
    pub search: Bisection,
    /// The complete rounds of each version: a trial of each task with a score. Other rounds are not
    /// used, because the pass rates of tasks differ.
    pub complete: Vec<BTreeSet<u32>>,
    /// The trials of other rounds.
    pub unused: usize,
}

/// The state of a search, by the trials so far.
pub fn search_state(request: BisectionRequest) -> Result<SearchState, ExperimentError> {
    let trials = request.trials;
    let rounds = request.versions.iter().map(|version| {
        // A version without trials has no agent in the records.
        let agent = match agent_named(trials, &version.agent) {
            Ok(agent) => agent,
            Err(ExperimentError::NoAgent { .. }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        check_tasks(trials, &[agent])?;
        let mut rounds: BTreeMap<u32, Vec<&Trial>> = BTreeMap::new();
        for trial in trials.trials.iter().filter(|it| it.agent == agent) {
            rounds.entry(trial.trial).or_default().push(trial);
        }
        Ok(rounds)
    });
    let rounds: Vec<BTreeMap<u32, Vec<&Trial>>> = rounds.collect::<Result<_, _>>()?;
    let is_complete = |round: &Vec<&Trial>| {
        let scored = round.iter().filter(|it| it.score.is_some());
        let tasks: BTreeSet<&str> = scored.map(|it| trials.tasks[it.task].own_name()).collect();
        request
            .tasks
            .iter()
            .all(|task| tasks.contains(task.as_str()))
    };
    let complete = rounds.iter().map(|rounds| {
        let complete = rounds.iter().filter(|(_, round)| is_complete(round));
        complete.map(|(number, _)| *number).collect()
    });
    let complete: Vec<BTreeSet<u32>> = complete.collect();
    let each = request.tasks.len().max(1);
    let used = each * complete.iter().map(BTreeSet::len).sum::<usize>();
    let all: usize = rounds.iter().flat_map(|it| it.values()).map(Vec::len).sum();
    let unused = all.saturating_sub(used);
    // Only whole rounds are run.
    let budget = request.budget.saturating_sub(unused as u64);
    let budget = budget - budget % each as u64;
    let mut search = Bisection::new(request.versions.len(), budget, request.smallest_drop);
    for (version, rounds) in rounds.iter().enumerate() {
        let is_lost = |round: &&Vec<&Trial>| round.iter().any(|it| it.status == TrialStatus::Error);
        if complete[version].is_empty() && rounds.values().filter(is_lost).count() >= LOST_ROUNDS {
            search.exclude(version);
        }
        let used = rounds.iter().filter(|it| complete[version].contains(it.0));
        let used = used.flat_map(|it| it.1);
        let passed = used.clone().filter(|it| it.status == TrialStatus::Passed);
        search.observe(version, passed.count() as u64, used.count() as u64);
    }
    Ok(SearchState {
        search,
        complete,
        unused,
    })
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BisectionResult {
    /// The version of this format.
    pub version: &'static str,
    /// The conclusion in one sentence.
    pub sentence: String,
    /// The first version with fewer passed trials that is most probable; null for no change.
    pub first_bad: Option<String>,
    /// The versions directly before it that could not be tried: each of them can be the first one as well.
    pub untried: Vec<String>,
    /// The posterior probability of this answer.
    pub probability: f64,
    /// Whether the probability is high enough for a conclusion.
    pub is_decided: bool,
    /// The posterior probability that all versions are alike.
    pub no_change: f64,
    /// The smallest drop of the pass rate that was searched for.
    pub smallest_drop: f64,
    /// The results of each version, oldest first.
    pub versions: Vec<VersionEvidence>,
    /// The number of trials of the search.
    pub trials: u64,
    /// Trials of incomplete rounds, which are not used.
    pub unused: usize,
}

/// The results of one version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VersionEvidence {
    /// The version.
    #[serde(flatten)]
    pub version: SearchVersion,
    /// Trials that passed, and all trials.
    #[serde(flatten)]
    pub tally: VersionTally,
    /// The posterior probability that it is the first one with fewer passed trials.
    pub probability: f64,
}

impl BisectionResult {
    /// The result of a search, by the trials so far.
    pub fn new(request: BisectionRequest) -> Result<BisectionResult, ExperimentError> {
        let state = search_state(request)?;
        let search = &state.search;
        let posterior = search.posterior();
        let found = search.likeliest();
        let versions = request.versions.iter().zip(search.evidence());
        let versions = versions.zip(&posterior);
        let versions = versions.map(|((version, tally), probability)| VersionEvidence {
            version: version.clone(),
            tally: *tally,
            probability: *probability,
        });
        let versions: Vec<VersionEvidence> = versions.collect();
        let untried = found
            .version
            .map_or(&[][..], |at| &versions[at - found.untried..at]);
        let untried = untried.iter().map(|it| it.version.label.clone());
        Ok(BisectionResult {
            untried: untried.collect(),
            version: BISECTION_VERSION,
            sentence: sentence(found, &versions, search.trials()),
            first_bad: found.version.map(|it| versions[it].version.label.clone()),
            probability: found.probability,
            is_decided: found.is_sure(),
            no_change: posterior.last().copied().unwrap_or(1.0),
            smallest_drop: request.smallest_drop,
            trials: search.trials(),
            unused: state.unused,
            versions,
        })
    }

    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.sentence);
        let head = ["version", "passed", "first bad with probability"].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        let is_shown = |it: &&VersionEvidence| it.tally.trials > 0 || it.probability >= 0.01;
        let shown = self.versions.iter().filter(is_shown);
        rows.extend(shown.clone().map(|it| {
            vec![
                it.version.label.clone(),
                format!("{}/{}", it.tally.passed, it.tally.trials),
                percent(it.probability),
            ]
        }));
        rows.push(vec![
            "no change".to_owned(),
            String::new(),
            percent(self.no_change),
        ]);
        text.push_str(&columns(&rows, &[1, 2]));
        let hidden = self.versions.len() - shown.count();
        if hidden > 0 {
            let hidden = counted(hidden, "other version");
            let _ = writeln!(text, "{hidden}: no trials, less than 1 % each.");
        }
        if self.unused > 0 {
            let unused = counted(self.unused, "trial");
            let _ = writeln!(text, "{unused} of incomplete rounds not used.");
        }
        text
    }

    /// The exit code: 0 for no change, 1 for a version with fewer passed trials, 3 without any
    /// trial, 4 for undecided.
    pub fn exit_code(&self) -> u8 {
        match (self.is_decided, &self.first_bad) {
            _ if self.trials == 0 => 3,
            (false, _) => 4,
            (true, None) => 0,
            (true, Some(_)) => 1,
        }
    }
}

fn sentence(found: Likeliest, versions: &[VersionEvidence], trials: u64) -> String {
    let rate = |part: &[VersionEvidence]| {
        let passed = part.iter().map(|it| it.tally.passed).sum();
        let all = part.iter().map(|it| it.tally.trials).sum();
        pass_rate(passed, all)
    };
    let [first, .., last] = versions else {
        return "nothing to search: there is one version only".to_owned();
    };
    let between = format!("{} and {}", first.version.label, last.version.label);
    let after = format!("after {}", counted(trials, "trial"));
    let probability = percent(found.probability);
    match found.version {
        _ if trials == 0 => "nothing to judge: no round of trials is complete".to_owned(),
        None if found.is_sure() => format!(
            "no change between {between} ({probability} probable {after}): {} passed",
            rate(versions)
        ),
        Some(at) if found.is_sure() => {
            let untried = match &versions[at - found.untried..at] {
                [] => String::new(),
                [one] => format!(" or {}, which could not be tried", one.version.label),
                [first, .., last] => format!(
                    " or one of {} to {}, which could not be tried",
                    first.version.label, last.version.label
                ),
            };
            format!(
                "worse since {}{untried} ({probability} probable {after}): {} passed before, {} since",
                versions[at].version.label,
                rate(&versions[..at]),
                rate(&versions[at..])
            )
        }
        likeliest => {
            let answer = likeliest.map_or("no change".to_owned(), |at| {
                format!("worse since {}", versions[at].version.label)
            });
            format!("cannot be decided {after}: most probable is {answer} ({probability})")
        }
    }
}

fn pass_rate(passed: u64, trials: u64) -> String {
    let interval = PassCount::new(passed, trials).and_then(|it| wilson(it, Level::P95));
    let Some(Interval { low, high }) = interval else {
        return format!("{passed}/{trials}");
    };
    let share = 100.0 * passed as f64 / trials as f64;
    format!(
        "{passed}/{trials} = {share:.0} % [{:.0}, {:.0}]",
        100.0 * low,
        100.0 * high
    )
}

fn percent(probability: f64) -> String {
    format!("{:.0} %", 100.0 * probability)
}
