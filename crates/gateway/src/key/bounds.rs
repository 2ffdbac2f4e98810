//! Limits on the resources that one key uses at a time, so that one client cannot starve the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent calls of a key. Further calls wait.
const MOST_CALLS: usize = 64;

/// Waiting calls of a key. Further calls are refused.
const MOST_WAITING: usize = 256;

/// Memory for the request bodies of a key, in KiB.
const MOST_BODIES: u32 = 256 << 10;

/// Open tunnels of a key through the forward proxy.
const MOST_TUNNELS: usize = 256;

/// Calls of a key whose responses are read after their client has left.
const MOST_ABANDONED: usize = 8;

/// The resources that a key has left.
#[derive(Debug)]
pub(crate) struct KeyBounds {
    calls: Arc<Semaphore>,
    waiting: AtomicUsize,
    bodies: Arc<Semaphore>,
    tunnels: Arc<Semaphore>,
    abandoned: Arc<Semaphore>,
}

impl Default for KeyBounds {
    fn default() -> Self {
        Self {
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
            waiting: AtomicUsize::new(0),
            bodies: Arc::new(Semaphore::new(MOST_BODIES as usize)),
            tunnels: Arc::new(Semaphore::new(MOST_TUNNELS)),
            abandoned: Arc::new(Semaphore::new(MOST_ABANDONED)),
        }
    }
}

impl KeyBounds {
    /// Waits for the permit of a call. `None` if too many calls are waiting.
    pub(crate) async fn call(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() {
            return Some(permit);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaitingCall(&self.waiting);
        if before >= MOST_WAITING {
            return None;
        }
        Arc::clone(&self.calls).acquire_owned().await.ok()
    }

    /// Waits for memory for a request body of up to `bytes`.
    pub(crate) async fn body(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let bodies = Arc::clone(&self.bodies);
        bodies.acquire_many_owned(kib(bytes)).await.ok()
    }

    /// The permit of a call without its client, if there is one left.
    pub(crate) fn abandoned(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.abandoned).try_acquire_owned().ok()
    }

    /// The permit of a tunnel, if there is one left.
    pub(crate) fn tunnel(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.tunnels).try_acquire_owned().ok()
    }
}

/// Releases memory that a body did not need.
pub(crate) fn shrink(room: &mut OwnedSemaphorePermit, bytes: usize) {
    let spare = room
        .num_permits()
        .saturating_sub(kib(bytes as u64) as usize);
    drop(room.split(spare));
}

fn kib(bytes: u64) -> u32 {
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(MOST_BODIES);
    kib.min(MOST_BODIES)
}

struct WaitingCall<'a>(&'a AtomicUsize);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn body_waits_for_memory_and_releases_the_rest() {
        let bounds = KeyBounds::default();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(bounds.body(64 << 20).await.unwrap());
        }
        let next = tokio::time::timeout(Duration::from_millis(20), bounds.body(1));
        assert!(next.await.is_err());
        shrink(&mut held[0], 10);
        assert_eq!(held[0].num_permits(), 1);
        assert!(bounds.body(60 << 20).await.is_some());
    }
}
