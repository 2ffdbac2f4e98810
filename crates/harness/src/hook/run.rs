//! Runs one hook and records its result.

use std::{collections::BTreeMap, time::Instant};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    platform,
    record::{HookPhase, HookRecord, HookStatus, Results},
};
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::redact::Redactor;
use crate::config::Hook;

/// The context in which a hook runs.
pub struct HookContext<'a> {
    /// Before the agent or after judging.
    pub phase: HookPhase,
    /// The environment variables of scripts.
    pub variables: BTreeMap<&'static str, String>,
    /// The default working directory of scripts.
    pub cwd: &'a Utf8Path,
    /// The HOME of scripts.
    pub home: &'a Utf8Path,
    /// The artifacts folder.
    pub artifacts: &'a Utf8Path,
    /// The results; `None` before judging.
    pub results: Option<&'a Results>,
    /// The host.
    pub host: &'a Host,
    /// The cancellation token of the run.
    pub cancel: &'a CancellationToken,
}

/// The result of one hook.
pub(super) struct HookResult {
    pub(super) status: HookStatus,
    pub(super) message: String,
    pub(super) exit_code: Option<i32>,
    pub(super) attempts: Option<u32>,
    pub(super) output: Option<Utf8PathBuf>,
}

impl HookResult {
    pub(super) fn new(status: HookStatus, message: impl Into<String>) -> HookResult {
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

    /// Runs the hook. `number` is its position among the hooks of its phase, from 1.
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
