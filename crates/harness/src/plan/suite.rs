//! Suites with their tasks, resolved.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Span};

use super::{
    dataset_lock::DatasetLock,
    datasets::FetchedDatasets,
    entries::{LoadedTasks, RefusedTask, find_tasks, load_tasks},
};
use crate::{
    config::{
        Execution, ExperimentSettings, GateSettings, Remarks, Settings, Source, SuiteAgent,
        SuiteConfig, SuiteFile, check_unique, config_of_folders,
    },
    task::{Task, repo_task::Surroundings},
};

/// A validated suite.
#[derive(Clone, Debug)]
pub struct ResolvedSuite {
    /// The agents.
    pub agents: Vec<SuiteAgent>,
    /// The allowed differences between variants, with their position in the file.
    pub vary: Option<(Vec<String>, Span)>,
    /// The tasks.
    pub tasks: Vec<Arc<Task>>,
    /// Task folders that cannot be run, next to those that can.
    pub refused: Vec<RefusedTask>,
    /// The number of trials of each agent on each task.
    pub trials: u32,
    /// The maximum number of concurrent trials.
    pub parallel: usize,
    /// The comparison of the agents with one of them.
    pub experiment: Option<ExperimentSettings>,
    /// The rules that a run must keep.
    pub gate: Option<GateSettings>,
    /// The results directory; `None` for that of the project.
    pub results_dir: Option<Utf8PathBuf>,
    /// Where and how trials execute.
    pub execution: Execution,
    /// The environment, with the variables of `secrets.env_file`.
    pub env: BTreeMap<String, String>,
    /// The variables that `secrets.env_file` sets.
    pub secret_names: Vec<String>,
    /// The directory of the suite.
    pub folder: Utf8PathBuf,
    /// The file.
    pub source: Arc<Source>,
    /// Settings that are accepted but have no or less effect here; one line each.
    pub notes: Vec<String>,
}

impl ResolvedSuite {
    /// Whether the file is in Thunderdome's format: it has `orchestrators`.
    pub fn is_thunderdome(&self) -> bool {
        self.agents.iter().any(|agent| agent.is_orchestrator)
    }

    /// Fails if an agent of the suite uses an unset variable.
    pub(crate) fn check_variables(&self) -> Result<(), ConfigError> {
        let unset = self.agents.iter().flat_map(|agent| &agent.unset);
        let faults: Vec<Fault> = unset.map(|unset| unset.fault.clone()).collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(self.source.error(faults))
        }
    }

    /// Moves tasks with unset variables to the refused ones.
    pub fn refuse_unset(&mut self) {
        let refused = &mut self.refused;
        self.tasks.retain(|task| {
            let Err(error) = task.check_variables() else {
                return true;
            };
            let mut names = task.aliases.clone();
            names.push(task.name.clone());
            refused.push(RefusedTask { names, error });
            false
        });
    }

    /// Removes the unset variables of agents and tasks. Returns their names with those of the
    /// agents and tasks, for checking a file without running it.
    pub fn take_unset(&mut self) -> Vec<String> {
        let mut remarks = Remarks::default();
        for agent in &mut self.agents {
            for unset in agent.unset.drain(..) {
                let text = format!("`{}` is not set: agents that use it cannot run", unset.name);
                remarks.add_about(text, &agent.name);
            }
        }
        for task in &mut self.tasks {
            for unset in &task.unset {
                let text = format!("`{}` is not set: tasks that use it cannot run", unset.name);
                remarks.add_about(text, &task.name);
            }
            if !task.unset.is_empty() {
                Arc::make_mut(task).unset.clear();
            }
        }
        remarks.lines()
    }
}

/// Reads a suite and its tasks. Returns the errors of all files.
pub fn load_suite(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let file = SuiteFile::read(path).map_err(|error| vec![error])?;
    resolve_suite(file, env, settings)
}

