//! The trees of a candidate: the four states that are tested, and the parts of the task.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_sandbox::{
    git::{Git, GitError},
    host::Host,
};

use crate::{
    error::MineError,
    history::{FileDiff, Repository, Unit, read_files},
    split::Split,
};

/// All commits of tasks have the same author and time, so that equal trees are equal commits.
const IDENTITY: &[(&str, &str)] = &[
    ("GIT_AUTHOR_NAME", "Proctor"),
    ("GIT_AUTHOR_EMAIL", "proctor@localhost"),
    ("GIT_AUTHOR_DATE", "2000-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "Proctor"),
    ("GIT_COMMITTER_EMAIL", "proctor@localhost"),
    ("GIT_COMMITTER_DATE", "2000-01-01T00:00:00Z"),
];

/// Attributes of a repository that would change its archives.
const ARCHIVE_ATTRIBUTES: &str = "* -export-ignore -export-subst\n";

/// A change of a tree: the path, and the mode and blob, or `None` to remove the file.
type TreeChange = (String, Option<(String, String)>);

/// A git repository for trees that the user's repository does not have. It borrows the objects of
/// the user's repository, which is never changed.
pub(crate) struct TreeStore {
    pub(crate) git: Git,
    pub(crate) path: Utf8PathBuf,
}

/// The trees of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trees {
    /// The parent, without tests that the commit removes. Agents start from it.
    pub(crate) base: String,
    /// The base with the tests of the commit.
    pub(crate) with_tests: String,
    /// The commit.
    pub(crate) commit: String,
    /// The base with the source part of the commit: the reference solution.
    pub(crate) solution: String,
    /// The solution with the tests of the commit: the state that is judged.
    pub(crate) rebuilt: String,
}

impl TreeStore {
    pub(crate) async fn create(
        path: &Utf8Path,
        repo: &Repository,
        host: &Host,
    ) -> Result<TreeStore, MineError> {
        let git = Git::new(host, path);
        let format = repo.git.line(["rev-parse", "--show-object-format"]).await?;
        let format = format!("--object-format={format}");
        fs_err::create_dir_all(path)?;
        git.run(["init", "--quiet", "--bare", &format]).await?;
        let objects = format!("{}\n", repo.objects);
        fs_err::write(path.join("objects/info/alternates"), objects)?;
        // Archives have all files.
        fs_err::create_dir_all(path.join("info"))?;
        fs_err::write(path.join("info/attributes"), ARCHIVE_ATTRIBUTES)?;
        Ok(TreeStore {
            git,
            path: path.to_owned(),
        })
    }

    /// A tree with changes.
    pub(crate) async fn tree(
        &self,
        base: &str,
        changes: &[TreeChange],
    ) -> Result<String, MineError> {
        if changes.is_empty() {
            return Ok(base.to_owned());
        }
        self.with_index(base, async |git| {
            let mut input = String::new();
            let nothing = "0".repeat(base.len());
            for (path, entry) in changes {
                let (mode, blob) = match entry {
                    Some((mode, blob)) => (mode.as_str(), blob.as_str()),
                    None => ("0", nothing.as_str()),
                };
                input.extend([mode, " ", blob, "\t", path, "\0"]);
            }
            let update = ["update-index", "-z", "--index-info"];
            git.run_with_input(update, input.into_bytes()).await
        })
        .await?
        .map_err(Into::into)
    }

    /// A tree without one change: `patch` is applied in reverse. The inner error is a patch that
    /// does not apply.
    pub(crate) async fn undo(
        &self,
        tree: &str,
        patch: &str,
    ) -> Result<Result<String, GitError>, MineError> {
        let apply = ["apply", "--cached", "--reverse", "--unidiff-zero", "-"];
        self.with_index(tree, async |git| {
            git.run_with_input(apply, patch.as_bytes().to_vec()).await
        })
        .await
    }

    /// The tree of an index that starts from `base` and is changed by `work`.
    async fn with_index(
        &self,
        base: &str,
        work: impl AsyncFnOnce(&Git) -> Result<Vec<u8>, GitError>,
    ) -> Result<Result<String, GitError>, MineError> {
        let folder = tempfile::tempdir_in(&self.path)?;
        let index = folder.path().join("index");
        let git = self
            .git
            .clone()
            .with_env(&[("GIT_INDEX_FILE", &index.to_string_lossy())]);
        git.run(["read-tree", base]).await?;
        if let Err(error) = work(&git).await {
            return Ok(Err(error));
        }
        Ok(Ok(git.line(["write-tree"]).await?))
    }

