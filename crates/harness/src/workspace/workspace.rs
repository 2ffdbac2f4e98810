//! The workspace of one trial and the change against its baseline.

use std::sync::{Arc, Mutex};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{
    fs::{beneath::UntrustedDir, dir},
    platform, record,
};
use proctor_sandbox::{
    git::{Git, GitError},
    host::Host,
};

use super::{
    Base, attributes,
    base::commit_base,
    commit::write_commit,
    head,
    large::LargeFile,
    nested::NestedRepos,
    numstat::{parse_numstat, split_patch},
    overlay::Overlay,
    pristine::Pristine,
    survey::Survey,
};
use crate::{
    config::History,
    workspace::source::{Source, SourceError},
};

/// The branch of workspaces.
pub(super) const BRANCH: &str = "refs/heads/main";

/// The file of a git directory that lists other object directories.
pub(super) const ALTERNATES: &str = "objects/info/alternates";

/// A workspace of an agent.
#[derive(Debug)]
pub struct Workspace {
    /// The agent's files.
    pub(crate) files: UntrustedDir,
    /// The checked-out commit of the source, if the source has commits.
    pub source_commit: Option<String>,
    /// The single commit of the workspace, with the files of the agent.
    pub base_commit: String,
    /// The tree that the work is compared with: the task's, without the files of the agent.
    pub base_tree: String,
    /// Git on the baseline, with the workspace's files.
    pub(super) git: Git,
    /// The base, whose objects the baseline uses.
    pub(super) base: Arc<Base>,
    /// The paths of submodules in the source: empty folders here.
    submodules: Vec<Vec<u8>>,
    /// The baseline before the agent started.
    pub(super) pristine: Mutex<Pristine>,
    /// The files of the agent that are not the task's.
    pub(super) overlay: Option<Overlay>,
}

/// Why a workspace could not be created or read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The repo could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Two names of the source are the same on this machine's file system.
    #[error(
        "the repo has both `{one}` and `{other}`, which are the same file here: the file system ignores case"
    )]
    SameName {
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// The reference solution is a script, whose result is unknown.
    #[error("the reference solution is a script")]
    NoTree,
}

/// The change of an agent.
#[derive(Clone, Debug)]
pub struct Change {
    /// The final tree of the workspace, without ignored files.
    pub tree: String,
    /// One entry for each changed file.
    pub files: Vec<FileChange>,
    /// The workspace's own HEAD, if there still is one.
    pub head: Option<String>,
    /// Remarks for the record.
    pub notes: Vec<String>,
    /// Why the tree is incomplete, if it is.
    pub left_out: Option<String>,
}

/// The updated index.
#[derive(Default)]
pub(super) struct Staged {
    pub(super) tree: String,
    large: Vec<LargeFile>,
    notes: Vec<String>,
    left_out: Option<String>,
}

/// The origin of a file that differs from the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The base has it: the agent changed or removed it.
    Base,
    /// The agent created it.
    Agent,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The path (the new one if it was renamed).
    pub path: String,
    /// Lines added; `None` for a binary file.
    pub added: Option<u64>,
    /// Lines removed; `None` for a binary file.
    pub removed: Option<u64>,
}

