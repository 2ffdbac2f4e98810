//! Trials of different definitions: they are read from records, listed apart, and never pooled.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::record::definition::{Definition, DefinitionRecord};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Basis, Chosen, Report, Trials, compare, pair_up, read, text};

/// A record of a made-up run.
#[derive(Clone, Debug)]
struct Made {
    agent: &'static str,
    task: &'static str,
    /// The model in the agent's definition; `None` is a record without digests.
    model: Option<u8>,
    /// The prompt in the task's definition.
    prompt: u8,
    /// The version that was found; `None` if the trial ended before.
    version: Option<u8>,
    /// `None` is an infrastructure failure.
    score: Option<f64>,
}

const MADE: Made = Made {
    agent: "a",
    task: "t",
    model: Some(0),
    prompt: 0,
    version: Some(0),
    score: Some(1.0),
};

impl Made {
    fn agent_text(&self) -> Value {
        json!({"model": format!("m{}", self.model.unwrap_or(0))})
    }

    fn task_text(&self) -> Value {
        json!({"prompt": format!("p{}", self.prompt)})
    }

    /// The digests of its record: that of the agent, and that of the task.
    fn definitions(&self) -> Option<[DefinitionRecord; 2]> {
        self.model?;
        let [mut agent, task] = [self.agent_text(), self.task_text()]
            .map(|text| DefinitionRecord::new(&Definition::new(text).digest));
        if let Some(version) = self.version {
            agent.find("version", &version.to_string());
        }
        Some([agent, task])
    }

    fn record(&self, trial: usize) -> Value {
        let (outcome, status) = match self.score {
            Some(_) => ("completed", "passed"),
            None => ("network", "error"),
        };
        let score = self
            .score
            .map(|value| json!({"value": value, "components": []}));
        let mut record = json!({
            "version": "1.0.0", "run_id": "r", "trial": trial, "outcome": outcome, "status": status,
            "score": score, "agent": {"name": self.agent, "type": "x", "adapter_version": "0"},
            "task": {"name": self.task, "config_file": "", "config_hash": "", "repo": ""},
            "started_at": "", "verdicts": [], "errors": [], "notes": [], "counts": counts(),
            "host": {"os": "", "arch": "", "cpus": 1}, "proctor_version": "0",
        });
        if let Some([agent, task]) = self.definitions() {
            record["agent"]["definition"] = json!(agent);
            record["task"]["definition"] = json!(task);
            record["task"]["evaluators"] = json!(Definition::new(json!([])).digest);
        }
        record
    }
}

fn counts() -> Value {
    json!(proctor_record::session::Counts::default())
}

/// Write a run with a record for each of these trials.
fn write(folder: &Utf8Path, made: &[Made]) -> Utf8PathBuf {
    let run = folder.join("r");
    let mut texts: BTreeMap<String, Value> = BTreeMap::new();
    let mut keys = Vec::new();
    for (number, one) in made.iter().enumerate() {
        let trial = number + 1;
        for text in [one.agent_text(), one.task_text(), json!([])] {
            texts.insert(Definition::new(text.clone()).digest, text);
        }
        keys.push(json!({"agent": one.agent, "task": one.task, "trial": trial}));
        let below = format!("trials/{}/{}/trial-{trial}/artifacts", one.agent, one.task);
        fs_err::create_dir_all(run.join(&below)).unwrap();
        let record = one.record(trial).to_string();
        fs_err::write(run.join(below).join("record.json"), record).unwrap();
    }
    let plan = json!({"run_id": "r", "seed": 0, "trials": keys, "definitions": texts});
    fs_err::write(run.join("plan.json"), plan.to_string()).unwrap();
    run
}

fn trials(made: &[Made]) -> Trials {
    let folder = tempfile::tempdir().unwrap();
    let run = write(Utf8Path::from_path(folder.path()).unwrap(), made);
    let trials = read(&[run]).unwrap();
    assert!(trials.runs[0].unreadable.is_empty());
    trials
}

fn agents(trials: &Trials) -> Vec<&str> {
    trials.agents.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn different_definitions_are_listed_apart_with_their_difference() {
    let other = Made {
        model: Some(1),
        score: Some(0.0),
        ..MADE
    };
    let trials = trials(&[MADE, MADE, other]);
    let report = Report::new(&trials, Basis::default());
    let names = agents(&trials);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().all(|it| it.starts_with("a (definition ")),
        "{names:?}"
    );
    let scores: Vec<f64> = report
        .agents
        .iter()
        .map(|it| it.score.unwrap().mean)
        .collect();
    assert_eq!(scores, [1.0, 0.0]);
    let text = text(&report);
    assert!(
        text.contains("2 definitions of the agent a are listed apart"),
        "{text}"
    );
    let one = "/plan/model: \"m0\" → \"m1\"";
    let other = "/plan/model: \"m1\" → \"m0\"";
    assert!(text.contains(one) || text.contains(other), "{text}");
}

#[test]
fn a_version_that_was_found_is_part_of_the_definition() {
    let upgraded = Made {
        version: Some(1),
        ..MADE
    };
    let trials = trials(&[MADE, upgraded]);
    assert_eq!(trials.agents.len(), 2);
    let text = text(&Report::new(&trials, Basis::default()));
    assert!(text.contains("/found/version: "), "{text}");
}

#[test]
fn a_trial_that_ended_before_its_version_was_known_is_excluded_from_the_same_agent() {
    let failed = Made {
        version: None,
        score: None,
        ..MADE
    };
    let trials = trials(&[failed.clone(), MADE]);
    assert_eq!(agents(&trials), ["a"]);
    let report = Report::new(&trials, Basis::default());
    assert_eq!((report.agents[0].trials, report.agents[0].judged), (2, 1));
    assert_eq!(report.totals.excluded, BTreeMap::from([("network", 1)]));
}

