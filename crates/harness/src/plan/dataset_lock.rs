//! The lock file of a suite: the commits of its git datasets and the digests of its tasks.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Span};
use proctor_record::{fs::dir, record::TaskKind};
use serde::Deserialize;

use crate::{config::Source, task::Task, workspace::GitDataset};

/// The version of the format.
const VERSION: u32 = 1;
/// The most tasks that an error lists.
const MOST_LISTED: usize = 20;

/// The lock file of a suite.
#[derive(Clone, Debug)]
pub struct DatasetLock {
    /// Its path.
    pub path: Utf8PathBuf,
    /// The commits of git datasets.
    pub datasets: Vec<PinnedDataset>,
    /// The digests of tasks, by name.
    pub tasks: BTreeMap<String, String>,
}

/// The commit of a git dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedDataset {
    /// The repository as the suite names it.
    pub git: String,
    /// The branch, tag or commit of the suite.
    #[serde(rename = "ref")]
    pub revision: String,
    /// The commit.
    pub commit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockAsWritten {
    version: u32,
    datasets: Vec<PinnedDataset>,
    tasks: BTreeMap<String, String>,
}

impl DatasetLock {
    /// The path of the lock of a suite: beside it, with the extension `lock`.
    pub fn path_of(suite: &Utf8Path) -> Utf8PathBuf {
        suite.with_extension("lock")
    }

    /// Reads the lock of a suite; `None` if it has none.
    pub fn beside(suite: &Utf8Path) -> Result<Option<DatasetLock>, ConfigError> {
        let path = DatasetLock::path_of(suite);
        if !path.is_file() {
            return Ok(None);
        }
        let (source, root) = Source::read_as_is(&path)?;
        let read = root.read::<LockAsWritten>();
        let written = read.map_err(|fault| source.error(vec![fault]))?;
        if written.version != VERSION {
            let message = format!("version {} is not supported", written.version);
            let fault = root.fault("version", message).with_hint(update_hint(&path));
            return Err(source.error(vec![fault]));
        }
        Ok(Some(DatasetLock {
            path,
            datasets: written.datasets,
            tasks: written.tasks,
        }))
    }

    /// The commit of a dataset.
    pub(super) fn commit(&self, dataset: &GitDataset) -> Option<&str> {
        let is_it =
            |pin: &&PinnedDataset| pin.git == dataset.git && pin.revision == dataset.revision;
        let pin = self.datasets.iter().find(is_it);
        pin.map(|pin| pin.commit.as_str())
    }

    /// The digests of tasks. A repository at a tag is named by the suite itself.
    pub(super) fn digests(tasks: &[Arc<Task>]) -> BTreeMap<String, String> {
        let locked = tasks.iter().filter(|task| task.kind != TaskKind::Repo);
        let pair = |task: &Arc<Task>| (task.name.clone(), task.config_hash.clone());
        locked.map(pair).collect()
    }

    /// Fails unless these are the tasks of the lock.
    pub(super) fn check(&self, tasks: &[Arc<Task>]) -> Result<(), ConfigError> {
        let differences = differences(&self.tasks, &DatasetLock::digests(tasks));
        if differences.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for line in differences.iter().take(MOST_LISTED) {
            let _ = write!(lines, "\n  {line}");
        }
        if let Some(more @ 1..) = differences.len().checked_sub(MOST_LISTED) {
            let _ = write!(lines, "\n  and {more} more");
        }
        let message = format!("the tasks of the suite differ from its lock file:{lines}");
        let fault = Fault::new(Span::default(), message).with_hint(update_hint(&self.path));
        Err(ConfigError::whole(&self.path, fault))
    }

    /// The differences of the tasks from those of an earlier lock; one line each.
    pub fn changes_since(&self, earlier: Option<&DatasetLock>) -> Vec<String> {
        let nothing = BTreeMap::new();
        differences(earlier.map_or(&nothing, |lock| &lock.tasks), &self.tasks)
    }

    /// Writes the file.
    pub fn write(&self) -> std::io::Result<()> {
        dir::write_atomically(self.path.as_std_path(), self.text().as_bytes())
    }

    /// The content of the file. JSON strings are valid in YAML.
    fn text(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = String::from(
            "# Written by `proctor task lock`, which also updates it. Runs refuse other tasks.\n",
        );
        let _ = writeln!(text, "version: {VERSION}");
        text.push_str(if self.datasets.is_empty() {
            "datasets: []\n"
        } else {
            "datasets:\n"
        });
        for pin in &self.datasets {
            let [git, revision, commit] =
                [&pin.git, &pin.revision, &pin.commit].map(|it| quoted(it));
            let _ = writeln!(
                text,
                "  - git: {git}\n    ref: {revision}\n    commit: {commit}"
            );
        }
        text.push_str(if self.tasks.is_empty() {
            "tasks: {}\n"
        } else {
            "tasks:\n"
        });
        for (name, digest) in &self.tasks {
            let _ = writeln!(text, "  {}: {}", quoted(name), quoted(digest));
        }
        text
    }
}

fn update_hint(lock: &Utf8Path) -> String {
    let suite = lock.file_stem().unwrap_or_default();
    format!(
        "`proctor task lock` with the suite `{suite}` updates the lock file and lists the changes"
    )
}

/// The tasks that are changed, missing or new.
fn differences(locked: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let changed = locked
        .iter()
        .filter_map(|(name, digest)| match found.get(name) {
            Some(now) if now == digest => None,
            Some(_) => Some(format!("{name}: changed")),
            None => Some(format!("{name}: missing")),
        });
    let new = found.keys().filter(|name| !locked.contains_key(*name));
    changed
        .chain(new.map(|name| format!("{name}: new")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(folder: &Utf8Path, tasks: &[(&str, &str)]) -> DatasetLock {
        let pair = |(name, digest): &(&str, &str)| ((*name).to_owned(), (*digest).to_owned());
        DatasetLock {
            path: DatasetLock::path_of(&folder.join("proctor.yaml")),
            datasets: vec![PinnedDataset {
                git: "https://host/a \"b\"".to_owned(),
                revision: "main".to_owned(),
                commit: "0123".to_owned(),
            }],
            tasks: tasks.iter().map(pair).collect(),
        }
    }

    #[test]
    fn lock_is_read_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        let suite = folder.join("proctor.yaml");
        assert!(DatasetLock::beside(&suite).unwrap().is_none());
        for tasks in [&[("org/a: #", "12"), ("null", "1e5")][..], &[]] {
            let written = lock(folder, tasks);
            written.write().unwrap();
            let read = DatasetLock::beside(&suite).unwrap().unwrap();
            assert_eq!(read.datasets, written.datasets);
            assert_eq!(read.tasks, written.tasks);
        }
        fs_err::write(
            folder.join("proctor.lock"),
            "version: 2\ndatasets: []\ntasks: {}\n",
        )
        .unwrap();
        let error = DatasetLock::beside(&suite).unwrap_err().to_string();
        assert!(error.contains("version 2 is not supported"), "{error}");
        assert!(error.contains("proctor task lock"), "{error}");
    }

    #[test]
    fn differences_name_each_task() {
        let folder = Utf8Path::new("/x");
        let earlier = lock(folder, &[("a", "1"), ("b", "1"), ("c", "1")]);
        let now = lock(folder, &[("a", "1"), ("b", "2"), ("d", "1")]);
        let changes = now.changes_since(Some(&earlier));
        assert_eq!(changes, ["b: changed", "c: missing", "d: new"]);
        assert_eq!(now.changes_since(None).len(), 3);
        assert!(now.changes_since(Some(&now)).is_empty());
    }
}
