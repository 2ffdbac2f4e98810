//! Virtual keys: what a client shows instead of a real key, and all that the gateway knows about it.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::abandoned::MOST_ABANDONED;
use crate::bounds::Bounds;
use crate::budget::{Budget, Limits};
use crate::calllog::LogFile;
use crate::cassette::{Cassette, CassetteSpec};
use crate::connect::HostRules;
use crate::context;
use crate::error::GatewayError;
use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::script::Playback;
use crate::secret::Secret;
use crate::status::KeyStatus;
use crate::wire::Provider;

/// What a new key is for and what it may do.
#[derive(Debug, Clone, Default)]
pub struct KeySpec {
    /// A name for the ledger. It is no secret.
    pub label: String,
    /// What may be spent with this key.
    pub limits: Limits,
    /// A budget that this key shares with others, such as that of a whole run.
    pub shared: Vec<Arc<Budget>>,
    /// Rules for requests.
    pub policy: Policy,
    /// A file that gets a line of JSON for every call.
    pub log: Option<PathBuf>,
    /// A cassette to record to or to replay from.
    pub cassette: Option<CassetteSpec>,
    /// The hosts that the forward proxy lets through: names, `*.name`, addresses, networks.
    pub allow_hosts: Vec<String>,
    /// Faults to put in on purpose.
    pub faults: Option<Faults>,
    /// The key itself, when it was agreed on before; a random one unless given.
    pub key: Option<VirtualKey>,
    /// Other keys that its client may show on a listener of its own, such as a provider's.
    pub aliases: Vec<Secret>,
}

/// A key that was minted. Whoever has it may spend its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualKey(pub(crate) Secret);

impl VirtualKey {
    /// The key of this name among those that follow from one secret: who has the secret can tell it
    /// without asking.
    #[must_use]
    pub fn derived(secret: &Secret, name: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(secret.expose());
        digest.update([0]);
        digest.update(name);
        Self(spelt(&digest.finalize()[..KEY_BYTES]))
    }

    /// The key as a client has to show it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// A performance for each provider that is a script.
pub(crate) type Playbacks = [Option<Arc<Playback>>; Provider::ALL.len()];

/// All about one key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) secret: Secret,
    /// Its name.
    pub(crate) label: String,
    pub(crate) budget: Budget,
    pub(crate) shared: Vec<Arc<Budget>>,
    pub(crate) policy: Policy,
    pub(crate) log: Option<LogFile>,
    pub(crate) cassette: Option<Cassette>,
    pub(crate) hosts: HostRules,
    pub(crate) faults: Option<Faults>,
    /// How far each provider's script has been played for this key.
    pub(crate) playbacks: Playbacks,
    /// Cancelled when the key is revoked: calls under way end then.
    pub(crate) revoked: CancellationToken,
    /// Cancelled when its client shows a key that the gateway does not know.
    #[expect(clippy::struct_field_names, reason = "it is about another key")]
    pub(crate) unknown_key: CancellationToken,
    /// Permits for calls that are read on without their client.
    pub(crate) abandoned: Arc<Semaphore>,
    pub(crate) bounds: Bounds,
    aliases: Vec<Secret>,
    /// What the calls have in common.
    pub(crate) context: context::Seen,
    ledger: Mutex<Ledger>,
    calls: AtomicU64,
    closed: AtomicBool,
    /// How many calls are under way.
    live: watch::Sender<usize>,
}

impl Key {
    /// Makes a key of its specification.
    pub(crate) fn new(
        spec: KeySpec,
        playbacks: Playbacks,
        stop: &CancellationToken,
    ) -> Result<Self, GatewayError> {
        let log = spec.log.as_deref().map(LogFile::open).transpose()?;
        let cassette = spec.cassette.map(Cassette::open).transpose()?;
        let ledger = Ledger {
            label: spec.label.clone(),
            ..Ledger::default()
        };
        Ok(Self {
            secret: match spec.key {
                Some(VirtualKey(secret)) => secret,
                None => random_key()?,
            },
            label: spec.label,
            budget: Budget::new(spec.limits),
            shared: spec.shared,
            policy: spec.policy,
            log,
            cassette,
            hosts: HostRules::parse(&spec.allow_hosts)?,
            faults: spec.faults,
            playbacks,
            revoked: stop.child_token(),
            unknown_key: CancellationToken::new(),
            bounds: Bounds::default(),
            abandoned: Arc::new(Semaphore::new(MOST_ABANDONED)),
            aliases: spec.aliases,
            context: context::Seen::default(),
            ledger: Mutex::new(ledger),
            calls: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            live: watch::Sender::new(0),
        })
    }

