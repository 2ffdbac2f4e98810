//! Why a trial has no end, and what to do about it.

use camino::Utf8PathBuf;
use proctor_document::ConfigError;
use proctor_gateway::GatewayError;

use crate::{
    agent::{LaunchError, PromptFileError},
    record::StoreError,
    sandbox::docker::EngineError,
    workspace::source::SourceError,
};

/// Why a trial has no end: bad input that only shows when it is used, or a record that could
/// not be written.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The repo is not what the test case says.
    #[error("{config_file}: {problem}")]
    Source {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: SourceError,
    },
    /// The prompt file is not what the test case says.
    #[error("{config_file}: {problem}")]
    Prompt {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: PromptFileError,
    },
    /// The agent cannot be launched as configured.
    #[error("{config_file}: {problem}")]
    Launch {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: LaunchError,
    },
    /// A container has to be made of something.
    #[error("{config_file}: neither the task nor the agent names an image to run in")]
    NoImage {
        /// The task.
        config_file: Utf8PathBuf,
    },
    /// Secrets would enter a container that nothing stands before.
    #[error("{config_file}: refusing to pass {names} into a container without a gateway")]
    Secrets {
        /// The task.
        config_file: Utf8PathBuf,
        /// The names of the variables.
        names: String,
    },
    /// The task cannot be done on this machine.
    #[error(transparent)]
    NeedsContainer(ConfigError),
    /// There is nowhere to run.
    #[error(transparent)]
    Sandbox(EngineError),
    /// There is no way to the models.
    #[error("the gateway could not be started")]
    Gateway(#[from] GatewayError),
    /// The run's folder cannot be made. Nothing was run.
    #[error(transparent)]
    Folder(StoreError),
    /// Another process took us for dead and has the trial now: nothing more is written.
    #[error("another process has the trial now")]
    Lost,
    /// The result of the trial cannot be written.
    #[error("the result of the trial could not be written")]
    Store(#[from] StoreError),
}

impl TrialError {
    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            TrialError::Source {
                problem: SourceError::UnknownRevision { .. },
                ..
            } => Some("`git branch -a` and `git tag` in the repo list what there is".to_owned()),
            TrialError::Launch { problem, .. } => problem.hint.clone(),
            TrialError::Sandbox(error) => error.hint(),
            TrialError::NoImage { .. } => {
                Some("name one in the suite: `sandbox: {type: docker, image: NAME}`".to_owned())
            }
            TrialError::Secrets { names, .. } => Some(format!(
                "use the gateway, which keeps keys outside of containers, or list the variables: `secrets: {{unsafe_pass_through: [{names}]}}`"
            )),
            TrialError::Folder(error) | TrialError::Store(error) if error.is_full() => {
                Some("make room; a suite then goes on with --resume".to_owned())
            }
            TrialError::Folder(_) => {
                Some("choose a folder that you may write to with `workspace_dir`".to_owned())
            }
            _ => None,
        }
    }

    /// Whether the input is to blame, and nothing was run.
    pub fn is_usage(&self) -> bool {
        match self {
            TrialError::Store(_)
            | TrialError::Sandbox(_)
            | TrialError::Gateway(_)
            | TrialError::Lost => false,
            TrialError::Folder(error) => !error.is_full(),
            _ => true,
        }
    }
}
