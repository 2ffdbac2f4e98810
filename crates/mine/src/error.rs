//! Errors of mining.

use camino::Utf8PathBuf;
use proctor_document::ConfigError;
use proctor_harness::run::{RunError, check::CheckError};
use proctor_record::record::StoreError;
use proctor_sandbox::git::GitError;

/// Why mining failed.
#[derive(Debug, thiserror::Error)]
pub enum MineError {
    /// The folder is not a repository.
    #[error("{path} is not a git repository with a commit")]
    NotARepository {
        /// The folder.
        path: Utf8PathBuf,
    },
    /// The value of `--since` is unknown.
    #[error("`{text}` is neither a revision of the repository nor a date")]
    Since {
        /// The value.
        text: String,
    },
    /// A revision is unknown.
    #[error("the repository has no commit `{text}`")]
    UnknownCommit {
        /// The revision.
        text: String,
    },
    /// The commit or the working tree has no difference to mine.
    #[error("{what} is not a candidate: {reason}")]
    NotACandidate {
        /// The commit or the working tree.
        what: String,
        /// The missing part.
        reason: &'static str,
    },
    /// No test command is known.
    #[error("cannot detect the test command of {path}")]
    NoTestCommand {
        /// The repository.
        path: Utf8PathBuf,
    },
    /// Task directories in Harbor's format have an image.
    #[error("`--format harbor` needs an image")]
    NoImage,
    /// The test command does not work.
    #[error("the test command reports no results test by test: {reason}")]
    NoResults {
        /// Its output.
        reason: String,
    },
    /// The output directory has a ledger.
    #[error("{path} exists")]
    LedgerExists {
        /// The ledger.
        path: Utf8PathBuf,
    },
    /// The output directory has no ledger.
    #[error("{path} does not exist")]
    NoLedger {
        /// The ledger.
        path: Utf8PathBuf,
    },
    /// The ledger was made with other settings.
    #[error("cannot resume {path}: {what} differs: it was `{was}` and is `{is}`")]
    OtherLedger {
        /// The ledger.
        path: Utf8PathBuf,
        /// The setting.
        what: &'static str,
        /// Its value in the ledger.
        was: String,
        /// Its value now.
        is: String,
    },
    /// The ledger cannot be read.
    #[error("cannot read {path}: {reason}")]
    Ledger {
        /// The ledger.
        path: Utf8PathBuf,
        /// The problem.
        reason: String,
    },
    /// The tests could not be run, for a reason that says nothing about the commit.
    #[error("cannot run the tests of {commit}: {reason}")]
    Infrastructure {
        /// The commit.
        commit: String,
        /// The problem.
        reason: String,
    },
    /// A signal ended mining.
    #[error("interrupted")]
    Interrupted,
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A file could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task is invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// Trials could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A task could not be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
}

impl From<ConfigError> for MineError {
    fn from(error: ConfigError) -> MineError {
        MineError::Config(vec![error])
    }
}

impl MineError {
    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            MineError::NotARepository { .. } => "name the root directory of a git repository",
            MineError::Since { .. } => "use a tag, branch or commit, or a date such as 2025-06-01",
            MineError::NoTestCommand { .. } => {
                "give it with --test-cmd; write a report to \"$PROCTOR_REPORT\" if the runner has one"
            }
            MineError::NoImage => "name an image that has the test runner with --image",
            MineError::NoResults { .. } => {
                "run the command in the repository; give another one with --test-cmd, or an image that has the runner with --image"
            }
            MineError::LedgerExists { .. } => {
                "use --resume to continue, `proctor task refresh` to add new commits, or another --out"
            }
            MineError::NoLedger { .. } => "create it with `proctor task mine REPO --out DIR`",
            MineError::OtherLedger { .. } => "use another --out",
            MineError::NotACandidate { .. } => {
                "a task needs a change of source files and a change of tests"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether the input is invalid, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            MineError::Infrastructure { .. }
                | MineError::Interrupted
                | MineError::Git(_)
                | MineError::Io(_)
                | MineError::Store(_)
                | MineError::Run(_)
                | MineError::Check(_)
        )
    }
}