    async fn blob(&self, text: &str) -> Result<String, GitError> {
        let write = ["hash-object", "-w", "--stdin"];
        let id = self
            .git
            .run_with_input(write, text.as_bytes().to_vec())
            .await?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    /// A commit of a tree, without parents.
    pub(crate) async fn commit(&self, tree: &str) -> Result<String, GitError> {
        let git = self.git.clone().with_env(IDENTITY);
        git.line(["commit-tree", "-m", "A state of the task", tree])
            .await
    }

    /// Writes files of a tree, or all of them, as a tar archive.
    pub(crate) async fn archive(
        &self,
        tree: &str,
        paths: &[&str],
        file: &Utf8Path,
    ) -> Result<(), GitError> {
        // The time of a commit is that of its files.
        let commit = self.commit(tree).await?;
        let git = self.git.clone().with_env(&[("GIT_LITERAL_PATHSPECS", "1")]);
        let archive = ["archive", "--format=tar", &commit, "--"].into_iter();
        git.run_to_file(archive.chain(paths.iter().copied()), file)
            .await
    }

    /// The trees of a candidate.
    pub(crate) async fn build(&self, unit: &Unit, split: &Split) -> Result<Trees, MineError> {
        let parent = unit.parent.as_deref().unwrap_or_default();
        let parent = format!("{parent}^{{tree}}");
        let parent = self.git.line(["rev-parse", "--verify", &parent]).await?;
        let (mut hidden, mut solution, mut judged) = (Vec::new(), Vec::new(), Vec::new());
        for file in &split.inline {
            for (text, changes) in [
                (&file.hidden, &mut hidden),
                (&file.solution, &mut solution),
                (&file.judged, &mut judged),
            ] {
                let entry = (file.mode.clone(), self.blob(text).await?);
                changes.push((file.path.clone(), Some(entry)));
            }
        }
        let tests: Vec<TreeChange> = split.tests.iter().map(change).collect();
        let (added, removed): (Vec<_>, Vec<_>) =
            tests.into_iter().partition(|(_, entry)| entry.is_some());
        let base = self.tree(&parent, &removed).await?;
        let tests: Vec<TreeChange> = added.iter().cloned().chain(hidden).collect();
        let files = split.source.iter().chain(&split.other);
        let source: Vec<TreeChange> = files.map(change).collect();
        let solution: Vec<TreeChange> = source.iter().cloned().chain(solution).collect();
        let judged: Vec<TreeChange> = [source, added, judged].concat();
        Ok(Trees {
            with_tests: self.tree(&base, &tests).await?,
            solution: self.tree(&base, &solution).await?,
            rebuilt: self.tree(&base, &judged).await?,
            commit: unit.tree.clone(),
            base,
        })
    }

    /// The difference of two trees as text, without context.
    pub(crate) async fn diff(&self, one: &str, other: &str) -> Result<String, GitError> {
        let diff = [
            "diff-tree",
            "-r",
            "-p",
            "--no-renames",
            "--unified=0",
            "--full-index",
            "--binary",
            one,
            other,
        ];
        let bytes = self.git.run(diff).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The uncommitted changes of a repository as a commit, without the output directory `out`. Its
    /// index and objects are not touched.
    pub(crate) async fn working_tree(
        &self,
        repo: &Repository,
        out: &Utf8Path,
    ) -> Result<Unit, MineError> {
        let folder = tempfile::tempdir_in(&self.path)?;
        let index = folder.path().join("index");
        let git = self
            .git
            .with_files(&repo.path)
            .with_env(&[("GIT_INDEX_FILE", &index.to_string_lossy())]);
        git.run(["read-tree", &repo.head]).await?;
        let out = out.canonicalize_utf8().unwrap_or_else(|_| out.to_owned());
        let out = out.strip_prefix(&repo.path);
        let except = out.map(|out| format!(":(exclude,top,literal){out}")).ok();
        let add = ["add", "--all", "--", "."].into_iter();
        git.run(add.chain(except.as_deref())).await?;
        let tree = git.line(["write-tree"]).await?;
        let diff = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--raw",
            "--numstat",
            "--no-abbrev",
            &repo.head,
            &tree,
        ];
        let files: Result<Vec<u8>, GitError> = self.git.run(diff).await;
        Ok(Unit {
            commit: self.commit(&tree).await?,
            parent: Some(repo.head.clone()),
            date: jiff::Timestamp::now().to_string(),
            message: String::new(),
            files: read_files(&String::from_utf8_lossy(&files?)),
            tree,
        })
    }
}

fn change(file: &FileDiff) -> TreeChange {
    let entry = file.new.as_ref();
    let entry = entry.map(|entry| (entry.mode.clone(), entry.blob.clone()));
    (file.path.clone(), entry)
}
