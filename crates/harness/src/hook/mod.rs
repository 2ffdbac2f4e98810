//! Hooks of a test case: scripts before the agent starts, and scripts, webhooks and a file of
//! results after the work is judged. They are the user's own programs and run on this machine.

mod database;
mod redact;
mod script;
mod webhook;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

use self::redact::Redactor;
pub use self::{
    database::{Database, Earlier, Entry},
    script::Script,
    webhook::{Retries, Webhook, WithArtifacts},
};
use crate::{
    host::Host,
    platform,
    record::{HookPhase, HookRecord, HookStatus, Results},
};

/// The hooks of a task.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Run in the workspace before the agent starts; when one fails the agent does not.
    pub pre_execution: Arc<[Hook]>,
    /// Run when the results are there; none of them changes a verdict.
    pub post_evaluation: Arc<[Hook]>,
}

/// Something that is done.
#[derive(Clone, Debug)]
pub enum Hook {
    /// A program is run.
    Script(Script),
    /// The results are sent somewhere.
    Webhook(Webhook),
    /// The results are added to a file.
    Database(Database),
}

/// What hooks are run in.
pub struct Scene<'a> {
    /// When.
    pub phase: HookPhase,
    /// What scripts are told, by name.
    pub variables: BTreeMap<&'static str, String>,
    /// Where scripts run, unless they say.
    pub cwd: &'a Utf8Path,
    /// A HOME for scripts.
    pub home: &'a Utf8Path,
    /// The artifacts folder.
    pub artifacts: &'a Utf8Path,
    /// The results, once they are there.
    pub results: Option<&'a Results>,
    /// The machine.
    pub host: &'a Host,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
}

/// What one hook did.
struct Did {
    status: HookStatus,
    message: String,
    exit_code: Option<i32>,
    attempts: Option<u32>,
    output: Option<Utf8PathBuf>,
}

impl Did {
    fn new(status: HookStatus, message: impl Into<String>) -> Did {
        Did {
            status,
            message: message.into(),
            exit_code: None,
            attempts: None,
            output: None,
        }
    }
}

impl Hook {
    fn name(&self) -> &'static str {
        match self {
            Hook::Script(_) => "script",
            Hook::Webhook(_) => "webhook",
            Hook::Database(_) => "database",
        }
    }

    /// Do it. `number` is its place among its like, from 1.
    pub async fn run(&self, scene: &Scene<'_>, number: usize) -> HookRecord {
        let started = Instant::now();
        let redactor = Redactor::new(self.secrets(), &scene.host.secrets);
        let did = match self {
            Hook::Script(script) => script.run(scene, number, &redactor).await,
            Hook::Webhook(webhook) => webhook.run(scene).await,
            Hook::Database(database) => database.run(scene).await,
        };
        HookRecord {
            phase: scene.phase,
            name: self.name().to_owned(),
            status: did.status,
            message: redactor.text(&did.message),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            timestamp: jiff::Timestamp::now().to_string(),
            exit_code: did.exit_code,
            attempts: did.attempts,
            output: did
                .output
                .map(|path| platform::slashed(path.as_str()).into_owned()),
        }
    }

    /// What must not show in what it leaves.
    fn secrets(&self) -> Vec<String> {
        match self {
            Hook::Script(script) => script.env.values().cloned().collect(),
            Hook::Webhook(webhook) => webhook.secrets(),
            Hook::Database(_) => Vec::new(),
        }
    }
}
