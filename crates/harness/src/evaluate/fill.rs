//! Fills a clean copy: the agent's work, with the task's version of all files that affect judging,
//! and with hidden tests.

use std::collections::BTreeSet;

use camino::Utf8Path;
use proctor_record::fs::{beneath::UntrustedDir, dir};

use super::{
    Judging,
    clean_copy::{Hidden, Setup},
    inline_tests,
    protect::{self, Circumstances, Merged, Owner},
    seal,
    tests::Edit,
};
use crate::workspace::{ChangedFile, TreeEntry, WorkspaceError};

/// The largest number of settings files that are read for the files that they name.
const MOST_SETTINGS: usize = 32;

/// The result of filling a copy.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// Files of the agent that were replaced or removed; for a merged manifest with the replaced
    /// keys.
    pub(super) restored: Vec<String>,
    /// Files of the agent that are judged unchanged.
    pub(super) agents: BTreeSet<String>,
    /// Hidden tests.
    pub(super) hidden: BTreeSet<String>,
}

/// Fills `copy` with the tree to judge.
pub(super) async fn fill(
    setup: &Setup,
    judging: &Judging<'_>,
    tree: &str,
    copy: &Utf8Path,
) -> Result<Filled, WorkspaceError> {
    let workspace = judging.workspace;
    let (tree, mut filled) = guarded(setup, judging, tree).await?;
    workspace.clean_copy(&tree, copy).await?;
    let below = UntrustedDir::new(copy.to_owned());
    let inline = inline_tests::read(&below, &setup.inline_tests);
    let hidden = match &setup.hidden {
        Hidden::None => Vec::new(),
        Hidden::Revision(revision) => workspace.copy_over(revision, copy).await?,
        Hidden::Patch(patch) => workspace.copy_patched_over(patch, copy).await?,
        Hidden::Folder(folder) => {
            dir::copy_over(folder.as_std_path(), copy.as_std_path())?;
            UntrustedDir::new(folder.clone()).files(&seal::UNSEALED)
        }
    };
    inline_tests::merge(&below, &inline)?;
    filled.hidden.extend(hidden);
    filled.agents.retain(|path| !filled.hidden.contains(path));
    Ok(filled)
}

