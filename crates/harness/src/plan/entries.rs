//! The tasks of a suite's entries.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node};

use super::{datasets::FetchedDatasets, selection::Selection};
use crate::{
    config::{Settings, TaskEntry},
    task::{
        Task, case, find, folder,
        repo_task::{self, Surroundings},
        swebench::{self, Instance},
    },
};

/// A task that is found but not loaded yet, with its category in the suite.
pub(super) enum FoundTask {
    Case(Utf8PathBuf, Option<String>),
    Folder(Utf8PathBuf, Option<String>),
    /// With its id in the suite.
    Repo(Box<Task>, Option<String>),
    Instance(Result<Box<Task>, RefusedTask>),
}

/// Finds the tasks of all entries, in the order of the file; those of a folder are sorted.
pub(super) fn find_tasks(
    entries: Vec<(Node, TaskEntry)>,
    (surroundings, datasets): (&Surroundings<'_>, FetchedDatasets<'_>),
    faults: &mut Vec<Fault>,
) -> Vec<FoundTask> {
    let mut tasks = Vec::new();
    for (node, entry) in entries {
        match find_entry(&node, entry, surroundings, datasets) {
            Ok(more) => tasks.extend(more),
            Err(more) => faults.extend(more),
        }
    }
    use_ids_for_repeated_names(&mut tasks);
    tasks
}

/// Uses ids to distinguish tasks of the same repo, which would have the same name and directory.
fn use_ids_for_repeated_names(tasks: &mut [FoundTask]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for found in tasks.iter() {
        if let FoundTask::Repo(task, _) = found {
            *counts.entry(task.name.clone()).or_default() += 1;
        }
    }
    for found in tasks {
        if let FoundTask::Repo(task, Some(id)) = found
            && counts.get(&task.name).is_some_and(|count| *count > 1)
        {
            task.name.clone_from(id);
        }
    }
}

fn find_entry(
    node: &Node,
    entry: TaskEntry,
    surroundings: &Surroundings<'_>,
    datasets: FetchedDatasets<'_>,
) -> Result<Vec<FoundTask>, Vec<Fault>> {
    match entry {
        TaskEntry::Repo(entry) => {
            let id = entry.id.clone().or_else(|| entry.name.clone());
            let task = repo_task::read(node, *entry, surroundings)?;
            Ok(vec![FoundTask::Repo(Box::new(task), id)])
        }
        TaskEntry::Folder(entry) => {
            let folder = datasets.path(node, &entry, surroundings.folder);
            let folder = folder.map_err(|fault| vec![fault])?;
            let found = find::task_folders(&folder);
            if found.is_empty() {
                let message = format!("no tasks found in {}", entry.folder);
                let hint = format!("a task is a folder with a {}", find::TASK_FILE);
                return Err(vec![node.fault("folder", message).with_hint(hint)]);
            }
            let selection = Selection {
                include: entry.include.unwrap_or_default(),
                exclude: entry.exclude.unwrap_or_default(),
                limit: entry.limit,
                sample_seed: entry.sample_seed,
            };
            let found =
                selection.apply(found, |path, matches| path.file_name().is_some_and(matches));
            let found = found.map_err(|(key, message)| vec![node.fault(key, message)])?;
            let task = |path| FoundTask::Folder(path, entry.category.clone());
            Ok(found.into_iter().map(task).collect())
        }
        TaskEntry::Swebench(entry) => {
            let file = surroundings.folder.join(&entry.swebench);
            let found = swebench::read(&file, &entry, surroundings.folder);
            let found = found.map_err(|message| vec![node.fault("swebench", message)])?;
            let selection = Selection {
                include: entry.include.clone().unwrap_or_default(),
                exclude: entry.exclude.clone().unwrap_or_default(),
                limit: entry.limit,
                sample_seed: entry.sample_seed,
            };
            let found = selection.apply(found, |instance, matches| matches(&instance.id));
            let found = found.map_err(|(key, message)| vec![node.fault(key, message)])?;
            let task = |instance: Instance| {
                FoundTask::Instance(instance.task.map(Box::new).map_err(|error| RefusedTask {
                    names: vec![instance.id],
                    error,
                }))
            };
            Ok(found.into_iter().map(task).collect())
        }
        TaskEntry::Testcase(entry) => {
            let found = find::case_files(&surroundings.folder.join(&entry.testcase));
            if found.is_empty() {
                let message = format!("test case not found: {}", entry.testcase);
                return Err(vec![node.fault("testcase", message)]);
            }
            let task = |path| FoundTask::Case(path, entry.category.clone());
            Ok(found.into_iter().map(task).collect())
        }
    }
}

/// A task folder that cannot be run. It does not keep the other folders from running.
#[derive(Clone, Debug)]
pub struct RefusedTask {
    /// The name of its folder, and its own if known.
    pub names: Vec<String>,
    /// The reason.
    pub error: ConfigError,
}

impl RefusedTask {
    fn of_folder(folder: &Utf8Path, error: ConfigError) -> RefusedTask {
        let name = folder.file_name().unwrap_or_default().to_owned();
        let names = vec![name];
        RefusedTask { names, error }
    }

    /// Whether a filter with `name` means this task.
    pub fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

/// The tasks of a suite.
pub(super) struct LoadedTasks {
    pub(super) tasks: Vec<Arc<Task>>,
    pub(super) refused: Vec<RefusedTask>,
}

/// Loads tasks. Folders that cannot be run are returned separately, if there are others.
pub(super) fn load_tasks(
    found: Vec<FoundTask>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<LoadedTasks, Vec<ConfigError>> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    let mut refused = Vec::new();
    for found in found {
        let folder = match &found {
            FoundTask::Folder(path, _) => Some(path.clone()),
            _ => None,
        };
        let (loaded, category) = match found {
            FoundTask::Case(path, category) => (case::load(&path, env, settings), category),
            FoundTask::Folder(path, category) => (folder::load(&path, env, settings), category),
            FoundTask::Repo(task, _) | FoundTask::Instance(Ok(task)) => (Ok(*task), None),
            FoundTask::Instance(Err(instance)) => {
                refused.push(instance);
                continue;
            }
        };
        match loaded {
            Ok(task) => tasks.push(Arc::new(Task {
                category: category.or(task.category.clone()),
                ..task
            })),
            Err(error) => match folder {
                Some(folder) => refused.push(RefusedTask::of_folder(&folder, error)),
                None => errors.push(error),
            },
        }
    }
    if tasks.is_empty() {
        errors.extend(refused.drain(..).map(|refused| refused.error));
    }
    if errors.is_empty() {
        Ok(LoadedTasks { tasks, refused })
    } else {
        Err(errors)
    }
}
