//! The source of a workspace's files: a commit of a git repository, local or remote, or a plain
//! folder.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::platform;
use proctor_sandbox::{
    git::{Git, GitError},
    host::Host,
};
use tokio::sync::Mutex;

use crate::config::{History, Repo};

/// The source of a workspace.
#[derive(Clone, Debug)]
pub enum Source {
    /// A commit of a git repository on this machine.
    Git {
        /// Git in that repository.
        git: Git,
        /// The commit.
        commit: String,
        /// The commit's tree.
        tree: String,
        /// The remote, if it was fetched: other revisions have to be fetched, too.
        remote: Option<Remote>,
    },
    /// A directory that is not a git repository.
    Folder {
        /// The path.
        path: Utf8PathBuf,
    },
}

/// The origin of a fetched repository. Trials share it, so they fetch further revisions one after
/// the other.
#[derive(Clone, Debug)]
pub struct Remote {
    url: String,
    turn: Arc<Mutex<()>>,
}

/// Why a repo is not usable.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path does not exist.
    #[error("the repo {path} does not exist")]
    Missing {
        /// The path.
        path: Utf8PathBuf,
    },
    /// The repo has no such branch, tag or commit.
    #[error("the repo {repo} has no branch, tag or commit `{revision}`")]
    UnknownRevision {
        /// The repo.
        repo: String,
        /// The requested revision.
        revision: String,
    },
    /// A folder that is not a repository has no branches or commits.
    #[error("{path} is not a git repository, so it has no `{revision}`")]
    NotARepository {
        /// The folder.
        path: Utf8PathBuf,
        /// The requested revision.
        revision: String,
    },
    /// The repo could not be fetched.
    #[error("cannot fetch {url}")]
    Fetch {
        /// The URL.
        url: String,
        /// The output of git.
        source: GitError,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl SourceError {
    /// Whether the test case is invalid, as opposed to an infrastructure failure.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            SourceError::Missing { .. }
                | SourceError::UnknownRevision { .. }
                | SourceError::NotARepository { .. }
        )
    }
}

impl Source {
    /// Finds the commit of a task (default: HEAD). Fetched data is stored below `private`.
    pub async fn open(
        repo: &Repo,
        revision: Option<&str>,
        history: History,
        host: &Host,
        private: &Utf8Path,
    ) -> Result<Source, SourceError> {
        match repo {
            Repo::Path(path) => Source::open_path(path, revision, host).await,
            Repo::Url(url) => {
                if let Some(path) = url.strip_prefix("file://") {
                    let path = platform::path_of_file_url(path);
                    return Source::open_path(Utf8Path::new(path), revision, host).await;
                }
                let git = Git::new(host, &private.join("fetched.git"));
                let revision = revision.unwrap_or("HEAD");
                let fetched = fetch(url, revision, history, &git).await?;
                Ok(fetched.fetched_from(url))
            }
        }
    }

    /// The base of the work in a directory: one of its commits, HEAD by default, or nothing if it
    /// is not a repository.
    pub async fn of_existing(
        directory: &Utf8Path,
        base: Option<&str>,
        host: &Host,
        private: &Utf8Path,
    ) -> Result<Source, SourceError> {
        if base.is_none() && git_dir_of(directory).is_none() {
            let path = private.join("nothing");
            fs::create_dir_all(&path)?;
            return Ok(Source::Folder { path });
        }
        Source::open_path(directory, base, host).await
    }

    /// Whether a checkout has uncommitted changes, which are not part of the workspace.
    pub async fn has_uncommitted_changes(repo: &Repo, revision: Option<&str>, host: &Host) -> bool {
        let Repo::Path(path) = repo else {
            return false;
        };
        let Some(git_dir) = git_dir_of(path).filter(|git_dir| git_dir != path) else {
            return false;
        };
        let git = Git::new(host, &git_dir).with_files(path);
        let status = ["status", "--porcelain", "--untracked-files=no"];
        revision.is_none()
            && git
                .run(status)
                .await
                .is_ok_and(|changes| !changes.is_empty())
    }

    async fn open_path(
        path: &Utf8Path,
        revision: Option<&str>,
        host: &Host,
    ) -> Result<Source, SourceError> {
        match git_dir_of(path) {
            Some(git_dir) => {
                resolve(
                    &Git::new(host, &git_dir),
                    path.as_str(),
                    revision.unwrap_or("HEAD"),
                )
                .await
            }
            None if !path.is_dir() => Err(SourceError::Missing {
                path: path.to_owned(),
            }),
            None => match revision {
                Some(revision) => Err(SourceError::NotARepository {
                    path: path.to_owned(),
                    revision: revision.to_owned(),
                }),
                None => Ok(Source::Folder {
                    path: path.to_owned(),
                }),
            },
        }
    }

