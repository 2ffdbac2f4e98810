//! Providers and how much is asked of them: how many trials use one at the same time, and how
//! long it is left alone after it said that it has too much to do. What slows a provider down
//! slows all trials that use it, and none that do not.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use crate::outcome::Outcome;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// All providers of a run.
#[derive(Debug, Default)]
pub struct Providers {
    limits: BTreeMap<String, usize>,
    states: Mutex<BTreeMap<String, State>>,
}

/// What is known of one provider.
#[derive(Debug)]
struct State {
    slots: Option<Arc<Semaphore>>,
    /// No trial starts before.
    rests_until: Instant,
    /// How often in a row it said that it has too much to do.
    refusals: u32,
}

/// The right to use a provider, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _slot: Option<OwnedSemaphorePermit>,
}

impl Providers {
    /// Providers of which these take no more than so many trials at a time.
    pub fn new(limits: BTreeMap<String, usize>) -> Providers {
        Providers {
            limits,
            states: Mutex::default(),
        }
    }

    /// Wait for a turn with `provider`.
    pub async fn turn(&self, provider: &str) -> Turn {
        let slots = self.with(provider, |state| state.slots.clone());
        let slot = match slots {
            None => None,
            Some(slots) => slots.acquire_owned().await.ok(),
        };
        loop {
            let rests_until = self.with(provider, |state| state.rests_until);
            if rests_until <= Instant::now() {
                return Turn { _slot: slot };
            }
            sleep_until(rests_until).await;
        }
    }

    /// Take down how a trial with `provider` ended.
    pub fn ended(&self, provider: &str, outcome: Outcome) {
        self.with(provider, |state| match outcome {
            Outcome::RateLimit | Outcome::Overloaded => {
                let rest = pause(state.refusals);
                state.refusals += 1;
                state.rests_until = state.rests_until.max(Instant::now() + rest);
            }
            outcome if outcome.is_infrastructure() => {}
            _ => state.refusals = 0,
        });
    }

    fn with<T>(&self, provider: &str, read: impl FnOnce(&mut State) -> T) -> T {
        let mut states = self.lock();
        let state = states.entry(provider.to_owned()).or_insert_with(|| State {
            slots: self
                .limits
                .get(provider)
                .map(|limit| Arc::new(Semaphore::new(*limit))),
            rests_until: Instant::now(),
            refusals: 0,
        });
        read(state)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait before the next try, after so many that failed: twice as long each time.
pub(crate) fn pause(failed: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(failed))
        .min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_refusal_makes_all_trials_of_that_provider_wait_and_no_other() {
        let providers = Providers::default();
        providers.ended("one", Outcome::RateLimit);
        assert!(timeout(SOON, providers.turn("one")).await.is_err());
        assert!(timeout(SOON, providers.turn("other")).await.is_ok());
        let before = Instant::now();
        providers.turn("one").await;
        assert!(before.elapsed() < FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_trial_gets_through() {
        let providers = Providers::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            providers.ended("one", Outcome::Overloaded);
            let before = Instant::now();
            providers.turn("one").await;
            pauses.push(before.elapsed().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        providers.ended("one", Outcome::Completed);
        providers.ended("one", Outcome::RateLimit);
        let before = Instant::now();
        providers.turn("one").await;
        assert_eq!(before.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_use_a_provider_at_a_time() {
        let providers = Providers::new(BTreeMap::from([("one".to_owned(), 2)]));
        let first = providers.turn("one").await;
        let _second = providers.turn("one").await;
        assert!(timeout(SOON, providers.turn("one")).await.is_err());
        drop(first);
        assert!(timeout(SOON, providers.turn("one")).await.is_ok());
    }
}
