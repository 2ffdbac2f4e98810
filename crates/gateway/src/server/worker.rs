//! The state of a worker thread, and the access rights of listeners.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::key::Key;
use crate::state::GatewayState;
use crate::upstream::ConnectionPool;

/// The state of a worker thread.
pub(crate) struct Worker {
    pub(crate) state: Arc<GatewayState>,
    pub(crate) pool: Arc<ConnectionPool>,
    /// Tasks that outlive their request: tunnels.
    pub(crate) tasks: TaskTracker,
}

/// The keys that a listener accepts.
#[derive(Debug, Default)]
pub(crate) struct ListenerAccess {
    /// The key of the only client behind this listener.
    pub(crate) key: Option<Arc<Key>>,
    /// Whether that client may omit its key.
    pub(crate) admits_keyless: bool,
}

impl ListenerAccess {
    /// The key of a request. An unknown key is reported to the owner of the listener's key, because
    /// retries of its client cannot succeed.
    pub(super) fn key_for(&self, state: &GatewayState, shown: Option<&str>) -> Option<Arc<Key>> {
        let Some(shown) = shown else {
            return self.keyless();
        };
        if let Some(key) = state.keys.find(shown) {
            return Some(key);
        }
        let own = self.key.as_ref()?;
        if own.has_alias(shown) {
            return Some(Arc::clone(own));
        }
        own.unknown_key.cancel();
        None
    }

    /// The key of a client that sent none.
    pub(crate) fn keyless(&self) -> Option<Arc<Key>> {
        self.key.clone().filter(|_| self.admits_keyless)
    }
}
