//! Errors of trials without a result, with hints.

use camino::Utf8PathBuf;
use proctor_agents::agent::{LaunchError, PromptFileError};
use proctor_document::ConfigError;
use proctor_gateway::GatewayError;
use proctor_record::record::StoreError;
use proctor_sandbox::docker::EngineError;

use crate::workspace::source::SourceError;

/// Why a trial has no result: invalid input that is detected late, or a record that could not be
/// written.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The repo does not match the test case.
    #[error("{config_file}: {problem}")]
    Source {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: SourceError,
    },
    /// The prompt file does not match the test case.
    #[error("{config_file}: {problem}")]
    Prompt {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: PromptFileError,
    },
    /// The agent cannot be launched as configured.
    #[error("{config_file}: {problem} ({})", .problem.code)]
    Launch {
        /// The test case.
        config_file: Utf8PathBuf,
        /// The error.
        problem: LaunchError,
    },
    /// The agent's files, skills or start revision do not fit the task.
    #[error("agent `{agent}` on task `{task}`: {problem}")]
    Treatment {
        /// The agent.
        agent: String,
        /// The task.
        task: String,
        /// The conflict.
        problem: String,
    },
    /// A container requires an image.
    #[error("{config_file}: neither the task nor the agent names an image")]
    NoImage {
        /// The task.
        config_file: Utf8PathBuf,
    },
    /// Secrets would enter a container without a gateway.
    #[error("{config_file}: refusing to pass {names} into a container without a gateway")]
    Secrets {
        /// The task.
        config_file: Utf8PathBuf,
        /// The names of the variables.
        names: String,
    },
    /// The task requires a container.
    #[error(transparent)]
    NeedsContainer(ConfigError),
    /// The sandbox is not available.
    #[error(transparent)]
    Sandbox(EngineError),
    /// The gateway did not start.
    #[error("cannot start the gateway")]
    Gateway(#[from] GatewayError),
    /// The run's directory cannot be created. No trial was run.
    #[error(transparent)]
    Folder(StoreError),
    /// Another process has taken over the trial: nothing more is written.
    #[error("another process has taken over the trial")]
    Lost,
    /// The result of the trial cannot be written.
    #[error("cannot write the result of the trial")]
    Store(#[from] StoreError),
}

impl TrialError {
    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            TrialError::Source {
                problem: SourceError::UnknownRevision { .. },
                ..
            } => Some(
                "list branches and tags with `git branch -a` and `git tag` in the repo".to_owned(),
            ),
            TrialError::Source {
                problem: SourceError::NotARepository { .. },
                ..
            } => Some("make it a repository with `git init`, or leave the revision out".to_owned()),
            TrialError::Launch { problem, .. } => problem.hint.clone(),
            TrialError::Sandbox(error) => error.hint(),
            TrialError::NoImage { .. } => {
                Some("pass --image NAME, or name one in the suite: `sandbox: {type: docker, image: NAME}`".to_owned())
            }
            TrialError::Secrets { names, .. } => Some(format!(
                "use the gateway, which keeps keys outside of containers, or list the variables: `secrets: {{unsafe_pass_through: [{names}]}}`"
            )),
            TrialError::Folder(error) | TrialError::Store(error) if error.is_full() => {
                Some("free disk space; continue the run with --resume".to_owned())
            }
            TrialError::Folder(_) => Some("set `workspace_dir` to a writable directory".to_owned()),
            _ => None,
        }
    }

    /// Whether the input is invalid and nothing was run.
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
