//! Fills a clean copy: the agent's work, with the task's version of everything that decides how it is judged, and
//! with hidden tests.

use std::collections::BTreeSet;

use camino::Utf8Path;

use super::{
    Judging,
    bench::{Hidden, Setup},
    protect::{self, Circumstances, Merged, Owner},
    seal,
};
use crate::{
    tree,
    workspace::{ChangedFile, Entry, WorkspaceError},
};

/// How a copy was filled.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Files of the agent that were replaced or removed; a merged manifest names its keys.
    pub(super) restored: Vec<String>,
    /// Files that the agent changed and that are judged so.
    pub(super) agents: BTreeSet<String>,
    /// Hidden tests.
    pub(super) hidden: BTreeSet<String>,
}

/// Fill `copy` with `tree` as it is judged.
pub(super) async fn fill(
    setup: &Setup,
    judging: &Judging<'_>,
    tree: &str,
    copy: &Utf8Path,
) -> Result<Filled, WorkspaceError> {
    let workspace = judging.workspace;
    let (tree, mut filled) = guarded(setup, judging, tree).await?;
    workspace.clean_copy(&tree, copy).await?;
    let hidden = match &setup.hidden {
        Hidden::None => Vec::new(),
        Hidden::Revision(revision) => workspace.lay_over(revision, copy).await?,
        Hidden::Folder(folder) => {
            tree::lay_over(folder.as_std_path(), copy.as_std_path())?;
            seal::files(folder.as_std_path())?
        }
    };
    filled.hidden.extend(hidden);
    Ok(filled)
}

/// The tree to judge.
async fn guarded(
    setup: &Setup,
    judging: &Judging<'_>,
    tree: &str,
) -> Result<(String, Filled), WorkspaceError> {
    let workspace = judging.workspace;
    let changed = workspace.changed_files(tree).await?;
    let facts = circumstances(setup, judging, &changed).await?;
    let mut filled = Filled::default();
    let mut entries = Vec::new();
    for file in &changed {
        let share = match setup.protect.owner(file, &facts) {
            Owner::Agent => Share::Agents,
            Owner::Task => Share::Tasks,
            Owner::Shared => share(judging, file).await?,
        };
        match share {
            Share::Agents => {
                filled.agents.insert(file.path.clone());
            }
            Share::Tasks => {
                entries.push((file.name.clone(), file.base.clone()));
                filled.restored.push(file.path.clone());
            }
            Share::Merged(entry, keys) => {
                entries.push((file.name.clone(), Some(entry)));
                let keys = keys.join(", ");
                filled.restored.push(format!("{} ({keys})", file.path));
                filled.agents.insert(file.path.clone());
            }
        }
    }
    let tree = workspace.with_entries(tree, &entries).await?;
    Ok((tree, filled))
}

/// What is judged of one file.
enum Share {
    Agents,
    Tasks,
    Merged(Entry, Vec<String>),
}

/// Merge a manifest. One that is gone, no regular file or not readable is the task's.
async fn share(judging: &Judging<'_>, file: &ChangedFile) -> Result<Share, WorkspaceError> {
    let workspace = judging.workspace;
    let Some(entry) = file.work.as_ref().filter(|entry| entry.is_file()) else {
        return Ok(Share::Tasks);
    };
    let work = workspace.blob(entry).await?;
    let task = match file.base.as_ref().filter(|entry| entry.is_file()) {
        Some(entry) => Some(workspace.blob(entry).await?),
        None => None,
    };
    Ok(match protect::merge(&file.path, task.as_deref(), &work) {
        Merged::Same => Share::Agents,
        Merged::Unreadable => Share::Tasks,
        Merged::Changed(text, keys) => {
            Share::Merged(workspace.with_content(entry, text).await?, keys)
        }
    })
}

/// What has to be known to decide about the changed files. The reference is looked at only when it matters.
async fn circumstances(
    setup: &Setup,
    judging: &Judging<'_>,
    changed: &[ChangedFile],
) -> Result<Circumstances, WorkspaceError> {
    let workspace = judging.workspace;
    let mut facts = setup.facts.clone();
    let relatives = changed
        .iter()
        .flat_map(|file| protect::relatives(&file.path));
    let relatives: Vec<String> = relatives.collect();
    let on_base = workspace.existing(&workspace.base_tree, &relatives).await?;
    facts.on_base.extend(on_base);
    let is_agents = |file: &ChangedFile| setup.protect.owner(file, &facts) == Owner::Agent;
    if changed.iter().all(is_agents) {
        return Ok(facts);
    }
    let Some(reference) = judging.reference else {
        return Ok(facts);
    };
    match workspace.reference_tree(reference).await {
        Ok(tree) => {
            let of_reference = workspace.changed_files(&tree).await?;
            let paths = of_reference.into_iter().map(|file| file.path);
            facts.of_reference.extend(paths);
        }
        Err(WorkspaceError::NoTree) => {}
        Err(error) => return Err(error),
    }
    Ok(facts)
}
