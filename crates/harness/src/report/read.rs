//! Reading runs: one record after the other, of which only a row is kept.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use super::trials::{AgentRow, RunRow, TaskRow, Trial, Trials, place_of, tame};
use crate::{
    store::{self, RECORD_FILE, Record},
    suite::KeptPlan,
    watch::trial_folders,
};

/// A folder holds no trial.
#[derive(Debug, thiserror::Error)]
#[error("there is no record of a trial in {run}")]
pub struct NoTrials {
    /// The folder.
    pub run: Utf8PathBuf,
}

/// Read the records of runs.
pub fn read(runs: &[Utf8PathBuf]) -> Result<Trials, NoTrials> {
    let mut collector = Collector::default();
    for run in runs {
        collector.add_run(run)?;
    }
    Ok(collector.finish())
}

/// The folders of a run's trials, whether or not they have begun.
fn folders(run: &Utf8Path) -> Vec<Utf8PathBuf> {
    if let Ok(plan) = KeptPlan::read(run) {
        let keys = plan.trials.iter();
        return keys.map(|key| key.folder(run)).collect();
    }
    let found = trial_folders(run);
    if !found.is_empty() {
        return found.into_iter().map(|(_, folder)| folder).collect();
    }
    // The folder of one trial is a small run.
    let is_trial = run.join(RECORD_FILE).is_file();
    is_trial.then(|| run.to_owned()).into_iter().collect()
}

#[derive(Default)]
struct Collector {
    runs: Vec<RunRow>,
    agents: BTreeMap<String, (usize, AgentRow)>,
    tasks: BTreeMap<String, (usize, TaskRow)>,
    trials: Vec<Trial>,
    /// Runs that were read, so that none counts twice.
    seen: BTreeSet<Utf8PathBuf>,
}

impl Collector {
    fn add_run(&mut self, run: &Utf8Path) -> Result<(), NoTrials> {
        let run = run.canonicalize_utf8().unwrap_or_else(|_| run.to_owned());
        if !self.seen.insert(run.clone()) {
            return Ok(());
        }
        let folders = folders(&run);
        if folders.is_empty() {
            return Err(NoTrials { run });
        }
        self.runs.push(RunRow {
            name: run.file_name().unwrap_or_default().to_owned(),
            folder: run.clone(),
            is_running: run.join(store::LOCK_FILE).exists() && store::is_locked(&run),
            ..RunRow::default()
        });
        for folder in folders {
            self.add_trial(&run, &folder);
        }
        Ok(())
    }

    fn add_trial(&mut self, run: &Utf8Path, folder: &Utf8Path) {
        let number = self.runs.len() - 1;
        let path = record_path(folder);
        let below = folder.strip_prefix(run).unwrap_or(folder).to_owned();
        let Ok(bytes) = fs::read(path) else {
            self.runs[number].not_run += 1;
            return;
        };
        let Ok(record) = serde_json::from_slice::<Record>(&bytes) else {
            self.runs[number].unreadable.push(below.into_string());
            return;
        };
        let mut trial = Trial::of(&record, below);
        trial.run = number;
        trial.agent = self.agent(&record);
        trial.task = self.task(&record);
        self.trials.push(trial);
    }

    fn agent(&mut self, record: &Record) -> usize {
        let next = self.agents.len();
        let name = tame(&record.agent.name);
        let (number, row) = self.agents.entry(name).or_default();
        if row.name.is_empty() {
            *number = next;
            row.name = tame(&record.agent.name);
        }
        add(&mut row.kinds, Some(&record.agent.kind));
        add(&mut row.versions, record.agent.version.as_ref());
        add(&mut row.models, record.agent.model.as_ref());
        *number
    }

    fn task(&mut self, record: &Record) -> usize {
        let next = self.tasks.len();
        let name = tame(&record.task.name);
        let (number, row) = self.tasks.entry(name).or_default();
        if row.name.is_empty() {
            *number = next;
            row.name = tame(&record.task.name);
            row.category.clone_from(&record.task.category);
        }
        add(&mut row.hashes, Some(&record.task.config_hash));
        add(&mut row.places, Some(&place_of(record)));
        *number
    }

    /// Number agents and tasks by name, and put the trials in order.
    fn finish(self) -> Trials {
        let (agents, agent_numbers) = by_name(self.agents);
        let (tasks, task_numbers) = by_name(self.tasks);
        let mut trials = self.trials;
        for trial in &mut trials {
            trial.agent = agent_numbers[trial.agent];
            trial.task = task_numbers[trial.task];
        }
        trials.sort_by_key(|trial| (trial.agent, trial.task, trial.run, trial.trial));
        Trials {
            runs: self.runs,
            agents,
            tasks,
            trials,
        }
    }
}

/// Where the record of a trial is: the folder may be that of its artifacts.
pub(super) fn record_path(folder: &Utf8Path) -> Utf8PathBuf {
    let own = folder.join(RECORD_FILE);
    if own.is_file() {
        own
    } else {
        folder.join("artifacts").join(RECORD_FILE)
    }
}

/// Rows in the order of their names, and for each number of before the one of now.
fn by_name<Row>(rows: BTreeMap<String, (usize, Row)>) -> (Vec<Row>, Vec<usize>) {
    let mut numbers = vec![0; rows.len()];
    let mut sorted = Vec::with_capacity(rows.len());
    for (number, row) in rows.into_values() {
        numbers[number] = sorted.len();
        sorted.push(row);
    }
    (sorted, numbers)
}

fn add(seen: &mut Vec<String>, value: Option<&String>) {
    if let Some(value) = value.map(|value| tame(value))
        && let Err(place) = seen.binary_search(&value)
    {
        seen.insert(place, value);
    }
}
