//! What workspaces are made of: one commit of a repo, alone in a git directory. It is made once for all
//! trials of a run that start from that commit, so that they start from the same one even if the branch
//! moves on, and what has to be fetched is fetched once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tokio::sync::OnceCell;

use super::{ALTERNATES, BRANCH, IDENTITY, WorkspaceError, make_git_dir};
use crate::{area::Area, config::Repo, git::Git, host::Host, platform, source::Source, store};

/// One commit without history or remotes, or a folder.
#[derive(Debug)]
pub struct Base {
    pub(super) source: Source,
    /// What the source's commit became; a folder becomes a commit only in the workspace.
    pub(super) packed: Option<Packed>,
}

/// A commit in a git directory of its own.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) dir: Utf8PathBuf,
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) source_commit: String,
}

impl Base {
    /// Make one of `source` below the folder `private`.
    pub async fn make(
        source: Source,
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
                own.copy_tree_from(git, tree).await?;
                Some(Packed {
                    commit: commit_tree(&own, tree, commit).await?,
                    tree: tree.clone(),
                    source_commit: commit.clone(),
                    dir,
                })
            }
        };
        Ok(Base { source, packed })
    }
}

impl Packed {
    /// Let another git directory start from the commit without a copy of what it holds.
    pub(super) fn lend_to(&self, baseline: &Utf8Path) -> std::io::Result<()> {
        let info = baseline.join(ALTERNATES);
        fs::create_dir_all(info.parent().unwrap_or(baseline))?;
        let objects = self.dir.join("objects");
        fs::write(info, format!("{}\n", platform::slashed(objects.as_str())))?;
        fs::write(baseline.join(BRANCH), format!("{}\n", self.commit))
    }
}

/// The one commit of a workspace, and the branch that points to it.
pub(super) async fn commit_tree(git: &Git, tree: &str, of: &str) -> Result<String, WorkspaceError> {
    let message = format!("Base of the trial: {of}");
    let git = git.clone().with_env(IDENTITY);
    let commit = git.line(["commit-tree", "-m", &message, tree]).await?;
    fs::write(git.dir().join(BRANCH), format!("{commit}\n"))?;
    Ok(commit)
}

/// A base, and whether its repo has changes that no commit holds.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What workspaces are made of.
    pub base: Arc<Base>,
    /// Whether the checkout has changes that are not part of it.
    pub is_dirty: bool,
}

/// Which commit of which repo, as tasks name it.
type Wanted = (String, Option<String>);

/// The bases of a run.
#[derive(Debug, Default)]
pub struct Bases {
    made: Mutex<BTreeMap<Wanted, Arc<OnceCell<Opened>>>>,
    /// Where they lie, once there is one.
    area: OnceCell<Area>,
}

impl Bases {
    /// The base of a task, made when it is first asked for. What fails is tried again by the next trial.
    pub async fn open(
        &self,
        repo: &Repo,
        revision: Option<&str>,
        host: &Host,
    ) -> Result<Opened, WorkspaceError> {
        let wanted = (repo.to_string(), revision.map(str::to_owned));
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(wanted).or_default())
        };
        let make = || async {
            let area = self
                .area
                .get_or_try_init(|| async { Area::create(&host.temp) });
            let private = area.await?.path.join(store::new_id());
            fs::create_dir(&private)?;
            let (source, is_dirty) = tokio::join!(
                Source::open(repo, revision, host, &private),
                Source::has_uncommitted_changes(repo, revision, host),
            );
            let base = Arc::new(Base::make(source?, host, &private).await?);
            Ok(Opened { base, is_dirty })
        };
        cell.get_or_try_init(make).await.cloned()
    }
}
