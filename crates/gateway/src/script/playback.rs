//! How far a script has been played, and to whom.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::answers::Script;
use super::player::Player;
use super::request::Recorded;

/// One performance of a script.
#[derive(Debug)]
pub(crate) struct Playback {
    state: Mutex<Played>,
    /// Cancelled when nobody listens any more.
    pub(crate) stop: CancellationToken,
}

/// What has been played so far.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) player: Player,
    pub(crate) requests: Vec<Recorded>,
}

impl Playback {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        let state = Played {
            player: Player::new(script),
            requests: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            stop: CancellationToken::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Played> {
        // The state stays whole even if a handler panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }
}
