//! The options of mining.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_sandbox::SandboxKind;
use serde::{Deserialize, Serialize};

use crate::{detect::TestCommand, prompt::PromptTier};

/// The options of mining.
#[derive(Clone, Debug)]
pub struct MinerOptions {
    /// The repository.
    pub repo: Utf8PathBuf,
    /// The output directory.
    pub out: Utf8PathBuf,
    /// The commits to examine.
    pub selection: Selection,
    /// The commands; those of the ledger, or detected, if `None`.
    pub command: Option<TestCommand>,
    /// The sandbox of the tests.
    pub sandbox: SandboxKind,
    /// The image of the tests.
    pub image: Option<String>,
    /// The form of the tasks.
    pub format: TaskFormat,
    /// The source of prompts.
    pub prompt: PromptTier,
    /// The number of runs of each state.
    pub times: u32,
    /// The number of concurrent runs.
    pub parallel: usize,
    /// The longest run of the tests of a task.
    pub test_timeout: Duration,
    /// Stop after this many tasks.
    pub accept: Option<usize>,
    /// Whether an earlier ledger is continued.
    pub resume: bool,
}

impl MinerOptions {
    /// The default options for the whole history of a repository.
    pub fn of_history(repo: &Utf8Path, out: &Utf8Path) -> MinerOptions {
        MinerOptions {
            repo: repo.to_owned(),
            out: out.to_owned(),
            selection: Selection::History {
                since: None,
                paths: Vec::new(),
                limit: usize::MAX,
                representative: None,
            },
            command: None,
            sandbox: SandboxKind::Local,
            image: None,
            format: TaskFormat::default(),
            prompt: PromptTier::default(),
            times: 3,
            parallel: 1,
            test_timeout: Duration::from_mins(10),
            accept: None,
            resume: false,
        }
    }
}

/// The commits to examine.
#[derive(Clone, Debug)]
pub enum Selection {
    /// The first-parent history, newest first.
    History {
        /// A revision or a date; older commits are not examined.
        since: Option<String>,
        /// Patterns of changed files.
        paths: Vec<String>,
        /// The maximum number of candidates whose tests are run.
        limit: usize,
        /// The size of a representative sample.
        representative: Option<usize>,
    },
    /// One commit.
    Commit(String),
    /// The uncommitted changes.
    WorkingTree,
    /// The commits since the last examination.
    New,
}

/// The form of the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskFormat {
    /// A repository at a tag, judged by Proctor's own evaluator of tests.
    #[default]
    Repo,
    /// A directory in Harbor's format, judged by its own script.
    Harbor,
}
