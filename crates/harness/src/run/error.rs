//! Why a run could not be started or finished.

use camino::Utf8PathBuf;
use proctor_gateway::GatewayError;

use crate::{
    model_access::litellm::LiteLlmError,
    record::{NoRun, StoreError},
    sandbox::docker::EngineError,
    trial::TrialError,
};

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
    #[error("cannot resume {run}: the agents, tasks or trial count have changed")]
    Changed {
        /// Its folder.
        run: Utf8PathBuf,
    },
    /// The input of a trial is not valid.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The sandbox cannot be used.
    #[error(transparent)]
    Sandbox(#[from] EngineError),
    /// The gateway did not start.
    #[error("the gateway could not be started")]
    Gateway(#[from] GatewayError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// LiteLLM cannot be used.
    #[error(transparent)]
    LiteLlm(#[from] LiteLlmError),
}

/// Slurm could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// A command is not there.
    #[error("{program} could not be started")]
    NotFound {
        /// Which.
        program: &'static str,
        /// Why.
        source: proctor_process::Error,
    },
    /// A command failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// Which.
        program: &'static str,
        /// Its message.
        message: String,
    },
}