impl Workspace {
    /// Creates the workspace `path` from `base`; the baseline is created in `private`.
    pub async fn create(
        base: &Arc<Base>,
        host: &Host,
        path: &Utf8Path,
        private: &Utf8Path,
    ) -> Result<Workspace, WorkspaceError> {
        let baseline = private.join("baseline.git");
        make_git_dir(&baseline)?;
        fs::create_dir_all(path)?;
        let git = Git::new(host, &baseline).with_files(path);
        let (base_commit, base_tree) = match (&base.packed, &base.source) {
            (Some(packed), _) => {
                packed.lend_to(&baseline)?;
                check_names(&git, &packed.tree, path).await?;
                (packed.commit.clone(), packed.tree.clone())
            }
            (None, source) => {
                if let Source::Folder { path: folder } = source {
                    // Runs may be stored in the folder itself.
                    let runs = record::RUN_DIRS.map(|name| folder.join(name));
                    let keep = |path: &std::path::Path| !runs.iter().any(|runs| path == runs);
                    dir::copy_where(folder.as_std_path(), path.as_std_path(), &keep)?;
                }
                git.run(["add", "--all", "--force"]).await?;
                let tree = git.line(["write-tree"]).await?;
                let commit = commit_base(&baseline, &tree, "a folder")?;
                fs::write(baseline.join(BRANCH), format!("{commit}\n"))?;
                (commit, tree)
            }
        };
        // `read-tree` leaves no reflog and no ORIG_HEAD: the workspace has one commit and no past.
        git.run(["read-tree", "-u", "--reset", &base_commit])
            .await?;
        let submodules = submodules(&git, path).await?;
        let packed = base.packed.as_ref();
        let workspace = Workspace {
            files: UntrustedDir::new(path),
            submodules,
            source_commit: packed.map(|packed| packed.source_commit.clone()),
            base_commit,
            base_tree,
            git,
            base: Arc::clone(base),
            pristine: Mutex::default(),
            overlay: None,
        };
        workspace.give_repository()?;
        workspace.fix_attributes().await?;
        workspace.seal();
        Ok(workspace)
    }

    /// The path of its directory, for child processes and containers.
    pub fn path(&self) -> &Utf8Path {
        self.files.path_for_child()
    }

    /// Gives the agent its own repository: a copy of the baseline with the objects of the base.
    fn give_repository(&self) -> std::io::Result<()> {
        let own = self.path().join(".git");
        let ours = self.git.dir().join(attributes::FILE);
        let keep = |path: &std::path::Path| path != ours.as_std_path();
        dir::copy_where(self.git.dir().as_std_path(), own.as_std_path(), &keep)?;
        if let Some(packed) = &self.base.packed {
            fs::remove_file(own.join(ALTERNATES))?;
            dir::copy_over(
                packed.dir.join("objects").as_std_path(),
                own.join("objects").as_std_path(),
            )?;
        }
        Ok(())
    }

    /// Determines the agent's change and writes it as a patch to `patch`.
    pub async fn change(&self, patch: &Utf8Path) -> Result<Change, WorkspaceError> {
        let git = &self.git;
        self.unseal().await?;
        let Staged {
            tree,
            large,
            mut notes,
            left_out,
        } = self.stage().await?;
        // A restarted agent continues from here.
        self.seal();
        notes.extend(large.iter().map(LargeFile::note));
        let left_out = left_out.or_else(|| large.first().map(LargeFile::left_out));
        let large = large.iter().map(LargeFile::change);
        let head = head::read(&self.files);
        let (tree, own) = self.without_overlay(tree).await?;
        if !own.is_empty() {
            let own = own.join(", ");
            notes.push(format!(
                "the agent changed files of its own variant, which are not judged: {own}"
            ));
        }
        if tree == self.base_tree {
            fs::write(patch, "")?;
            return Ok(Change {
                tree,
                files: large.collect(),
                head,
                notes,
                left_out,
            });
        }
        let diff = [
            "diff",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--binary",
            "--full-index",
            "--numstat",
            "-z",
            "--patch",
            &self.base_tree,
            &tree,
        ];
        let both = git.dir().join("change");
        git.run_to_file(diff, &both).await?;
        let files = split_patch(&both, patch)?;
        fs::remove_file(both)?;
        Ok(Change {
            tree,
            files: files.into_iter().chain(large).collect(),
            head,
            notes,
            left_out,
        })
    }

