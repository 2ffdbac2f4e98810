//! The verifier of a Harbor task, as its `task.toml` defines it.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use proctor_sandbox::Network;
use serde::{Deserialize, Serialize};

use crate::workspace::Environment;

/// The environment of a Harbor task's verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifierMode {
    /// The environment of the agent.
    Shared,
    /// A fresh environment.
    Separate,
}

impl VerifierMode {
    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            VerifierMode::Shared => "shared",
            VerifierMode::Separate => "separate",
        }
    }
}

/// How a Harbor task is judged: a script that writes a reward to a file.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The environment of the script.
    pub mode: VerifierMode,
    /// The folders of `test.sh` and its files. A later one replaces files of an earlier one.
    pub tests: Vec<Utf8PathBuf>,
    /// The script of a task of Terminal-Bench 1, which prints results instead of a reward. It is
    /// next to the files of `tests`.
    pub run_tests: Option<Utf8PathBuf>,
    /// Its own variables.
    pub env: BTreeMap<String, String>,
    /// The variables of the agent's environment, for a verifier without a container.
    pub local_env: BTreeMap<String, String>,
    /// The user.
    pub user: Option<String>,
    /// The timeout.
    pub timeout: Duration,
    /// Its network; the agent's if unset.
    pub network: Option<Network>,
    /// The environment of a separate verifier; the agent's by default.
    pub environment: Option<Box<Environment>>,
    /// Commands that run in the agent's environment before the verifier.
    pub collect: Vec<Collect>,
    /// Files that are collected from the agent's environment and given to a separate verifier.
    pub artifacts: Vec<CollectedArtifact>,
    /// The key of the deciding reward among several.
    pub reward_key: Option<String>,
}

/// A file or directory that is collected from the agent's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectedArtifact {
    /// The path in the environment, absolute or below the working directory.
    pub source: Utf8PathBuf,
    /// The path of the copy below the collected files; by default that of `source`.
    pub destination: Option<Utf8PathBuf>,
    /// Patterns of files of a directory that are left out.
    pub exclude: Vec<String>,
}

/// A command that collects data in the agent's environment for the verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Collect {
    /// The command.
    pub command: String,
    /// The timeout.
    pub timeout: Duration,
    /// The user.
    pub user: Option<String>,
}
