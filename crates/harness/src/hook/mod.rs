//! Runs the hooks of a test case: scripts before the agent starts; scripts, webhooks and a file of results after
//! the judging. They are the user's own programs and run on this machine.

mod database;
mod redact;
mod script;
mod webhook;

use std::{collections::BTreeMap, time::Instant};

use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

use self::redact::Redactor;
use crate::{
    config::Hook,
    host::Host,
    platform,
    record::{HookPhase, HookRecord, HookStatus, Results},
};

/// The context in which a hook runs.
pub struct HookContext<'a> {
    /// Before the agent or after the judging.
    pub phase: HookPhase,
    /// The environment variables of scripts.
    pub variables: BTreeMap<&'static str, String>,
    /// The working directory of scripts that name none.
    pub cwd: &'a Utf8Path,
    /// A HOME for scripts.
    pub home: &'a Utf8Path,
    /// The artifacts folder.
    pub artifacts: &'a Utf8Path,
    /// The results; `None` before the judging.
    pub results: Option<&'a Results>,
    /// The machine.
    pub host: &'a Host,
    /// Cancelled together with the run.
    pub cancel: &'a CancellationToken,
}

/// What one hook result.
struct HookResult {
    status: HookStatus,
    message: String,
    exit_code: Option<i32>,
    attempts: Option<u32>,
    output: Option<Utf8PathBuf>,
}

impl HookResult {
    fn new(status: HookStatus, message: impl Into<String>) -> HookResult {
        HookResult {
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

    /// Run the hook. `number` is its position among the hooks of its phase, from 1.
    pub async fn run(&self, context: &HookContext<'_>, number: usize) -> HookRecord {
        let started = Instant::now();
        let redactor = Redactor::new(self.secrets(), &context.host.secrets);
        let result = match self {
            Hook::Script(script) => script.run(context, number, &redactor).await,
            Hook::Webhook(webhook) => webhook.run(context).await,
            Hook::Database(database) => database.run(context).await,
        };
        HookRecord {
            phase: context.phase,
            name: self.name().to_owned(),
            status: result.status,
            message: redactor.text(&result.message),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            timestamp: jiff::Timestamp::now().to_string(),
            exit_code: result.exit_code,
            attempts: result.attempts,
            output: result
                .output
                .map(|path| platform::slashed(path.as_str()).into_owned()),
        }
    }

    /// The values that must not appear in its output.
    fn secrets(&self) -> Vec<String> {
        match self {
            Hook::Script(script) => script.env.values().cloned().collect(),
            Hook::Webhook(webhook) => webhook.secrets(),
            Hook::Database(_) => Vec::new(),
        }
    }
}
