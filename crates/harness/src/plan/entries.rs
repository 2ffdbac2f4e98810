//! The tasks of a suite's entries.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8PathBuf;
use proctor_document::{ConfigError, Fault, Node};

use crate::{
    config::{Settings, TaskEntry},
    task::{
        Task, case, find, harbor,
        repo_task::{self, Surroundings},
    },
};

/// A task that is found but not loaded yet, with its category in the suite.
pub(super) enum FoundTask {
    Case(Utf8PathBuf, Option<String>),
    Folder(Utf8PathBuf, Option<String>),
    /// With its id in the suite.
    Repo(Box<Task>, Option<String>),
}

/// Finds the tasks of all entries, in the order of the file; those of a folder are sorted.
pub(super) fn find_tasks(
    entries: Vec<(Node, TaskEntry)>,
    surroundings: &Surroundings<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<FoundTask> {
    let mut tasks = Vec::new();
    for (node, entry) in entries {
        match find_entry(&node, entry, surroundings) {
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
) -> Result<Vec<FoundTask>, Vec<Fault>> {
    match entry {
        TaskEntry::Repo(entry) => {
            let id = entry.id.clone().or_else(|| entry.name.clone());
            let task = repo_task::read(node, *entry, surroundings)?;
            Ok(vec![FoundTask::Repo(Box::new(task), id)])
        }
        TaskEntry::Folder(entry) => {
            let found = find::task_folders(&surroundings.folder.join(&entry.folder));
            if found.is_empty() {
                let message = format!("no tasks found in {}", entry.folder);
                let hint = format!("a task is a folder with a {}", find::TASK_FILE);
                return Err(vec![node.fault("folder", message).with_hint(hint)]);
            }
            let task = |path| FoundTask::Folder(path, entry.category.clone());
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

pub(super) fn load_tasks(
    found: Vec<FoundTask>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Vec<Arc<Task>>, Vec<ConfigError>> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    for found in found {
        let (loaded, category) = match found {
            FoundTask::Case(path, category) => (case::load(&path, env, settings), category),
            FoundTask::Folder(path, category) => (harbor::load(&path, env, settings), category),
            FoundTask::Repo(task, _) => (Ok(*task), None),
        };
        match loaded {
            Ok(task) => tasks.push(Arc::new(Task {
                category: category.or(task.category.clone()),
                ..task
            })),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(tasks)
    } else {
        Err(errors)
    }
}
