//! Virtual keys: what a client shows instead of a real key, and all that the gateway knows about it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use proctor_model_api::Provider;
use proctor_scripted_model::Playback;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bounds::KeyBounds;
use super::host_rules::HostRules;
use crate::budget::{Budget, Limits};
use crate::call_log::LogFile;
use crate::error::GatewayError;
use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::recording::{Recording, RecordingSpec};
use crate::request::{ContextObserver, RequestPolicy, Watch, Watcher};
use crate::secrets::{Secret, VirtualKey};
use crate::status::KeyStatus;

/// The settings of a new key.
#[derive(Debug, Clone, Default)]
pub struct KeySpec {
    /// The name of the key in the ledger. It is not secret.
    pub label: String,
    /// The budget of this key.
    pub limits: Limits,
    /// Budgets that this key shares with others, such as that of a whole run.
    pub shared: Vec<Arc<Budget>>,
    /// Rules for requests.
    pub policy: RequestPolicy,
    /// A file to which a line of JSON is appended for every call.
    pub log: Option<PathBuf>,
    /// The recording to write to or to replay.
    pub recording: Option<RecordingSpec>,
    /// The hosts that the forward proxy allows: names, `*.name`, addresses, networks.
    pub allow_hosts: Vec<String>,
    /// Faults to inject.
    pub faults: Option<Faults>,
    /// The key itself. Default: a random key.
    pub key: Option<VirtualKey>,
    /// Other keys that the client may send on its own listener, such as a provider's.
    pub aliases: Vec<Secret>,
    /// Texts, skills and tools to look for in requests.
    pub watch: Vec<Watch>,
}

/// A playback for each provider whose upstream is a script.
pub(crate) type Playbacks = [Option<Arc<Playback>>; Provider::ALL.len()];

/// A key with its limits and its account.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) secret: VirtualKey,
    /// Its name.
    pub(crate) label: String,
    pub(crate) budget: Budget,
    pub(crate) shared: Vec<Arc<Budget>>,
    pub(crate) policy: RequestPolicy,
    pub(crate) log: Option<LogFile>,
    pub(crate) recording: Option<Recording>,
    pub(crate) hosts: HostRules,
    pub(crate) faults: Option<Faults>,
    /// The position of this key in each provider's script.
    pub(crate) playbacks: Playbacks,
    /// Cancelled when the key is revoked, which ends calls in flight.
    pub(crate) revoked: CancellationToken,
    /// Cancelled when the client sends a key that the gateway does not know.
    #[expect(clippy::struct_field_names, reason = "this field is about another key")]
    pub(crate) unknown_key: CancellationToken,
    pub(crate) bounds: KeyBounds,
    aliases: Vec<Secret>,
    /// The system prompt and tools of the calls.
    pub(crate) context: ContextObserver,
    /// Looks for texts, skills and tools in requests.
    pub(crate) watcher: Watcher,
    ledger: Mutex<Ledger>,
    calls: AtomicU64,
    closed: AtomicBool,
    /// The number of calls in flight.
    in_flight: watch::Sender<usize>,
}

impl Key {
    /// Opens the key's files and creates the key.
    pub(crate) fn new(
        spec: KeySpec,
        playbacks: Playbacks,
        stop: &CancellationToken,
    ) -> Result<Self, GatewayError> {
        let log = spec.log.as_deref().map(LogFile::open).transpose()?;
        let recording = spec.recording.map(Recording::open).transpose()?;
        let ledger = Ledger {
            label: spec.label.clone(),
            ..Ledger::default()
        };
        Ok(Self {
            secret: match spec.key {
                Some(key) => key,
                None => VirtualKey::random()?,
            },
            label: spec.label,
            budget: Budget::new(spec.limits),
            shared: spec.shared,
            policy: spec.policy,
            log,
            recording,
            hosts: HostRules::parse(&spec.allow_hosts)?,
            faults: spec.faults,
            playbacks,
            revoked: stop.child_token(),
            unknown_key: CancellationToken::new(),
            bounds: KeyBounds::default(),
            aliases: spec.aliases,
            context: ContextObserver::default(),
            watcher: Watcher::new(spec.watch),
            ledger: Mutex::new(ledger),
            calls: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            in_flight: watch::Sender::new(0),
        })
    }

    /// Whether the client may send `shown` instead of this key.
    pub(crate) fn has_alias(&self, shown: &str) -> bool {
        self.aliases.iter().any(|alias| alias.expose() == shown)
    }

    /// The number of the next call.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account, with the recording's report and the model context.
    pub(crate) fn account(&self) -> Ledger {
        let mut ledger = self.ledger().clone();
        ledger.recording = self.recording.as_ref().map(Recording::report);
        ledger.context = self.context.get();
        ledger.watched = self.watcher.report();
        ledger
    }

    /// The current status.
    pub(crate) fn status(&self) -> KeyStatus {
        let in_flight = *self.in_flight.borrow();
        KeyStatus::new(&self.ledger(), in_flight)
    }

    /// Counts a call as in flight.
    pub(crate) fn begin(&self) {
        self.in_flight.send_modify(|in_flight| *in_flight += 1);
    }

    /// Counts a call as finished.
    pub(crate) fn end(&self) {
        self.in_flight.send_modify(|in_flight| *in_flight -= 1);
    }

    /// Waits until no call is in flight.
    pub(crate) async fn quiet(&self) {
        // The sender lives as long as this key, so this cannot fail.
        let _ = self
            .in_flight
            .subscribe()
            .wait_for(|in_flight| *in_flight == 0)
            .await;
    }

    /// Refuses further calls and cancels calls in flight.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.revoked.cancel();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The valid keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    by_secret: RwLock<HashMap<VirtualKey, Arc<Key>>>,
}

impl Keys {
    pub(crate) fn add(&self, key: Arc<Key>) {
        let secret = key.secret.clone();
        let mut keys = self
            .by_secret
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        keys.insert(secret, key);
    }

    pub(crate) fn remove(&self, secret: &str) -> Option<Arc<Key>> {
        let mut keys = self
            .by_secret
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        keys.remove(secret)
    }

    pub(crate) fn find(&self, secret: &str) -> Option<Arc<Key>> {
        let keys = self
            .by_secret
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        keys.get(secret).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Key>> {
        let keys = self
            .by_secret
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        keys.values().cloned().collect()
    }
}
