//! The playback of a script.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::player::ScriptPlayer;
use crate::request::RecordedRequest;
use crate::script::Script;

/// One playback of a script.
#[derive(Debug)]
pub struct Playback {
    state: Mutex<PlaybackState>,
    /// Cancelled when the server stops.
    pub(crate) stop: CancellationToken,
}

/// The position in the script, and the requests so far.
#[derive(Debug)]
pub(crate) struct PlaybackState {
    pub(crate) player: ScriptPlayer,
    pub(crate) requests: Vec<RecordedRequest>,
}

impl Playback {
    /// Starts at the beginning of `script`.
    pub fn new(script: Script) -> Arc<Self> {
        let state = PlaybackState {
            player: ScriptPlayer::new(script),
            requests: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            stop: CancellationToken::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PlaybackState> {
        // The state stays whole even if a handler panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.clone()
    }
}