/// Reads a suite from its snapshot.
pub fn load_kept_suite(
    path: &Utf8Path,
    text: String,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let file = SuiteFile::parse(path, text).map_err(|error| vec![error])?;
    resolve_suite(file, env, settings)
}

/// Resolves a parsed suite file.
pub fn resolve_suite(
    file: SuiteFile,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let config = file.read_config(env, settings);
    resolve(config.map_err(|error| vec![error])?, settings)
}

/// The suite of agents of these kinds on the tasks of directories. Without kinds, the first
/// installed agent is used.
pub fn suite_of_folders(
    folders: &[Utf8PathBuf],
    kinds: &[String],
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let config = config_of_folders(folders, kinds, env, settings);
    resolve(config.map_err(|error| vec![error])?, settings)
}

fn resolve(config: SuiteConfig, settings: &Settings) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let lock = DatasetLock::beside(config.source.path()).map_err(|error| vec![error])?;
    let suite = resolve_unlocked(config, settings, lock.as_ref())?;
    match lock.map_or(Ok(()), |lock| lock.check(&suite.tasks)) {
        Ok(()) => Ok(suite),
        Err(error) => Err(vec![error]),
    }
}

/// Resolves a suite with the commits of a lock, regardless of its tasks.
pub(super) fn resolve_unlocked(
    mut config: SuiteConfig,
    settings: &Settings,
    lock: Option<&DatasetLock>,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let source = config.source;
    let surroundings = Surroundings {
        source: &source,
        folder: &config.folder,
        is_thunderdome: config.is_thunderdome,
        judge_model: config.judge_model.as_deref(),
    };
    let datasets = FetchedDatasets {
        lock,
        cache: settings.datasets.as_deref(),
    };
    let found = find_tasks(config.tasks, (&surroundings, datasets), &mut config.faults);
    if !config.faults.is_empty() {
        return Err(vec![source.error(config.faults)]);
    }
    let LoadedTasks { mut tasks, refused } = load_tasks(found, &config.env, settings)?;
    for task in &mut tasks {
        let limits = &mut Arc::make_mut(task).limits;
        limits.progress = config.execution.progress.or(limits.progress);
    }
    for task in &tasks {
        for note in &task.notes {
            config.remarks.add_about(note.clone(), &task.name);
        }
    }
    let names = tasks.iter().map(|task| task.name.as_str());
    check_unique(names, "task", config.tasks_span, &mut config.faults);
    if !config.faults.is_empty() {
        return Err(vec![source.error(config.faults)]);
    }
    Ok(ResolvedSuite {
        agents: config.agents,
        vary: config.vary,
        tasks,
        refused,
        trials: config.trials,
        parallel: config.parallel,
        experiment: config.experiment,
        gate: config.gate,
        results_dir: config.results_dir,
        execution: config.execution,
        env: config.env,
        secret_names: config.secret_names,
        folder: config.folder,
        source,
        notes: config.remarks.lines(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suite_file_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        std::fs::write(folder.join(".env"), "KEY=from-the-file").unwrap();
        let task = "{repo: ., tag: v1, test_cmd: 'true', time_limit_minutes: 1}";
        let text = format!(
            "agents: [{{type: 'null', name: 'a'}}]\ntasks: [{task}]\nsecrets: {{env_file: .env}}\nresults: {{dir: '${{KEY}}'}}\n"
        );
        let path = folder.join("suite.yaml");
        std::fs::write(&path, text).unwrap();
        let file = SuiteFile::open(&path).expect("the file is a suite");
        // The file must not be read again after it was opened.
        std::fs::remove_file(&path).unwrap();
        let suite = resolve_suite(file, &BTreeMap::new(), &Settings::default()).unwrap();
        assert!(suite.results_dir.unwrap().ends_with("from-the-file"));
        assert_eq!(suite.secret_names, ["KEY"]);
        assert_eq!(suite.tasks.len(), 1);
    }
}