/// Edits files of a copy. Files with unexpected content are kept.
pub(super) fn edit(below: &UntrustedDir, edits: &[Edit]) -> std::io::Result<()> {
    for edit in edits {
        let is_there = below.metadata(&edit.path).is_ok();
        match &edit.before {
            None if !is_there => below.write(&edit.path, edit.after.as_bytes())?,
            Some(before)
                if below.read(&edit.path, u64::MAX).ok().as_deref() == Some(before.as_bytes()) =>
            {
                below.overwrite(&edit.path, edit.after.as_bytes())?;
            }
            _ => {}
        }
    }
    Ok(())
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
            Share::Agents => filled
                .agents
                .extend(file.work.as_ref().map(|_| file.path.clone())),
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

/// The version of one file that is judged.
enum Share {
    Agents,
    Tasks,
    Merged(TreeEntry, Vec<String>),
}

/// Merges a manifest. A missing, irregular or unreadable manifest is taken from the task.
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

/// The facts that determine the owners of changed files. The reference is read only if it matters.
async fn circumstances(
    setup: &Setup,
    judging: &Judging<'_>,
    changed: &[ChangedFile],
) -> Result<Circumstances, WorkspaceError> {
    let workspace = judging.workspace;
    let mut facts = setup.facts.clone();
    if changed.is_empty() {
        return Ok(facts);
    }
    let paths = changed.iter();
    let relatives = paths.flat_map(|file| setup.protect.relatives(&file.path));
    let relatives: BTreeSet<String> = relatives.collect();
    let relatives: Vec<String> = relatives.into_iter().collect();
    let on_base = workspace.existing(&workspace.base_tree, &relatives).await?;
    facts.on_base.extend(on_base);
    let mut included = included(judging, &facts).await?;
    included.extend(named_by_settings(setup, judging, changed).await?);
    facts.included = protect::lenient_globs(&included);
    facts.unvendored = unvendored(judging, changed).await?;
    // With a reference more files may be the task's.
    facts.has_reference = judging.reference.is_some();
    let is_agents = |file: &ChangedFile| setup.protect.owner(file, &facts) == Owner::Agent;
    let is_settled = changed.iter().all(is_agents);
    facts.has_reference = false;
    if is_settled {
        return Ok(facts);
    }
    let Some(reference) = judging.reference else {
        return Ok(facts);
    };
    match workspace.reference_tree(reference).await {
        Ok(tree) => {
            facts.has_reference = true;
            let of_reference = workspace.changed_files(&tree).await?;
            let paths = of_reference.into_iter().map(|file| file.path);
            facts.of_reference.extend(paths);
        }
        Err(WorkspaceError::NoTree) => {}
        Err(error) => return Err(error),
    }
    Ok(facts)
}

/// The files that the makefiles of the base include, directly or indirectly.
async fn included(
    judging: &Judging<'_>,
    facts: &Circumstances,
) -> Result<BTreeSet<String>, WorkspaceError> {
    let workspace = judging.workspace;
    let mut unread = protect::makefiles(facts);
    let mut patterns = BTreeSet::new();
    while let Some(file) = unread.pop() {
        let Some(text) = workspace.file_at(&workspace.base_tree, &file).await else {
            continue;
        };
        for pattern in protect::includes(&text, facts) {
            if patterns.insert(pattern.clone()) {
                unread.push(pattern);
            }
        }
    }
    let globs = protect::lenient_globs(&patterns);
    if patterns.iter().any(|it| it.contains(['*', '?', '['])) {
        let names = workspace.names_in(&workspace.base_tree).await?;
        for name in names.iter().filter(|name| globs.is_match(name)) {
            let text = workspace.file_at(&workspace.base_tree, name).await;
            patterns.extend(protect::includes(&text.unwrap_or_default(), facts));
        }
    }
    Ok(patterns)
}

/// Patterns of files that settings of the base name, and that settings name which they import. Settings are read only if
/// they mention a file that the work changed.
async fn named_by_settings(
    setup: &Setup,
    judging: &Judging<'_>,
    changed: &[ChangedFile],
) -> Result<BTreeSet<String>, WorkspaceError> {
    let workspace = judging.workspace;
    let base = &workspace.base_tree;
    let open = changed.iter().filter(|it| setup.protect.may_be_named(it));
    let words: BTreeSet<&str> = open.map(|file| mentioned_as(&file.path)).collect();
    let mut patterns = BTreeSet::new();
    if words.is_empty() {
        return Ok(patterns);
    }
    let names = workspace.settings_with(base, &words).await?;
    let mut unread: Vec<String> = names
        .into_iter()
        .filter(|it| protect::has_settings(it))
        .collect();
    let mut read = BTreeSet::new();
    while let Some(path) = unread.pop().filter(|_| read.len() < MOST_SETTINGS) {
        let Some(text) = workspace.file_at(base, &path).await else {
            continue;
        };
        read.insert(path.clone());
        patterns.extend(protect::files_of_settings(
            &path,
            &String::from_utf8_lossy(&text),
        ));
        if unread.is_empty() {
            let globs = protect::lenient_globs(&patterns);
            let names = workspace.names_in(base).await?.into_iter();
            unread.extend(names.filter(|it| globs.is_match(it) && !read.contains(it)));
        }
    }
    Ok(patterns)
}

/// The word by which settings mention a file: they may leave out its folder and its end.
fn mentioned_as(path: &str) -> &str {
    let path = Utf8Path::new(path);
    match path.file_stem() {
        Some("index" | "__init__") => path.parent().and_then(Utf8Path::file_name),
        stem => stem,
    }
    .unwrap_or_default()
}

/// Folders of Go modules in which the work adds vendored copies of modules that the base takes from
/// elsewhere.
async fn unvendored(
    judging: &Judging<'_>,
    changed: &[ChangedFile],
) -> Result<BTreeSet<String>, WorkspaceError> {
    let workspace = judging.workspace;
    let folders = changed
        .iter()
        .filter_map(|file| protect::vendored_below(&file.path));
    let mut found = BTreeSet::new();
    for folder in folders.collect::<BTreeSet<_>>() {
        let [module, copies] = ["go.mod", "vendor/modules.txt"].map(|it| protect::join(folder, it));
        let text = workspace.file_at(&workspace.base_tree, &module).await;
        let is_vendored = !workspace
            .existing(&workspace.base_tree, &[copies])
            .await?
            .is_empty();
        if text.is_some_and(|text| protect::needs_modules(&text)) && !is_vendored {
            found.insert(folder.to_owned());
        }
    }
    Ok(found)
}
