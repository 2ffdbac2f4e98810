//! Datasets from git: fetched before a suite is resolved, and found in the cache then.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span, Value};
use proctor_record::error_chain;
use proctor_sandbox::host::Host;

use super::{
    dataset_lock::{DatasetLock, PinnedDataset},
    suite::resolve_unlocked,
};
use crate::{
    config::{
        FolderEntry, GitSource, Repo, Settings, SuiteConfig, SuiteFile, TaskEntry, revision_problem,
    },
    workspace::{GitDataset, source::SourceError},
};

/// Why datasets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The suite is not valid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// A repository could not be fetched.
    #[error("cannot fetch the dataset {git}: {reason}")]
    Fetch {
        /// The repository.
        git: String,
        /// The error with its causes.
        reason: String,
    },
    /// A signal ended the command.
    #[error("interrupted")]
    Interrupted,
}

/// The place of datasets from git.
#[derive(Clone, Copy)]
pub(super) struct FetchedDatasets<'a> {
    pub(super) lock: Option<&'a DatasetLock>,
    pub(super) cache: Option<&'a Utf8Path>,
}

impl FetchedDatasets<'_> {
    /// The path of an entry's tasks.
    pub(super) fn path(
        &self,
        node: &Node,
        entry: &FolderEntry,
        folder: &Utf8Path,
    ) -> Result<Utf8PathBuf, Fault> {
        let Some(dataset) = git_dataset(node, entry, folder)? else {
            return Ok(folder.join(&entry.folder));
        };
        let Some(commit) = self.commit(&dataset) else {
            let message = format!("the commit of `{}` is not known", dataset.revision);
            let hint = "pin it with `proctor task lock`, or set `ref` to a full commit id";
            let key = entry.revision.as_ref().map_or("git", |_| "ref");
            return Err(node.fault(key, message).with_hint(hint));
        };
        let files = cache(node, self.cache)?;
        let files = dataset.files(files, commit);
        if files.is_dir() {
            Ok(files.join(&entry.folder))
        } else {
            let message = format!("commit {commit} has not been fetched");
            Err(node
                .fault("git", message)
                .with_hint("`proctor validate` fetches it"))
        }
    }

    fn commit<'b>(&'b self, dataset: &'b GitDataset) -> Option<&'b str> {
        let pinned = || self.lock.and_then(|lock| lock.commit(dataset));
        dataset.commit().or_else(pinned)
    }
}

fn cache<'a>(node: &Node, cache: Option<&'a Utf8Path>) -> Result<&'a Utf8Path, Fault> {
    let missing = || {
        node.fault(
            "git",
            "there is no cache directory for datasets: HOME is not set",
        )
    };
    cache.ok_or_else(missing)
}

/// The git repository of an entry.
fn git_dataset(
    node: &Node,
    entry: &FolderEntry,
    folder: &Utf8Path,
) -> Result<Option<GitDataset>, Fault> {
    let Some(git) = &entry.git else {
        return match entry.revision {
            Some(_) => Err(node.fault("ref", "`ref` has no effect without `git`")),
            None => Ok(None),
        };
    };
    let invalid = |problem: String| node.fault("git", format!("invalid `git`: {problem}"));
    let repo = Repo::parse(git, folder).map_err(invalid)?;
    if has_password(git) {
        let fault = node.fault("git", "the URL contains a password");
        return Err(fault.with_hint("use a credential helper of git: lock files have the URL"));
    }
    let is_inside = |part| matches!(part, Utf8Component::Normal(_) | Utf8Component::CurDir);
    if !Utf8Path::new(&entry.folder).components().all(is_inside) {
        let message = "`folder` must be a path in the repository of `git`";
        return Err(node.fault("folder", message));
    }
    let revision = entry.revision.as_deref().unwrap_or("HEAD");
    if let Some(problem) = revision_problem(revision) {
        return Err(node.fault("ref", format!("invalid `ref`: {problem}")));
    }
    Ok(Some(GitDataset {
        repo,
        git: git.trim().to_owned(),
        revision: revision.to_owned(),
    }))
}

fn has_password(url: &str) -> bool {
    let authority = url
        .split_once("://")
        .map(|(_, rest)| rest.split('/').next());
    let user = authority.flatten().and_then(|it| it.rsplit_once('@'));
    user.is_some_and(|(user, _)| user.contains(':'))
}

