//! The container that a task is done in, and the command that makes a workspace ready.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use proctor_document::ConfigError;
use proctor_process::Readiness;
use proctor_sandbox::{Network, docker::BuildOptions};

use super::{Recipe, compose::Compose};

/// The container of a task.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its image.
    pub image: Image,
    /// The timeout of the image build.
    pub build_timeout: Duration,
    /// CPUs.
    pub cpus: Option<f64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Disk in MiB.
    pub storage_mb: Option<u64>,
    /// Processes.
    pub pids: Option<u64>,
    /// The working directory; the image's when unset.
    pub workdir: Option<Utf8PathBuf>,
    /// Variables for agent and verifier, as written.
    pub env: BTreeMap<String, String>,
    /// The user of the agent; the image's when unset.
    pub user: Option<String>,
    /// The agent's network; open if unset, as in Harbor.
    pub network: Option<Network>,
    /// The readiness check.
    pub healthcheck: Option<Healthcheck>,
    /// The services of its compose file, and the settings of its own.
    pub compose: Option<Arc<Compose>>,
    /// How its workspace is created without a container, or why it cannot be.
    pub local: Result<Arc<Recipe>, ConfigError>,
}

impl Environment {
    /// Its variables without a container, which would have those of the Dockerfile.
    pub fn local_env(&self) -> BTreeMap<String, String> {
        let recipe = self.local.as_ref().ok();
        let mut env = recipe.map_or_else(BTreeMap::new, |recipe| recipe.env.clone());
        env.extend(self.env.clone());
        env
    }
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// An image by tag or digest.
    Named(String),
    /// An image built from a folder with a Dockerfile.
    Build {
        /// The build context.
        context: Utf8PathBuf,
        /// The Dockerfile in it.
        dockerfile: Utf8PathBuf,
        /// Arguments and stage.
        options: BuildOptions,
    },
}

/// The readiness check of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Healthcheck {
    /// The command that succeeds when the environment is ready.
    pub command: String,
    /// The interval between checks.
    pub interval: Duration,
    /// The timeout of a check.
    pub timeout: Duration,
    /// The time after the start in which failures are ignored.
    pub start_period: Duration,
    /// The interval between checks in that time.
    pub start_interval: Duration,
    /// The number of consecutive failures that make the environment fail.
    pub retries: u32,
}

impl From<&Healthcheck> for Readiness {
    fn from(check: &Healthcheck) -> Readiness {
        Readiness {
            argv: ["sh", "-c", &check.command].map(str::to_owned).into(),
            interval: check.interval,
            timeout: check.timeout,
            start_period: check.start_period,
            start_interval: check.start_interval,
            retries: check.retries,
        }
    }
}

/// A command that prepares a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The shell command.
    pub command: String,
    /// The timeout.
    pub timeout: Duration,
    /// Whether the agent starts even if it fails. The tests require it in any case.
    pub is_optional: bool,
}
