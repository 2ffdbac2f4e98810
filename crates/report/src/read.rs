//! Reads runs: only a row of each record is kept. Records are read in parallel and combined in
//! order.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{LOCK_FILE, is_locked},
    parallel_map::parallel_for_each,
    platform,
    record::{
        self, PlanFile, RECORD_FILE, Record,
        definition::{DefinitionRecord, PairDigests},
        follow::trial_folders,
    },
    text::one_line,
};

use serde_json::Value;

use super::trials::{AgentRow, RegisteredPlan, RunRow, TaskRow, Trial, Trials, place_of};
use crate::{
    definitions::{DefinitionRow, Rows},
    foreign::{self, ForeignMeta},
};

/// A directory has no trials.
#[derive(Debug, thiserror::Error)]
#[error("no trial records in {run}")]
pub struct NoTrials {
    /// The folder.
    pub run: Utf8PathBuf,
}

/// Reads the records of runs.
pub fn read(runs: &[Utf8PathBuf]) -> Result<Trials, NoTrials> {
    let mut collector = Collector::default();
    for run in runs {
        collector.add_run(run)?;
    }
    Ok(collector.finish())
}

/// The parts of a run's plan that its records are read with.
#[derive(Default)]
struct PlanParts {
    /// The suite's file.
    suite: Option<String>,
    /// The id of the run.
    run_id: Option<String>,
    /// The texts of definitions, by digest.
    definitions: BTreeMap<String, Value>,
    /// The agents that are variants.
    variants: BTreeMap<String, String>,
    /// The planned digests of each agent on each task.
    pairs: Vec<PairDigests>,
    /// The plan of its experiment.
    experiment: Option<RegisteredPlan>,
    /// Whether a process runs it.
    is_running: bool,
}

impl PlanParts {
    fn of(plan: PlanFile) -> PlanParts {
        let digest = plan.digest();
        let mut deviations = Vec::new();
        if plan.registered.as_ref().is_some_and(|it| *it != digest) {
            deviations.push("the plan was changed after the start".to_owned());
        }
        PlanParts {
            experiment: plan.experiment.map(|document| RegisteredPlan {
                document,
                digest: plan.registered,
                deviations,
            }),
            suite: plan.suite,
            run_id: plan.run_id,
            definitions: plan.definitions,
            variants: plan.variants,
            pairs: plan.pairs,
            is_running: false,
        }
    }

    /// A definition of a record that is not the planned one.
    fn deviation(&self, record: &Record) -> Option<String> {
        let (agent, task) = (&record.agent, &record.task);
        let is_own = |pair: &&PairDigests| pair.agent == agent.name && pair.task == task.name;
        let planned = self.pairs.iter().find(is_own)?;
        let is_other = |it: &Option<DefinitionRecord>, digest: &String| {
            it.as_ref().is_some_and(|it| it.planned != *digest)
        };
        let evaluators = task.evaluators.as_ref();
        if is_other(&agent.definition, &planned.agent_digest) {
            Some(format!("agent {} has another definition", agent.name))
        } else if is_other(&task.definition, &planned.task_digest) {
            Some(format!("task {} has another definition", task.name))
        } else if evaluators.is_some_and(|it| *it != planned.evaluators_digest) {
            Some(format!("task {} was judged by other evaluators", task.name))
        } else {
            None
        }
    }
}

/// The folders of a run's trials, whether or not they have begun.
fn folders(run: &Utf8Path) -> (PlanParts, Vec<Utf8PathBuf>) {
    if let Ok(plan) = PlanFile::read(run) {
        let keys = plan.trials.iter();
        let folders = keys.map(|key| key.folder(run)).collect();
        return (PlanParts::of(plan), folders);
    }
    (PlanParts::default(), folders_without_plan(run))
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
    // The directory of one trial is treated as a run.
    let is_trial = run.join(RECORD_FILE).is_file() || foreign::is_trial(run);
    is_trial.then(|| run.to_owned()).into_iter().collect()
}

/// The content of a trial's directory.
enum TrialContent {
    /// No record.
    Nothing,
    /// An unreadable record, with its path.
    Unreadable(String),
    /// A record.
    Trial(Box<RecordData>),
    /// The first record of a trial that runs now.
    Active(Box<RecordData>),
}

/// The data kept of a record: its row, and data about its agent and its task.
struct RecordData {
    trial: Trial,
    agent: AgentRow,
    task: TaskRow,
    /// How it deviates from the plan of an experiment.
    deviation: Option<String>,
}

impl TrialContent {
    /// The directory of a test case's only trial is the run itself, which has no name below it.
    fn unreadable(below: Utf8PathBuf) -> TrialContent {
        let is_run = below.as_str().is_empty();
        let below = if is_run { RECORD_FILE.into() } else { below };
        TrialContent::Unreadable(below.into_string())
    }

