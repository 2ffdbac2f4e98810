//! The base of workspaces: one commit of a repo in its own git directory. It is created once for
//! all trials of a run that start from that commit, so that they start from the same one even if
//! the branch moves, and it is fetched once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{fs::new_id, platform};
use proctor_sandbox::{
    git::{Git, SHALLOW},
    host::Host,
    trial_dir::TrialDir,
};
use tokio::sync::OnceCell;

use super::Checkout;
use super::{
    ALTERNATES, BRANCH, WorkspaceError,
    commit::write_commit,
    commits::{Commits, Wanted, wanted},
    make_git_dir,
};
use crate::{
    config::History,
    workspace::source::{Source, SourceError},
};

/// One commit without history or remotes, or a folder.
#[derive(Debug)]
pub struct Base {
    pub(super) source: Source,
    /// The packed commit of the source; a folder becomes a commit only in the workspace.
    pub(super) packed: Option<Packed>,
    /// The trees of other revisions, by name.
    trees: tokio::sync::Mutex<BTreeMap<String, String>>,
}

/// A commit in its own git directory.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) dir: Utf8PathBuf,
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) source_commit: String,
    pub(super) history: History,
}

impl Base {
    /// Creates the base of `source` below the directory `private`.
    pub async fn make(
        source: Source,
        history: History,
        host: &Host,
        private: &Utf8Path,
    ) -> Result<Base, WorkspaceError> {
        let packed = match &source {
            Source::Folder { .. } => None,
            Source::Git {
                git, commit, tree, ..
            } => {
                let dir = private.join("base.git");
                make_git_dir(&dir)?;
                let own = Git::new(host, &dir);
                let start = match history {
                    History::None => {
                        own.copy_tree_from(git, tree).await?;
                        commit_base(&dir, tree, commit)?
                    }
                    History::Full => {
                        own.copy_history_from(git, commit).await?;
                        own.copy_shallow_from(git)?;
                        commit.clone()
                    }
                };
                fs::write(dir.join(BRANCH), format!("{start}\n"))?;
                Some(Packed {
                    commit: start,
                    tree: tree.clone(),
                    source_commit: commit.clone(),
                    history,
                    dir,
                })
            }
        };
        Ok(Base {
            source,
            packed,
            trees: tokio::sync::Mutex::default(),
        })
    }

    /// The tree of another branch, tag or commit of the source, which is looked up once.
    pub(super) async fn tree_of(&self, revision: &str) -> Result<String, SourceError> {
        let mut trees = self.trees.lock().await;
        if let Some(tree) = trees.get(revision) {
            return Ok(tree.clone());
        }
        let tree = self.source.tree_of(revision).await?;
        trees.insert(revision.to_owned(), tree.clone());
        Ok(tree)
    }
}

impl Packed {
    /// Makes another git directory use the objects of this one without a copy.
    pub(super) fn lend_to(&self, baseline: &Utf8Path) -> std::io::Result<()> {
        let info = baseline.join(ALTERNATES);
        fs::create_dir_all(info.parent().unwrap_or(baseline))?;
        let objects = self.dir.join("objects");
        fs::write(info, format!("{}\n", platform::slashed(objects.as_str())))?;
        let shallow = self.dir.join(SHALLOW);
        if shallow.exists() {
            fs::copy(shallow, baseline.join(SHALLOW))?;
        }
        fs::write(baseline.join(BRANCH), format!("{}\n", self.commit))
    }
}

/// Creates the single commit of a workspace.
pub(super) fn commit_base(git_dir: &Utf8Path, tree: &str, of: &str) -> std::io::Result<String> {
    write_commit(git_dir, tree, None, &format!("Base of the trial: {of}"))
}

/// A base, and whether its repo has uncommitted changes.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The base of workspaces.
    pub base: Arc<Base>,
    /// Whether the checkout has uncommitted changes, which are not part of it.
    pub is_dirty: bool,
}

/// A base that is created once.
type Once = Arc<OnceCell<Opened>>;

/// The bases of a run.
#[derive(Debug, Default)]
pub struct Bases {
    /// The commits of revision names.
    commits: Commits,
    made: Mutex<BTreeMap<(Wanted, History), Once>>,
    /// The directory of the bases, once there is one.
    trial_dir: OnceCell<TrialDir>,
}

impl Bases {
    /// The bases of the run in a directory, whose lock the caller holds. Revision names keep the
    /// commits that they had at the start of the run.
    pub fn of_run(run: &Utf8Path) -> Bases {
        Bases {
            commits: Commits::of_run(run),
            ..Bases::default()
        }
    }

    /// The bases of a process that runs one trial, with this commit.
    pub fn pinned(checkout: &Checkout, commit: &str) -> Bases {
        Bases {
            commits: Commits::with(wanted(checkout), commit),
            ..Bases::default()
        }
    }

    /// The base of a task, created on first use. After a failure the next trial tries again.
    pub async fn open(&self, checkout: &Checkout, host: &Host) -> Result<Opened, WorkspaceError> {
        let wanted = wanted(checkout);
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (wanted.clone(), checkout.history);
            Arc::clone(made.entry(key).or_default())
        };
        let make = || async {
            let private = self.private(host).await?;
            let (source, is_dirty) = tokio::join!(
                self.source(&wanted, checkout, host, &private),
                Source::has_uncommitted_changes(&checkout.repo, checkout.revision(), host),
            );
            let base = Base::make(source?, checkout.history, host, &private);
            let base = Arc::new(base.await?);
            Ok(Opened { base, is_dirty })
        };
        cell.get_or_try_init(make).await.cloned()
    }

    /// The commit of a revision, without creating a base; a folder has none.
    pub async fn commit(
        &self,
        checkout: &Checkout,
        host: &Host,
    ) -> Result<Option<String>, WorkspaceError> {
        let wanted = wanted(checkout);
        if let Some(known) = self.commits.get(&wanted) {
            return Ok(Some(known));
        }
        let private = self.private(host).await?;
        match self.source(&wanted, checkout, host, &private).await? {
            Source::Git { commit, .. } => Ok(Some(commit)),
            Source::Folder { .. } => Ok(None),
        }
    }

    async fn source(
        &self,
        wanted: &Wanted,
        checkout: &Checkout,
        host: &Host,
        private: &Utf8Path,
    ) -> Result<Source, WorkspaceError> {
        let known = self.commits.get(wanted);
        let revision = known.as_ref().or(wanted.1.as_ref()).map(String::as_str);
        let (repo, history) = (&checkout.repo, checkout.history);
        let source = Source::open(repo, revision, history, host, private).await?;
        if let Source::Git { commit, .. } = &source {
            self.commits.keep(wanted, commit)?;
        }
        Ok(source)
    }

    /// A fresh directory for fetched and packed data.
    async fn private(&self, host: &Host) -> Result<Utf8PathBuf, WorkspaceError> {
        let trial_dir = self
            .trial_dir
            .get_or_try_init(|| async { TrialDir::create(&host.temp) });
        let private = trial_dir.await?.path.join(new_id());
        fs::create_dir(&private)?;
        Ok(private)
    }
}
