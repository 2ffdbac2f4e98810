//! Monitors agents over the runs of many nights: the score of each night, and an alarm if it drops.
//! Nights of different definitions are separate series, which are never combined.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use proctor_record::{record::list, text::counted};
use serde::Serialize;

use crate::{
    definitions::Defined,
    figures::{UNKNOWN, columns},
    foreign,
    model::agent::Role,
    stats::{Level, trend},
    trials::{RunRow, Trial, Trials},
};

/// The version of the result's JSON.
pub const TREND_VERSION: &str = "1.0.0";
/// With fewer nights, a drop would often stay unnoticed.
const MIN_NIGHTS: usize = 20;
/// The seed for the ranks of equal nights.
const SEED: u64 = 1;

/// The trends of all agents of some runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendReport {
    /// The version of this format.
    pub version: &'static str,
    /// The agents, by name.
    pub agents: Vec<AgentTrend>,
}

/// The trend of one agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentTrend {
    /// Its name.
    pub agent: String,
    /// The conclusion in one sentence.
    pub sentence: String,
    /// The conclusion about the last series.
    pub state: TrendState,
    /// The evidence that raises an alarm: over all agents, at most 5 % of unchanged series reach it.
    pub alarm_at: f64,
    /// The first night of the drop; null without an alarm.
    pub since: Option<String>,
    /// The mean score before the drop, or of all nights of the last series; null without nights.
    pub before: Option<f64>,
    /// The mean score since the drop; null without an alarm.
    pub after: Option<f64>,
    /// The nights, oldest first.
    pub nights: Vec<Night>,
}

/// The conclusion about a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrendState {
    /// No alarm.
    Steady,
    /// The score has dropped.
    Dropped,
    /// The series has too few nights.
    TooFew,
}

/// One run of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Night {
    /// The name of the run.
    pub run: String,
    /// When it started, in UTC; null if its name does not have the time.
    pub started_at: Option<String>,
    /// The number of the series, from 1.
    pub series: usize,
    /// The change of a definition that began a new series.
    pub changed: Option<String>,
    /// The reason why the night is not part of the series.
    pub unused: Option<&'static str>,
    /// The mean score over tasks; null if the night is not used.
    pub score: Option<f64>,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of trials.
    pub trials: usize,
    /// The number of excluded trials.
    pub excluded: usize,
    /// The evidence of a drop after this night; null if the night is not used.
    pub evidence: Option<f64>,
}

/// The definitions of a night: its agent, and its tasks with their numbers of trials.
type NightKey = (usize, Vec<(usize, usize)>);

/// The trends of agents over runs, which are in the order of time. Without a name, all agents that
/// do not calibrate tasks.
pub fn trends(trials: &Trials, agent: Option<&str>) -> TrendReport {
    let is_meant = |row: &&crate::AgentRow| match agent {
        Some(name) => row.own_name() == name,
        None => Role::of(row) == Role::Contender,
    };
    let meant = trials.agents.iter().filter(is_meant);
    let names: BTreeSet<&str> = meant.map(Defined::own_name).collect();
    let alpha = Level::P95.alpha() / names.len().max(1) as f64;
    let level = Level::new(1.0 - alpha).unwrap_or(Level::P95);
    let agents = names.iter().map(|name| of_agent(trials, name, level));
    TrendReport {
        version: TREND_VERSION,
        agents: agents.collect(),
    }
}

fn of_agent(trials: &Trials, name: &str, level: Level) -> AgentTrend {
    let mut nights = nights(trials, name);
    let alarm_at = 1.0 / level.alpha();
    let last = nights.last().map_or(0, |it| it.series);
    let mut found = AgentTrend {
        agent: name.to_owned(),
        sentence: String::new(),
        state: TrendState::TooFew,
        alarm_at,
        since: None,
        before: None,
        after: None,
        nights: Vec::new(),
    };
    for series in 1..=last {
        let own = nights
            .iter_mut()
            .filter(|it| it.series == series && it.unused.is_none());
        let mut own: Vec<&mut Night> = own.collect();
        let scores: Vec<f64> = own.iter().filter_map(|it| it.score).collect();
        let seen = trend(&scores, level, SEED);
        for (night, evidence) in own.iter_mut().zip(&seen.evidence) {
            night.evidence = Some(*evidence);
        }
        found.state = match seen.alarm {
            Some(_) => TrendState::Dropped,
            None if scores.len() < MIN_NIGHTS => TrendState::TooFew,
            None => TrendState::Steady,
        };
        found.since = seen.since.map(|at| own[at].label().to_owned());
        (found.before, found.after) = (seen.before, seen.after);
        found.sentence = sentence(&found, scores.len());
    }
    found.nights = nights;
    found
}