    /// Updates our own index from the workspace, except large files.
    pub(super) async fn stage(&self) -> Result<Staged, WorkspaceError> {
        let git = &self.git;
        let mut staged = Staged::default();
        let notes = &mut staged.notes;
        let Survey { large, nested } = Survey::of(&self.files);
        for git in &nested {
            notes.push(format!(
                "the agent created a git repository at {}; its files are treated as regular files",
                git.display()
            ));
        }
        let filled = self.filled_submodules();
        if !nested.is_empty() || !filled.is_empty() {
            git.run(["read-tree", &self.base_commit]).await?;
        }
        if !filled.is_empty() {
            // Git does not accept files at the path of a submodule.
            let remove = ["update-index", "--force-remove", "-z", "--stdin"];
            git.run_with_input(remove, filled.concat()).await?;
            notes.push(
                "the agent created files at the path of a submodule; they are treated as regular files".to_owned(),
            );
        }
        staged.large = self.large_files(large).await?;
        // Git would add a nested repository as a link only, or not at all.
        let nested = NestedRepos::hide(nested, &git.dir().join("hidden"))?;
        if self.add_all(&staged.large).await.is_err() {
            git.run(["read-tree", &self.base_commit]).await?;
            if let Err(error) = self.add_all(&staged.large).await {
                let unreadable = format!("some files are not readable: {error}");
                notes.push(unreadable.clone());
                staged.left_out = Some(unreadable);
            }
        }
        nested.restore()?;
        staged.tree = git.line(["write-tree"]).await?;
        Ok(staged)
    }

    /// The submodules that are no longer empty, each followed by NUL.
    fn filled_submodules(&self) -> Vec<Vec<u8>> {
        let is_filled = |name: &&Vec<u8>| {
            let names = self.files.names(platform::path_of(name));
            names.is_ok_and(|names| !names.is_empty())
        };
        let filled = self.submodules.iter().filter(is_filled);
        filled.map(|name| [name, &b"\0"[..]].concat()).collect()
    }

    /// Writes the files of `tree` to the new directory `to`, for judging.
    pub async fn clean_copy(&self, tree: &str, to: &Utf8Path) -> Result<(), WorkspaceError> {
        fs::create_dir_all(to)?;
        let index = self
            .git
            .dir()
            .join(format!("index-{}", uuid::Uuid::now_v7()));
        let git = self
            .git
            .with_files(to)
            .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
        git.run(["read-tree", "-u", "--reset", tree]).await?;
        fs::remove_file(&index)?;
        Ok(())
    }