    fn look(run: &Utf8Path, plan: &PlanParts, folder: &Utf8Path) -> TrialContent {
        let below = folder.strip_prefix(run).unwrap_or(folder);
        let below = Utf8PathBuf::from(platform::slashed(below.as_str()).into_owned());
        let Ok(bytes) = fs::read(record_path(folder)) else {
            return TrialContent::look_at_foreign(folder, below);
        };
        let Ok(record) = serde_json::from_slice::<Record>(&bytes) else {
            return TrialContent::unreadable(below);
        };
        // The record of another trial must not count here.
        if !record.is_of(folder, plan.run_id.as_deref()) {
            return TrialContent::unreadable(below);
        }
        let tamed = |text: Option<&String>| text.map(|text| one_line(text)).into_iter().collect();
        let (agent, task) = (&record.agent, &record.task);
        let texts = &plan.definitions;
        let of_agent = |it| DefinitionRow::of_agent(it, texts);
        let of_task = |it| DefinitionRow::of_task(it, task.evaluators.as_deref(), texts);
        let data = Box::new(RecordData {
            agent: AgentRow {
                kinds: tamed(Some(&record.agent.kind)),
                versions: tamed(record.agent.version.as_ref()),
                models: tamed(record.agent.model.as_ref()),
                ..AgentRow::named(&agent.name, agent.definition.as_ref().map(of_agent))
            },
            task: TaskRow {
                category: record.task.category.clone(),
                hashes: tamed(Some(&record.task.config_hash)),
                places: tamed(Some(&place_of(&record))),
                notes: record
                    .task
                    .notes
                    .iter()
                    .map(|note| one_line(note))
                    .collect(),
                ..TaskRow::named(&task.name, task.definition.as_ref().map(of_task))
            },
            deviation: plan.deviation(&record),
            trial: Trial::of(&record, below),
        });
        if plan.is_running && record.completed_at.is_none() {
            TrialContent::Active(data)
        } else {
            TrialContent::Trial(data)
        }
    }

    /// Reads the directory of a trial without a record of ours.
    fn look_at_foreign(folder: &Utf8Path, below: Utf8PathBuf) -> TrialContent {
        if !foreign::is_trial(folder) {
            return TrialContent::Nothing;
        }
        let Ok(meta) = ForeignMeta::read(folder) else {
            return TrialContent::unreadable(below);
        };
        TrialContent::Trial(Box::new(RecordData {
            agent: AgentRow {
                kinds: vec!["adapter".to_owned()],
                ..AgentRow::named(&meta.orchestrator, None)
            },
            task: TaskRow {
                category: meta.category.clone(),
                places: vec!["thunderdome".to_owned()],
                ..TaskRow::named(&meta.task, None)
            },
            deviation: None,
            trial: Trial::of_foreign(&meta, below),
        }))
    }
}

#[derive(Default)]
struct Collector {
    runs: Vec<RunRow>,
    agents: Rows<AgentRow>,
    tasks: Rows<TaskRow>,
    trials: Vec<Trial>,
    active: Vec<Trial>,
    /// The runs so far, so that none counts twice.
    seen: BTreeSet<Utf8PathBuf>,
}

impl Collector {
    fn add_run(&mut self, run: &Utf8Path) -> Result<(), NoTrials> {
        let run = record::run_folder(run).unwrap_or_else(|_| run.to_owned());
        if !self.seen.insert(run.clone()) {
            return Ok(());
        }
        let (mut plan, folders) = folders(&run);
        plan.is_running = run.join(LOCK_FILE).exists() && is_locked(&run);
        if folders.is_empty() {
            return Err(NoTrials { run });
        }
        self.runs.push(RunRow {
            name: run.file_name().unwrap_or_default().to_owned(),
            folder: run.clone(),
            suite: plan.suite.clone(),
            is_running: plan.is_running,
            variants: plan.variants.clone(),
            experiment: plan.experiment.clone(),
            ..RunRow::default()
        });
        let look = |_, folder: &Utf8PathBuf| TrialContent::look(&run, &plan, folder);
        parallel_for_each(&folders, look, |found| {
            self.add(found);
            Ok(())
        })
    }

    fn add(&mut self, found: TrialContent) {
        let number = self.runs.len() - 1;
        match found {
            TrialContent::Nothing => self.runs[number].not_run += 1,
            TrialContent::Unreadable(below) => self.runs[number].unreadable.push(below),
            TrialContent::Trial(seen) => {
                let experiment = self.runs[number].experiment.as_mut();
                if let (Some(plan), Some(deviation)) = (experiment, &seen.deviation)
                    && !plan.deviations.contains(deviation)
                {
                    plan.deviations.push(deviation.clone());
                }
                let trial = self.numbered(*seen);
                self.trials.push(trial);
            }
            TrialContent::Active(seen) => {
                let trial = self.numbered(*seen);
                self.active.push(trial);
            }
        }
    }

    /// A trial of the last run, with the numbers of its agent and task.
    fn numbered(&mut self, seen: RecordData) -> Trial {
        Trial {
            run: self.runs.len() - 1,
            agent: self.agents.add(seen.agent),
            task: self.tasks.add(seen.task),
            ..seen.trial
        }
    }

    /// Numbers agents and tasks by name, and sorts the trials.
    fn finish(self) -> Trials {
        let scored = |number: fn(&Trial) -> usize| {
            let scored = self.trials.iter().filter(|trial| trial.score.is_some());
            scored.map(number).collect()
        };
        let (agents, agent_numbers) = self.agents.finish(&scored(|trial| trial.agent));
        let (tasks, task_numbers) = self.tasks.finish(&scored(|trial| trial.task));
        let (mut trials, mut active) = (self.trials, self.active);
        for list in [&mut trials, &mut active] {
            for trial in list.iter_mut() {
                trial.agent = agent_numbers[trial.agent];
                trial.task = task_numbers[trial.task];
            }
            list.sort_by_key(|trial| (trial.agent, trial.task, trial.run, trial.trial));
        }
        Trials {
            runs: self.runs,
            agents,
            tasks,
            trials,
            active,
        }
    }
}

/// The record of a trial: the directory may be that of its artifacts.
pub(super) fn record_path(folder: &Utf8Path) -> Utf8PathBuf {
    let own = folder.join(RECORD_FILE);
    if own.is_file() {
        own
    } else {
        folder.join("artifacts").join(RECORD_FILE)
    }
}