fn sentence(found: &AgentTrend, nights: usize) -> String {
    let score = |it: Option<f64>| it.map_or(UNKNOWN.to_owned(), |it| format!("{it:.3}"));
    let count = counted(nights, "night");
    let (name, before) = (&found.agent, score(found.before));
    match found.state {
        TrendState::Steady => format!("{name}: no drop in {count}, mean score {before}"),
        TrendState::Dropped => format!(
            "{name}: dropped from {before} to {} since {}, after {count}",
            score(found.after),
            found.since.as_deref().unwrap_or(UNKNOWN)
        ),
        TrendState::TooFew => format!(
            "{name}: cannot be decided after {count}: with fewer than {MIN_NIGHTS} nights of one definition, a drop would often stay unnoticed"
        ),
    }
}

/// The nights of an agent with the numbers of their series.
fn nights(trials: &Trials, name: &str) -> Vec<Night> {
    let mut nights: Vec<Night> = Vec::new();
    let (mut series, mut last): (usize, Option<NightKey>) = (1, None);
    for (number, run) in trials.runs.iter().enumerate() {
        let is_own = |it: &&Trial| it.run == number && trials.agents[it.agent].own_name() == name;
        let own: Vec<&Trial> = trials.trials.iter().filter(is_own).collect();
        if own.is_empty() {
            continue;
        }
        let key = key(trials, run, &own);
        let mut changed = None;
        if let Ok(key) = &key {
            if let Some(last) = last.as_ref().filter(|last| *last != key) {
                changed = Some(changes(trials, last, key));
                series += 1;
            }
            last = Some(key.clone());
        }
        let tasks: BTreeSet<usize> = own.iter().map(|it| it.task).collect();
        nights.push(Night {
            run: run.name.clone(),
            started_at: started_at(&run.name),
            series,
            changed,
            score: key.is_ok().then(|| mean_of_tasks(&own)),
            unused: key.err(),
            tasks: tasks.len(),
            trials: own.len(),
            excluded: own.iter().filter(|it| it.score.is_none()).count(),
            evidence: None,
        });
    }
    nights
}

/// The definitions of a night, or why it is not part of a series.
fn key(trials: &Trials, run: &RunRow, own: &[&Trial]) -> Result<NightKey, &'static str> {
    let agents: BTreeSet<usize> = own.iter().map(|it| it.agent).collect();
    let mut tasks: BTreeMap<usize, usize> = BTreeMap::new();
    for trial in own {
        *tasks.entry(trial.task).or_default() += 1;
    }
    let names: BTreeSet<&str> = tasks
        .keys()
        .map(|it| trials.tasks[*it].own_name())
        .collect();
    let is_scored = |task: &usize| own.iter().any(|it| it.task == *task && it.score.is_some());
    let is_defined = own.iter().all(|it| {
        let (agent, task) = (&trials.agents[it.agent], &trials.tasks[it.task]);
        agent.definition.is_some() && task.definition.is_some()
    });
    match agents.first() {
        _ if run.is_running || run.not_run > 0 || !run.unreadable.is_empty() => Err("not complete"),
        _ if !is_defined => Err("definition unknown"),
        _ if agents.len() > 1 || names.len() < tasks.len() => Err("several definitions"),
        _ if !tasks.keys().all(is_scored) => Err("task without score"),
        Some(agent) => Ok((*agent, tasks.into_iter().collect())),
        None => Err("no trials"),
    }
}