    /// The text of a file of `tree`; `None` if it does not exist.
    pub async fn text_of(
        &self,
        tree: &str,
        path: &Utf8Path,
    ) -> Result<Option<String>, WorkspaceError> {
        let listed = self
            .git
            .run(["ls-tree", "-z", "--full-tree", tree, "--", path.as_str()])
            .await?;
        let listed = String::from_utf8_lossy(&listed);
        let about = listed.split('\t').next().unwrap_or_default();
        match about.split(' ').collect::<Vec<_>>().as_slice() {
            [_, "blob", blob] => {
                let bytes = self.git.run(["cat-file", "blob", blob]).await?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Makes the current workspace the base: changes before the agent started are not the agent's
    /// work.
    pub async fn settle(&mut self) -> Result<(), WorkspaceError> {
        let tree = self.stage().await?.tree;
        if tree == self.base_tree {
            return Ok(());
        }
        let message = "Base of the trial: after the installation";
        self.commit_start(&tree, message).await?;
        self.base_tree = tree;
        self.renew_repository().await
    }

    /// Makes a commit with this tree the start of the agent.
    pub(super) async fn commit_start(
        &mut self,
        tree: &str,
        message: &str,
    ) -> Result<(), WorkspaceError> {
        let baseline = self.git.dir().to_owned();
        let parent = self.has_history().then_some(self.base_commit.as_str());
        self.base_commit = write_commit(&baseline, tree, parent, message)?;
        fs::write(baseline.join(BRANCH), format!("{}\n", self.base_commit))?;
        self.git
            .run(["read-tree", "--reset", &self.base_commit])
            .await?;
        Ok(())
    }

    /// Replaces the agent's repository by one with the current start.
    pub(super) async fn renew_repository(&self) -> Result<(), WorkspaceError> {
        self.files.remove(".git")?;
        self.give_repository()?;
        // The baseline keeps the objects of the first tree for the patch of the installation.
        let own = self.git.at(&self.path().join(".git"));
        own.run(["prune", "--expire=now"]).await?;
        self.fix_attributes().await?;
        self.seal();
        Ok(())
    }

    /// Whether the agent can see the commits before the start commit.
    fn has_history(&self) -> bool {
        let packed = self.base.packed.as_ref();
        packed.is_some_and(|packed| packed.history == History::Full)
    }

    /// The tree of another commit of the source.
    pub async fn tree_of(&self, commit: &str) -> Result<String, WorkspaceError> {
        Ok(self.base.tree_of(commit).await?)
    }

    /// The changed files between another commit of the source and the agent's work.
    pub async fn files_since(
        &self,
        commit: &str,
        tree: &str,
    ) -> Result<Vec<FileChange>, WorkspaceError> {
        let git = &self.git;
        let tree_of_commit = self.base.tree_of(commit).await?;
        if let Source::Git { git: from, .. } = &self.base.source {
            git.copy_tree_from(from, &tree_of_commit).await?;
        }
        let numstat = git
            .run([
                "diff",
                "--find-renames",
                "--no-ext-diff",
                "--no-textconv",
                "--numstat",
                "-z",
                &tree_of_commit,
                tree,
            ])
            .await?;
        Ok(parse_numstat(&numstat))
    }

    /// The files and lines in which two trees differ, including binary files. A renamed file is one
    /// removed and one added.
    pub async fn lines_between(
        &self,
        one: &str,
        other: &str,
    ) -> Result<Vec<FileChange>, WorkspaceError> {
        let numstat = self
            .git
            .run([
                "diff",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                "--numstat",
                "-z",
                one,
                other,
            ])
            .await?;
        self.with_binary_lines(one, other, &parse_numstat(&numstat))
            .await
    }

    /// Writes the difference between two trees to `patch`.
    pub async fn write_patch(
        &self,
        one: &str,
        other: &str,
        patch: &Utf8Path,
    ) -> Result<(), WorkspaceError> {
        let diff = [
            "diff",
            "--binary",
            "--full-index",
            "--no-ext-diff",
            "--no-textconv",
            one,
            other,
        ];
        self.git.run_to_file(diff, patch).await?;
        Ok(())
    }
}

/// Refuses names that are the same file on the workspace's file system.
async fn check_names(git: &Git, tree: &str, folder: &Utf8Path) -> Result<(), WorkspaceError> {
    if platform::tells_case(folder.as_std_path()) {
        return Ok(());
    }
    let names = git.run(["ls-tree", "-r", "-t", "-z", "--name-only", tree]);
    let names = String::from_utf8_lossy(&names.await?).into_owned();
    match same_but_for_case(names.split_terminator('\0')) {
        None => Ok(()),
        Some((one, other)) => Err(WorkspaceError::SameName {
            one: one.to_owned(),
            other: other.to_owned(),
        }),
    }
}

/// Two names that differ only in case.
fn same_but_for_case<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'a str, &'a str)> {
    let mut seen = std::collections::BTreeMap::new();
    for name in names {
        if let Some(other) = seen.insert(name.to_lowercase(), name) {
            return Some((other, name));
        }
    }
    None
}

/// The paths of submodules in a new workspace.
async fn submodules(git: &Git, path: &Utf8Path) -> Result<Vec<Vec<u8>>, GitError> {
    if !path.join(".gitmodules").is_file() {
        return Ok(Vec::new());
    }
    // `160000 <commit> 0 TAB <path> NUL`
    let index = git.run(["ls-files", "--stage", "-z"]).await?;
    let entries = index.split(|byte| *byte == 0);
    let links = entries.filter(|entry| entry.starts_with(b"160000 "));
    let names = links.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Creates a minimal git directory. `git init` would copy templates and hooks.
pub(super) fn make_git_dir(path: &Utf8Path) -> std::io::Result<()> {
    fs::create_dir_all(path.join("objects"))?;
    fs::create_dir_all(path.join("refs/heads"))?;
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n")?;
    let own = platform::git_config(path.as_std_path());
    fs::write(
        path.join("config"),
        format!("[core]\n\trepositoryformatversion = 0\n{own}\tbare = false\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_only_in_their_case_are_found() {
        let names = ["a", "b/Read.me", "b/x", "B"];
        assert_eq!(same_but_for_case(names[..3].iter().copied()), None);
        let names = ["b", "b/Read.me", "b/README", "b/read.ME"];
        let found = same_but_for_case(names.into_iter());
        assert_eq!(found, Some(("b/Read.me", "b/read.ME")));
    }
}
