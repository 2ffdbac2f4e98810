//! Bounds on what one key holds at a time, so that one client cannot starve the others: calls under way,
//! calls that wait, bytes of request bodies, and tunnels.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many calls of a key are under way; more wait.
const MOST_CALLS: usize = 64;

/// So many calls of a key wait; more are refused.
const MOST_WAITING: usize = 256;

/// KiB of request bodies that are held for a key.
const MOST_BODIES: u32 = 256 << 10;

/// Tunnels of the forward proxy that a key has open.
const MOST_TUNNELS: usize = 256;

/// What a key may still take.
#[derive(Debug)]
pub(crate) struct Bounds {
    calls: Arc<Semaphore>,
    waiting: AtomicUsize,
    bodies: Arc<Semaphore>,
    tunnels: Arc<Semaphore>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
            waiting: AtomicUsize::new(0),
            bodies: Arc::new(Semaphore::new(MOST_BODIES as usize)),
            tunnels: Arc::new(Semaphore::new(MOST_TUNNELS)),
        }
    }
}

impl Bounds {
    /// Waits for the permit of a call. `None` when too many wait already.
    pub(crate) async fn call(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() {
            return Some(permit);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= MOST_WAITING {
            return None;
        }
        Arc::clone(&self.calls).acquire_owned().await.ok()
    }

    /// Waits for room for a request body of up to so many bytes.
    pub(crate) async fn body(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let bodies = Arc::clone(&self.bodies);
        bodies.acquire_many_owned(kib(bytes)).await.ok()
    }

    /// The permit of a tunnel, if there is one left.
    pub(crate) fn tunnel(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.tunnels).try_acquire_owned().ok()
    }
}

/// Gives back the room that a body turned out not to need.
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

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_body_waits_until_there_is_room_and_gives_back_the_rest() {
        let bounds = Bounds::default();
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