/// Fetches the pinned commits of a suite's datasets that are not in the cache. Other faults of the
/// suite are those of resolving it.
pub async fn fetch_datasets(
    file: &SuiteFile,
    host: &Host,
    settings: &Settings,
) -> Result<(), DatasetError> {
    if !file.has_git_datasets() {
        return Ok(());
    }
    let Ok(config) = file.clone().read_config(&host.env, settings) else {
        return Ok(());
    };
    let lock = DatasetLock::beside(file.path());
    let lock = lock.map_err(|error| DatasetError::Config(vec![error]))?;
    let known = FetchedDatasets {
        lock: lock.as_ref(),
        cache: settings.datasets.as_deref(),
    };
    let mut faults = Vec::new();
    for (node, dataset) in git_datasets(&config, &mut faults) {
        let Some(commit) = known.commit(&dataset) else {
            continue;
        };
        let fetched = fetch(node, &dataset, commit, (known.cache, host)).await?;
        faults.extend(fetched.err());
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(DatasetError::Config(vec![config.source.error(faults)]))
    }
}

/// Fetches a dataset of the command line. Returns the argument for its commit.
pub async fn pin_source(
    source: &GitSource,
    host: &Host,
    settings: &Settings,
) -> Result<Utf8PathBuf, DatasetError> {
    let argument = Utf8Path::new("command line");
    let invalid = |fault| DatasetError::Config(vec![ConfigError::whole(argument, fault)]);
    let entry = FolderEntry {
        folder: source.folder.clone(),
        git: Some(source.git.clone()),
        revision: source.revision.clone(),
        ..FolderEntry::default()
    };
    let node = Node {
        span: Span::default(),
        value: Value::Null,
    };
    let dataset = git_dataset(&node, &entry, &host.cwd).map_err(invalid)?;
    let dataset = dataset.expect("the entry has a repository");
    let place = (settings.datasets.as_deref(), host);
    let commit = fetch(&node, &dataset, &dataset.revision, place).await?;
    Ok(source.at(&commit.map_err(invalid)?).into())
}

/// Makes the lock of a suite: the present commits of its datasets, and the digests of its tasks.
pub async fn lock_suite(
    file: SuiteFile,
    host: &Host,
    settings: &Settings,
) -> Result<DatasetLock, DatasetError> {
    let path = DatasetLock::path_of(file.path());
    let config = file.read_config(&host.env, settings);
    let config = config.map_err(|error| DatasetError::Config(vec![error]))?;
    let mut faults = Vec::new();
    let mut datasets: Vec<PinnedDataset> = Vec::new();
    for (node, dataset) in git_datasets(&config, &mut faults) {
        let cache = settings.datasets.as_deref();
        match fetch(node, &dataset, &dataset.revision, (cache, host)).await? {
            Ok(commit) => datasets.push(PinnedDataset {
                git: dataset.git,
                revision: dataset.revision,
                commit,
            }),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(DatasetError::Config(vec![config.source.error(faults)]));
    }
    datasets.sort();
    datasets.dedup();
    let mut lock = DatasetLock {
        path,
        datasets,
        tasks: BTreeMap::new(),
    };
    let suite = resolve_unlocked(config, settings, Some(&lock)).map_err(DatasetError::Config)?;
    lock.tasks = DatasetLock::digests(&suite.tasks);
    Ok(lock)
}

fn git_datasets<'a>(
    config: &'a SuiteConfig,
    faults: &mut Vec<Fault>,
) -> Vec<(&'a Node, GitDataset)> {
    let mut found = Vec::new();
    for (node, entry) in &config.tasks {
        let TaskEntry::Folder(entry) = entry else {
            continue;
        };
        match git_dataset(node, entry, &config.folder) {
            Ok(dataset) => found.extend(dataset.map(|dataset| (node, dataset))),
            Err(fault) => faults.push(fault),
        }
    }
    found
}

/// Fetches a revision of a dataset. Returns the commit, or the fault of the entry.
async fn fetch(
    node: &Node,
    dataset: &GitDataset,
    revision: &str,
    (known, host): (Option<&Utf8Path>, &Host),
) -> Result<Result<String, Fault>, DatasetError> {
    let cache = match cache(node, known) {
        Ok(cache) => cache,
        Err(fault) => return Ok(Err(fault)),
    };
    let is_commit = dataset.commit() == Some(revision) || revision != dataset.revision;
    if is_commit && dataset.files(cache, revision).is_dir() {
        return Ok(Ok(revision.to_owned()));
    }
    match dataset.fetch(revision, cache, host).await {
        Ok(commit) => Ok(Ok(commit)),
        Err(error) if error.is_usage() => {
            let key = match error {
                SourceError::UnknownRevision { .. } if node.get("ref").is_some() => "ref",
                _ => "git",
            };
            Ok(Err(node.fault(key, error.to_string())))
        }
        Err(error) => Err(DatasetError::Fetch {
            git: dataset.git.clone(),
            reason: error_chain::chain(&error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_found() {
        for (url, expected) in [
            ("https://user:secret@host/a", true),
            ("https://user@host/a", false),
            ("https://host:8080/a:b@c", false),
            ("git@host:a/b", false),
            ("ssh://git@host:22/a", false),
            ("../set", false),
        ] {
            assert_eq!(has_password(url), expected, "{url}");
        }
    }
}
