//! Reading runs: of each record only a row is kept. Records are read side by side and put together in order.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{LOCK_FILE, is_locked},
    parallel_map::parallel_for_each,
    platform,
    record::{self, PlanFile, RECORD_FILE, Record, follow::trial_folders},
};

use super::trials::{AgentRow, RunRow, TaskRow, Trial, Trials, place_of, tame};
use crate::foreign::{self, ForeignMeta};

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

/// The id of a run, where its plan says it, and the folders of its trials, whether or not they have begun.
fn folders(run: &Utf8Path) -> (Option<String>, Vec<Utf8PathBuf>) {
    if let Ok(plan) = PlanFile::read(run) {
        let keys = plan.trials.iter();
        let folders = keys.map(|key| key.folder(run)).collect();
        return (plan.run_id, folders);
    }
    (None, folders_without_plan(run))
}

fn folders_without_plan(run: &Utf8Path) -> Vec<Utf8PathBuf> {
    let found = trial_folders(run);
    if !found.is_empty() {
        return found.into_iter().map(|(_, folder)| folder).collect();
    }
    let found = foreign::trial_folders(run);
    if !found.is_empty() {
        return found;
    }
    // The folder of one trial is a small run.
    let is_trial = run.join(RECORD_FILE).is_file() || foreign::is_trial(run);
    is_trial.then(|| run.to_owned()).into_iter().collect()
}

/// The content of a trial's directory.
enum Found {
    /// No record.
    Nothing,
    /// A record that cannot be read; where.
    Unreadable(String),
    /// A record.
    Trial(Box<Seen>),
}

/// The data kept of a record: its row, and data about its agent and its task.
struct Seen {
    trial: Trial,
    agent: AgentRow,
    task: TaskRow,
}

impl Found {
    fn look(run: &Utf8Path, run_id: Option<&str>, folder: &Utf8Path) -> Found {
        let below = folder.strip_prefix(run).unwrap_or(folder);
        let below = Utf8PathBuf::from(platform::slashed(below.as_str()).into_owned());
        let Ok(bytes) = fs::read(record_path(folder)) else {
            return Found::look_at_foreign(folder, below);
        };
        let Ok(record) = serde_json::from_slice::<Record>(&bytes) else {
            return Found::Unreadable(below.into_string());
        };
        // The record of another trial must not count for this one, or twice.
        if !record.is_of(folder, run_id) {
            return Found::Unreadable(below.into_string());
        }
        let tamed = |text: Option<&String>| text.map(|text| tame(text)).into_iter().collect();
        Found::Trial(Box::new(Seen {
            agent: AgentRow {
                name: tame(&record.agent.name),
                kinds: tamed(Some(&record.agent.kind)),
                versions: tamed(record.agent.version.as_ref()),
                models: tamed(record.agent.model.as_ref()),
            },
            task: TaskRow {
                name: tame(&record.task.name),
                category: record.task.category.clone(),
                hashes: tamed(Some(&record.task.config_hash)),
                places: tamed(Some(&place_of(&record))),
                notes: record.task.notes.iter().map(|note| tame(note)).collect(),
            },
            trial: Trial::of(&record, below),
        }))
    }

    /// The folder of a trial without a record of ours.
    fn look_at_foreign(folder: &Utf8Path, below: Utf8PathBuf) -> Found {
        if !foreign::is_trial(folder) {
            return Found::Nothing;
        }
        let Ok(meta) = ForeignMeta::read(folder) else {
            return Found::Unreadable(below.into_string());
        };
        Found::Trial(Box::new(Seen {
            agent: AgentRow {
                name: tame(&meta.orchestrator),
                kinds: vec!["adapter".to_owned()],
                ..AgentRow::default()
            },
            task: TaskRow {
                name: tame(&meta.task),
                category: meta.category.clone(),
                places: vec!["thunderdome".to_owned()],
                ..TaskRow::default()
            },
            trial: Trial::of_foreign(&meta, below),
        }))
    }
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
        let run = record::run_folder(run).unwrap_or_else(|_| run.to_owned());
        if !self.seen.insert(run.clone()) {
            return Ok(());
        }
        let (run_id, folders) = folders(&run);
        if folders.is_empty() {
            return Err(NoTrials { run });
        }
        self.runs.push(RunRow {
            name: run.file_name().unwrap_or_default().to_owned(),
            folder: run.clone(),
            is_running: run.join(LOCK_FILE).exists() && is_locked(&run),
            ..RunRow::default()
        });
        let look = |_, folder: &Utf8PathBuf| Found::look(&run, run_id.as_deref(), folder);
        parallel_for_each(&folders, look, |found| {
            self.add(found);
            Ok(())
        })
    }

    fn add(&mut self, found: Found) {
        let number = self.runs.len() - 1;
        match found {
            Found::Nothing => self.runs[number].not_run += 1,
            Found::Unreadable(below) => self.runs[number].unreadable.push(below),
            Found::Trial(seen) => {
                let mut trial = seen.trial;
                trial.run = number;
                trial.agent = self.agent(seen.agent);
                trial.task = self.task(seen.task);
                self.trials.push(trial);
            }
        }
    }

    fn agent(&mut self, seen: AgentRow) -> usize {
        if let Some((number, row)) = self.agents.get_mut(&seen.name) {
            add(&mut row.kinds, seen.kinds);
            add(&mut row.versions, seen.versions);
            add(&mut row.models, seen.models);
            return *number;
        }
        let number = self.agents.len();
        self.agents.insert(seen.name.clone(), (number, seen));
        number
    }

    fn task(&mut self, seen: TaskRow) -> usize {
        if let Some((number, row)) = self.tasks.get_mut(&seen.name) {
            add(&mut row.hashes, seen.hashes);
            add(&mut row.places, seen.places);
            add(&mut row.notes, seen.notes);
            return *number;
        }
        let number = self.tasks.len();
        self.tasks.insert(seen.name.clone(), (number, seen));
        number
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

/// Take in what was not seen before, in order.
fn add(seen: &mut Vec<String>, values: Vec<String>) {
    for value in values {
        if let Err(place) = seen.binary_search(&value) {
            seen.insert(place, value);
        }
    }
}