    /// Whether its client may show this key instead.
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

    /// The account, with what became of the cassette and what the calls had in common.
    pub(crate) fn account(&self) -> Ledger {
        let mut ledger = self.ledger().clone();
        ledger.cassette = self.cassette.as_ref().map(Cassette::report);
        ledger.context = self.context.get();
        ledger
    }

    /// What it is used for now.
    pub(crate) fn status(&self) -> KeyStatus {
        let in_flight = *self.live.borrow();
        KeyStatus::new(&self.ledger(), in_flight)
    }

    /// A call is under way.
    pub(crate) fn begin(&self) {
        self.live.send_modify(|live| *live += 1);
    }

    /// A call is in the books.
    pub(crate) fn end(&self) {
        self.live.send_modify(|live| *live -= 1);
    }

    /// Waits until no call is under way.
    pub(crate) async fn quiet(&self) {
        // The sender lives as long as this key, so there is no error to expect.
        let _ = self.live.subscribe().wait_for(|live| *live == 0).await;
    }

    /// No more calls: those under way are cancelled.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.revoked.cancel();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The keys that are valid now.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    by_secret: RwLock<HashMap<Secret, Arc<Key>>>,
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

/// The key that a request shows, wherever its client puts it.
pub(crate) fn shown(headers: &HeaderMap, query: Option<&str>) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    let in_query = || {
        let mut pairs = query?.split('&');
        pairs.find_map(|pair| pair.strip_prefix("key="))
    };
    let found = header("x-api-key").or(bearer).or(header("x-goog-api-key"));
    found.or_else(in_query).map(str::to_owned)
}

/// The query without the key.
pub(crate) fn query_without_key(query: &str) -> String {
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.starts_with("key="))
        .collect();
    kept.join("&")
}

/// How every key begins: like a provider's, because some clients check that.
pub(crate) const KEY_PREFIX: &str = "sk-ant-proctor-";

/// How long every key is.
pub(crate) const KEY_LENGTH: usize = KEY_PREFIX.len() + 2 * KEY_BYTES;

/// Random bytes in a key.
const KEY_BYTES: usize = 24;

/// A key nobody can guess.
fn random_key() -> Result<Secret, GatewayError> {
    let mut bytes = [0_u8; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| GatewayError::Random)?;
    Ok(spelt(&bytes))
}

/// A key of these bytes.
fn spelt(bytes: &[u8]) -> Secret {
    let mut key = String::from(KEY_PREFIX);
    for byte in bytes {
        write!(key, "{byte:02x}").expect("writing to a string cannot fail");
    }
    Secret::new(key)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn a_key_is_found_wherever_a_client_puts_it() {
        let found = |name, value| shown(&headers(name, value), None);
        assert_eq!(found("x-api-key", "k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "Bearer k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "bearer k").as_deref(), Some("k"));
        assert_eq!(found("x-goog-api-key", "k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "Basic k"), None);
        assert_eq!(
            shown(&HeaderMap::new(), Some("alt=sse&key=k")).as_deref(),
            Some("k")
        );
        assert_eq!(query_without_key("alt=sse&key=k&x=1"), "alt=sse&x=1");
    }

    #[test]
    fn keys_differ_and_do_not_show() {
        let (a, b) = (random_key().unwrap(), random_key().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.expose().len(), KEY_LENGTH);
        assert!(!format!("{:?}", VirtualKey(a.clone())).contains(a.expose()));
    }

    #[test]
    fn a_key_that_follows_from_a_secret_is_the_same_each_time_and_no_other() {
        let (one, other) = (Secret::new("one"), Secret::new("other"));
        let key = VirtualKey::derived(&one, "a");
        assert_eq!(key, VirtualKey::derived(&one, "a"));
        assert_ne!(key, VirtualKey::derived(&one, "b"));
        assert_ne!(key, VirtualKey::derived(&other, "a"));
        assert_eq!(key.expose().len(), KEY_LENGTH);
    }
}