    /// Whether it has this file.
    pub async fn has_file(&self, file: &Utf8Path) -> bool {
        match self {
            Source::Git { git, tree, .. } => {
                let parts = file.components().filter(|part| part.as_str() != ".");
                let parts: Vec<&str> = parts.map(|part| part.as_str()).collect();
                let object = format!("{tree}:{}", parts.join("/"));
                git.run(["cat-file", "-e", &object]).await.is_ok()
            }
            Source::Folder { path } => path.join(file).exists(),
        }
    }

    fn fetched_from(self, url: &str) -> Source {
        match self {
            Source::Git {
                git, commit, tree, ..
            } => Source::Git {
                git,
                commit,
                tree,
                remote: Some(Remote {
                    url: url.to_owned(),
                    turn: Arc::default(),
                }),
            },
            folder @ Source::Folder { .. } => folder,
        }
    }

    /// The tree of another branch, tag or commit of the same repo.
    pub async fn tree_of(&self, revision: &str) -> Result<String, SourceError> {
        match self {
            Source::Git { git, remote, .. } => {
                let _turn = match remote {
                    Some(remote) => Some(remote.turn.lock().await),
                    None => None,
                };
                let known = resolve(git, git.dir().as_str(), revision).await;
                let found = match (known, remote) {
                    (Err(SourceError::UnknownRevision { .. }), Some(remote)) => {
                        fetch(&remote.url, revision, History::None, git).await?
                    }
                    (known, _) => known?,
                };
                match found {
                    Source::Git { tree, .. } => Ok(tree),
                    Source::Folder { .. } => unreachable!("a commit resolves to a commit"),
                }
            }
            Source::Folder { path } => Err(SourceError::NotARepository {
                path: path.clone(),
                revision: revision.to_owned(),
            }),
        }
    }
}

/// The git directory of a checkout or bare repository. A folder *inside* a repository has none.
fn git_dir_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let inside = path.join(".git");
    if inside.exists() {
        return Some(inside);
    }
    let bare =
        path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir();
    bare.then(|| path.to_owned())
}

/// Resolves `revision` as a branch, a remote's branch, a tag or a commit.
async fn resolve(git: &Git, repo: &str, revision: &str) -> Result<Source, SourceError> {
    for name in [
        revision.to_owned(),
        format!("refs/remotes/origin/{revision}"),
    ] {
        // `--end-of-options`: a name may start with a dash.
        let args = [
            "rev-list",
            "--max-count=1",
            "--format=%T",
            "--end-of-options",
            &name,
            "--",
        ];
        let printed = match git.line(args).await {
            Ok(printed) => printed,
            Err(GitError::Failed { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some((commit, tree)) = printed.split_once('\n')
            && let Some(commit) = commit.strip_prefix("commit ")
        {
            return Ok(Source::Git {
                git: git.clone(),
                commit: commit.to_owned(),
                tree: tree.to_owned(),
                remote: None,
            });
        }
    }
    Err(SourceError::UnknownRevision {
        repo: repo.to_owned(),
        revision: revision.to_owned(),
    })
}

const SERVER_HEAD: &str = "+HEAD:refs/proctor/head";

/// Fetches as little as the server allows: the commit, with its history if needed, otherwise
/// everything.
async fn fetch(
    url: &str,
    revision: &str,
    history: History,
    git: &Git,
) -> Result<Source, SourceError> {
    fs::create_dir_all(git.dir())?;
    let user = git.clone().with_user_config();
    user.run(["init", "--quiet", "--bare"]).await?;
    let one = format!("+{revision}:refs/heads/fetched");
    let mut least = vec!["fetch", "--quiet", "--no-tags"];
    if history == History::None {
        least.push("--depth=1");
    }
    least.extend(["--end-of-options", url, &one]);
    if user.run(least).await.is_ok() {
        return resolve(git, url, "refs/heads/fetched").await;
    }
    // The server's HEAD is not among its refs.
    let everything = [
        "fetch",
        "--quiet",
        "--end-of-options",
        url,
        "+refs/*:refs/*",
        SERVER_HEAD,
    ];
    user.run(everything)
        .await
        .map_err(|source| SourceError::Fetch {
            url: url.to_owned(),
            source,
        })?;
    match revision {
        "HEAD" => resolve(git, url, "refs/proctor/head").await,
        named => resolve(git, url, named).await,
    }
}
