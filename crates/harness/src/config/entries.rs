//! The entries of a suite's `tasks`: test cases, folders and repos at tags.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8PathBuf;
use proctor_document::{ConfigError, Fault, Node, Value};
use schemars::JsonSchema;
use serde::Deserialize;

use super::settings::Settings;
use crate::task::{
    Task, case, find, harbor,
    repo_task::{self, Surroundings},
};

/// Where tasks come from.
// For the schema: reading them by hand gives better complaints.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) enum TaskEntry {
    Testcase(TestcaseEntry),
    Folder(FolderEntry),
    Repo(Box<repo_task::RepoEntry>),
}

/// Test cases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TestcaseEntry {
    /// A test case, a folder of them, or a pattern such as `cases/*.yaml`. Their prompt, repo and
    /// evaluators count; their agent does not.
    testcase: String,
    /// What they belong to.
    category: Option<String>,
}

/// Tasks in Harbor's format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FolderEntry {
    /// A task's folder, a folder of them, or a pattern such as `tasks/*`.
    folder: String,
    /// What they belong to; the category in their metadata when left out.
    category: Option<String>,
}

/// A task that a suite names, read as far as the suite itself tells.
pub(super) enum Entry {
    Case(Utf8PathBuf, Option<String>),
    Folder(Utf8PathBuf, Option<String>),
    /// With what it is called in the suite.
    Repo(Box<Task>, Option<String>),
}

/// What `tasks` names, in the order of the file, each folder's sorted.
pub(super) fn read_entries(
    root: &Node,
    surroundings: &Surroundings<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<Entry> {
    let Some(Value::List(items)) = root.get("tasks").map(|node| &node.value) else {
        return Vec::new();
    };
    if items.is_empty() {
        faults.push(root.fault("tasks", "`tasks` is empty"));
    }
    let mut entries = Vec::new();
    for item in items {
        match read_entry(item, surroundings) {
            Ok(more) => entries.extend(more),
            Err(more) => faults.extend(more),
        }
    }
    name_apart(&mut entries);
    entries
}

/// Tasks of the same repo would share a name, and with it a folder: those go by their ids.
fn name_apart(entries: &mut [Entry]) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.iter() {
        if let Entry::Repo(task, _) = entry {
            *times.entry(task.name.clone()).or_default() += 1;
        }
    }
    for entry in entries {
        if let Entry::Repo(task, Some(id)) = entry
            && times.get(&task.name).is_some_and(|times| *times > 1)
        {
            task.name.clone_from(id);
        }
    }
}

fn read_entry(item: &Node, surroundings: &Surroundings<'_>) -> Result<Vec<Entry>, Vec<Fault>> {
    let folder = surroundings.folder;
    let one = |fault: Fault| vec![fault];
    let keys = ["testcase", "folder", "repo"];
    let mut given = keys.iter().filter(|key| item.get(key).is_some());
    let (first, second) = (given.next(), given.next());
    match (first.copied(), second) {
        (Some(_), Some(other)) => {
            let message = "a task comes from a `testcase`, a `folder` or a `repo`: keep one";
            Err(one(Fault::new(item.key_span_of(other), message)))
        }
        (None, _) => {
            let message = "a task names a `testcase`, a `folder` or a `repo`";
            Err(one(Fault::new(item.span, message)))
        }
        (Some("repo"), None) => {
            let task = repo_task::read(item, surroundings)?;
            let text = |key: &str| item.get(key).and_then(Node::as_str).map(str::to_owned);
            let id = text("id").or_else(|| text("name"));
            Ok(vec![Entry::Repo(Box::new(task), id)])
        }
        (Some("folder"), None) => {
            let written: FolderEntry = item.read().map_err(one)?;
            let found = find::task_folders(&folder.join(&written.folder));
            if found.is_empty() {
                let message = format!("there is no task in {}", written.folder);
                let hint = format!("a task is a folder with a {}", find::TASK_FILE);
                return Err(one(item.fault("folder", message).with_hint(hint)));
            }
            let entry = |path| Entry::Folder(path, written.category.clone());
            Ok(found.into_iter().map(entry).collect())
        }
        (Some(_), None) => {
            let written: TestcaseEntry = item.read().map_err(one)?;
            let found = find::case_files(&folder.join(&written.testcase));
            if found.is_empty() {
                let message = format!("there is no test case {}", written.testcase);
                return Err(one(item.fault("testcase", message)));
            }
            let entry = |path| Entry::Case(path, written.category.clone());
            Ok(found.into_iter().map(entry).collect())
        }
    }
}

pub(super) fn load_tasks(
    entries: Vec<Entry>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Vec<Arc<Task>>, Vec<ConfigError>> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    for entry in entries {
        let (loaded, category) = match entry {
            Entry::Case(path, category) => (case::load(&path, env, settings), category),
            Entry::Folder(path, category) => (harbor::load(&path, env, settings), category),
            Entry::Repo(task, _) => (Ok(*task), None),
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