#[test]
fn records_without_digests_are_reported_as_such() {
    let older = Made {
        model: None,
        ..MADE
    };
    let mixed = trials(&[older.clone(), MADE]);
    let names = agents(&mixed);
    assert_eq!(names[0], "a (definition unknown)");
    assert_eq!(names.len(), 2);
    let text = text(&Report::new(&mixed, Basis::default()));
    assert!(text.contains("1 of 2 trials have no digest"), "{text}");
    assert_eq!(agents(&trials(&[older.clone(), older])), ["a"]);
}

fn chosen(trials: &Trials) -> Chosen<'_> {
    Chosen {
        label: "run",
        trials,
        agent: None,
    }
}

#[test]
fn a_comparison_leaves_out_changed_tasks_and_says_what_changed() {
    let of = |prompt, model| {
        let same = Made {
            model: Some(model),
            ..MADE
        };
        let changed = Made {
            task: "u",
            prompt,
            ..same.clone()
        };
        trials(&[same.clone(), same, changed])
    };
    let (before, after) = (of(0, 0), of(1, 1));
    let pairs = pair_up(chosen(&before), chosen(&after)).unwrap();
    assert_eq!(pairs.len(), 1);
    let versus = compare(pairs[0].0, pairs[0].1, Basis::default());
    assert_eq!(
        (versus.changes[0].tasks, versus.changes[0].left_out),
        (1, 2)
    );
    let notes = versus.notes.join("\n");
    assert!(
        notes.contains("the agents differ in /plan/model: \"m0\" → \"m1\""),
        "{notes}"
    );
    let changed = "task u is not compared: it differs in /plan/task/prompt: \"p0\" → \"p1\"";
    assert!(notes.contains(changed), "{notes}");
    // A task of an older version is compared by its name.
    let older = Made {
        model: None,
        ..MADE
    };
    let older = trials(&[older]);
    let pairs = pair_up(chosen(&older), chosen(&before)).unwrap();
    let versus = compare(pairs[0].0, pairs[0].1, Basis::default());
    assert_eq!(versus.changes[0].tasks, 1);
    assert!(
        versus.notes[0].contains("not on record"),
        "{:?}",
        versus.notes
    );
}

#[test]
fn an_agent_with_several_definitions_is_compared_with_the_same_ones() {
    let other = Made {
        model: Some(1),
        ..MADE
    };
    let both = trials(&[MADE, other]);
    let one = trials(&[MADE]);
    let names = |ones: &Trials, others: &Trials| -> Vec<(String, String)> {
        let pairs = pair_up(chosen(ones), chosen(others)).unwrap();
        let name = |side: crate::Side<'_>| side.trials.agents[side.agent].name.clone();
        pairs
            .into_iter()
            .map(|(one, other)| (name(one), name(other)))
            .collect()
    };
    let [first, second] = [0, 1].map(|number| both.agents[number].name.clone());
    let pairs = [(first.clone(), first), (second.clone(), second)];
    assert_eq!(names(&both, &both), pairs);
    // The other one has no counterpart but the agent of the same name.
    assert_eq!(names(&both, &one).len(), 2);
    let only_a = Chosen {
        agent: Some("a"),
        ..chosen(&both)
    };
    assert_eq!(pair_up(only_a, chosen(&one)).unwrap().len(), 2);
}

fn made() -> impl Strategy<Value = Made> {
    let names = (
        prop::sample::select(vec!["a", "b"]),
        prop::sample::select(vec!["t", "u"]),
    );
    let definition = (prop::option::weighted(0.8, 0..3_u8), 0..2_u8);
    let found = (
        prop::option::of(0..2_u8),
        prop::option::weighted(0.7, 0..=2_u8),
    );
    (names, definition, found).prop_map(|((agent, task), (model, prompt), (version, score))| Made {
        agent,
        task,
        model,
        prompt,
        version,
        score: score.map(|score| f64::from(score) / 2.0),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// All scored trials of a row of a report have the same digests, and each digest has one row.
    #[test]
    fn different_digests_are_never_pooled(made in prop::collection::vec(made(), 1..12)) {
        let trials = trials(&made);
        let mut agents: BTreeMap<usize, BTreeSet<Option<String>>> = BTreeMap::new();
        let mut tasks = agents.clone();
        for trial in trials.trials.iter().filter(|trial| trial.score.is_some()) {
            let own = &made[trial.trial as usize - 1];
            let [agent, task] = match own.definitions() {
                Some(both) => both.map(|it| Some(it.digest)),
                None => [None, None],
            };
            agents.entry(trial.agent).or_default().insert(agent);
            tasks.entry(trial.task).or_default().insert(task);
        }
        for rows in [&agents, &tasks] {
            prop_assert!(rows.values().all(|digests| digests.len() == 1), "{rows:?}");
        }
        let names: BTreeSet<&str> = trials.agents.iter().map(|it| it.name.as_str()).collect();
        prop_assert_eq!(names.len(), trials.agents.len());
        // No trial is lost, and the figures are those of the rows.
        let report = Report::new(&trials, Basis { draws: 10, ..Basis::default() });
        let total: usize = report.agents.iter().map(|it| it.trials).sum();
        prop_assert_eq!(total, made.len());
        for agent in &report.agents {
            let number = trials.agents.iter().position(|it| it.name == agent.name).unwrap();
            let scored = trials.trials.iter().filter(|it| it.agent == number && it.score.is_some());
            prop_assert_eq!(agent.judged, scored.count());
        }
        let excluded: usize = report.totals.excluded.values().sum();
        prop_assert_eq!(excluded, made.iter().filter(|it| it.score.is_none()).count());
    }
}