/// The mean over tasks, with equal weight for all tasks.
fn mean_of_tasks(own: &[&Trial]) -> f64 {
    let mut tasks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for trial in own {
        tasks.entry(trial.task).or_default().extend(trial.score);
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    tasks.values().map(mean).sum::<f64>() / tasks.len() as f64
}

/// The differences between the definitions of two nights, in words.
fn changes(trials: &Trials, before: &NightKey, after: &NightKey) -> String {
    let mut found = Vec::new();
    let agents = [before.0, after.0].map(|it| trials.agents[it].definition.as_ref());
    if let ([Some(one), Some(other)], true) = (agents, before.0 != after.0) {
        found.push(format!("agent: {}", one.differences(other)));
    }
    let named = |key: &NightKey| -> BTreeMap<&str, (usize, usize)> {
        let tasks = key.1.iter();
        tasks
            .map(|it| (trials.tasks[it.0].own_name(), *it))
            .collect()
    };
    let (before, after) = (named(before), named(after));
    for (name, (task, count)) in &after {
        match before.get(name) {
            None => found.push(format!("task {name} added")),
            Some((old, _)) if old != task => {
                let rows = [*old, *task].map(|it| trials.tasks[it].definition.as_ref());
                if let [Some(one), Some(other)] = rows {
                    found.push(format!("task {name}: {}", one.differences(other)));
                }
            }
            Some((_, old)) if old != count => {
                found.push(format!("trials of {name}: {old} → {count}"));
            }
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    found.extend(gone.map(|name| format!("task {name} removed")));
    found.join("; ")
}

fn started_at(run: &str) -> Option<String> {
    let at = list::started_at(run).or_else(|| foreign::started_at(run))?;
    Some(at.to_string())
}

impl Night {
    /// The time of its start, or its name.
    fn label(&self) -> &str {
        let minute = self.started_at.as_ref().and_then(|it| it.get(..16));
        minute.unwrap_or(&self.run)
    }

    fn row(&self) -> Vec<String> {
        let number = |it: Option<f64>, digits: usize| {
            it.map_or(UNKNOWN.to_owned(), |it| format!("{it:.digits$}"))
        };
        let note = match (self.unused, self.excluded) {
            (Some(reason), _) => format!("not used: {reason}"),
            (None, 0) => String::new(),
            (None, excluded) => format!("{excluded} excluded"),
        };
        vec![
            self.label().to_owned(),
            number(self.score, 3),
            self.trials.to_string(),
            number(self.evidence, 2),
            note,
        ]
    }
}

impl AgentTrend {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.sentence);
        let head = ["night", "score", "trials", "evidence", ""].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        for night in &self.nights {
            if night.changed.is_some() {
                rows.push(vec!["-- definition changed --".to_owned()]);
            }
            rows.push(night.row());
        }
        text.push_str(&columns(&rows, &[1, 2, 3]));
        let _ = writeln!(
            text,
            "An alarm is raised at an evidence of {:.0}.",
            self.alarm_at
        );
        for pair in self.nights.windows(2) {
            if let Some(changed) = &pair[1].changed {
                let (one, other) = (&pair[0].run, &pair[1].run);
                let _ = writeln!(
                    text,
                    "The definition changed before {}: {changed}. Is this intended? Nights before and after it are not combined; `proctor compare {one} {other}` compares them.",
                    pair[1].label()
                );
            }
        }
        text
    }
}

impl TrendReport {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let agents: Vec<String> = self.agents.iter().map(AgentTrend::text).collect();
        agents.join("\n")
    }

    /// The exit code: 1 if an agent has dropped, else 4 if an agent is undecided, else 0.
    pub fn exit_code(&self) -> u8 {
        let has = |state: TrendState| self.agents.iter().any(|it| it.state == state);
        match (has(TrendState::Dropped), has(TrendState::TooFew)) {
            (true, _) => 1,
            (_, true) => 4,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::made_up;

    /// Nights of one agent on two tasks with these scores of the first task; the second one fails.
    fn nights_of(scores: &[Option<f64>]) -> Trials {
        let rows: Vec<_> = (1..=scores.len())
            .flat_map(|night| {
                let number = u32::try_from(night).unwrap();
                [
                    ("a", "t1", number, scores[night - 1], None),
                    ("a", "t2", number, Some(0.0), None),
                ]
            })
            .collect();
        let mut trials = made_up(&rows);
        let run = trials.runs[0].clone();
        let name = |night: usize| format!("202611{:02}-020000-0000000a", night + 1);
        let runs = (0..scores.len()).map(|night| RunRow {
            name: name(night),
            ..run.clone()
        });
        trials.runs = runs.collect();
        for trial in &mut trials.trials {
            trial.run = trial.trial as usize - 1;
            trial.trial = 1;
        }
        trials
    }

    fn steady(nights: usize) -> Vec<Option<f64>> {
        let score = |night: usize| Some(if night.is_multiple_of(3) { 1.0 } else { 0.8 });
        (0..nights).map(score).collect()
    }

    #[test]
    fn few_nights_are_undecided_and_many_are_steady() {
        let few = trends(&nights_of(&steady(19)), None);
        assert_eq!(
            (few.agents[0].state, few.exit_code()),
            (TrendState::TooFew, 4)
        );
        let many = trends(&nights_of(&steady(20)), Some("a"));
        assert_eq!(
            (many.agents[0].state, many.exit_code()),
            (TrendState::Steady, 0)
        );
        assert!(
            many.agents[0]
                .sentence
                .starts_with("a: no drop in 20 nights")
        );
        assert!(trends(&nights_of(&steady(3)), Some("b")).agents.is_empty());
    }

    #[test]
    fn drop_is_reported_with_its_first_night() {
        let mut scores = steady(15);
        scores.extend(std::iter::repeat_n(Some(0.0), 13));
        let report = trends(&nights_of(&scores), None);
        let found = &report.agents[0];
        assert_eq!((found.state, report.exit_code()), (TrendState::Dropped, 1));
        assert_eq!(found.since.as_deref(), Some("2026-11-16T02:00"));
        assert!(
            found
                .text()
                .contains("An alarm is raised at an evidence of 20.")
        );
    }

    #[test]
    fn nights_of_another_definition_are_another_series() {
        let mut trials = nights_of(&steady(24));
        let mut other = trials.agents[0].clone();
        let mut definition = other.definition.clone().unwrap();
        definition.record.digest = "other".to_owned();
        other.definition = Some(definition);
        trials.agents.push(other);
        for trial in trials.trials.iter_mut().filter(|it| it.run >= 22) {
            trial.agent = 1;
        }
        let report = trends(&trials, None);
        let found = &report.agents[0];
        assert_eq!(report.agents.len(), 1);
        assert_eq!(
            (found.state, found.nights[23].series),
            (TrendState::TooFew, 2)
        );
        assert!(found.nights[22].changed.is_some() && found.nights[23].changed.is_none());
        let text = found.text();
        assert!(text.contains("-- definition changed --"), "{text}");
        assert!(
            text.contains("`proctor compare 20261122-020000-0000000a 20261123-020000-0000000a`"),
            "{text}"
        );
        // The evidence starts again.
        assert!(found.nights[22].evidence.unwrap() < 1.1);
    }

    #[test]
    fn incomplete_nights_are_shown_and_not_used() {
        let mut scores = steady(5);
        scores[1] = None;
        let mut trials = nights_of(&scores);
        trials.runs[2].not_run = 1;
        trials.trials.retain(|it| (it.run, it.task) != (3, 1));
        let found = &trends(&trials, None).agents[0];
        let unused: Vec<_> = found.nights.iter().map(|it| it.unused).collect();
        assert_eq!(
            unused,
            [
                None,
                Some("task without score"),
                Some("not complete"),
                None,
                None
            ]
        );
        assert_eq!(found.nights[3].changed.as_deref(), Some("task t2 removed"));
        assert_eq!(found.nights[4].changed.as_deref(), Some("task t2 added"));
    }

    #[test]
    fn agents_share_the_false_alarms() {
        let both = [
            ("a", "t", 1, Some(1.0), None),
            ("b", "t", 1, Some(1.0), None),
        ];
        let report = trends(&made_up(&both), None);
        assert_eq!(report.agents.len(), 2);
        assert!((report.agents[0].alarm_at - 40.0).abs() < 1e-6);
    }
}
