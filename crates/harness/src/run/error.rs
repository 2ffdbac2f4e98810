//! Why a run could not be started or finished.

use camino::Utf8PathBuf;
use proctor_gateway::GatewayError;
use proctor_record::record::{ChangedDefinition, NoRun, StoreError};
use proctor_sandbox::docker::EngineError;

use crate::{model_access::litellm::LiteLlmError, trial::TrialError};

/// Why a run could not be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run does not exist.
    #[error(transparent)]
    NoRun(#[from] NoRun),
    /// Another process is running it.
    #[error("{run} is running")]
    Running {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// The plan has changed since the run was started.
    #[error("cannot resume {run}: the plan has changed ({})", differences.join("; "))]
    Changed {
        /// Its folder.
        run: Utf8PathBuf,
        /// The changes.
        differences: Vec<String>,
    },
    /// A definition has changed since the run was started.
    #[error("cannot resume {run}: {}", list_changes(changed))]
    DefinitionChanged {
        /// Its folder.
        run: Utf8PathBuf,
        /// The definitions.
        changed: Vec<ChangedDefinition>,
    },
    /// A definition has changed since the experiment was started.
    #[error(
        "cannot resume {run}: an experiment compares fixed definitions, and {}",
        list_changes(changed)
    )]
    ExperimentChanged {
        /// Its folder.
        run: Utf8PathBuf,
        /// The definitions.
        changed: Vec<ChangedDefinition>,
    },
    /// The input of a trial is not valid.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The sandbox is not available.
    #[error(transparent)]
    Sandbox(#[from] EngineError),
    /// The gateway did not start.
    #[error("cannot start the gateway")]
    Gateway(#[from] GatewayError),
    /// The cluster is not available.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// LiteLLM is not available.
    #[error(transparent)]
    LiteLlm(#[from] LiteLlmError),
}

/// Changes beyond these are counted only.
const MOST_CHANGES: usize = 5;

/// The changes in words.
pub(crate) fn list_changes(changed: &[ChangedDefinition]) -> String {
    let mut lines = changed.iter().map(|it| {
        let shown: Vec<String> = it
            .changes
            .iter()
            .take(MOST_CHANGES)
            .map(ToString::to_string)
            .collect();
        let more = match it.changes.len().saturating_sub(MOST_CHANGES) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!("{} has changed ({}{more})", it.subject, shown.join(", "))
    });
    let first: Vec<String> = lines.by_ref().take(MOST_CHANGES).collect();
    match lines.count() {
        0 => first.join("; "),
        more => format!("{}; and {more} more", first.join("; ")),
    }
}

/// Slurm is not available.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// A command could not be started.
    #[error("cannot start {program}")]
    NotFound {
        /// The command.
        program: &'static str,
        /// The cause.
        source: proctor_process::Error,
    },
    /// A command failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// The command.
        program: &'static str,
        /// Its message.
        message: String,
    },
}
