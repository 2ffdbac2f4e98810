//! Limits of providers: how many trials use one at the same time, and how long no trial starts after a rate
//! limit or an overload. A pause holds for all trials of that provider, and for no others.

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

/// The state of one provider.
#[derive(Debug)]
struct State {
    slots: Option<Arc<Semaphore>>,
    /// No trial starts before.
    paused_until: Instant,
    /// Consecutive trials that ended with a rate limit or an overload.
    refusals: u32,
}

/// The right to use a provider, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _slot: Option<OwnedSemaphorePermit>,
}

impl Providers {
    /// Providers, some of which limit the number of concurrent trials.
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
            let paused_until = self.with(provider, |state| state.paused_until);
            if paused_until <= Instant::now() {
                return Turn { _slot: slot };
            }
            sleep_until(paused_until).await;
        }
    }

    /// Record how a trial with `provider` ended. `resets_in` is the time until the provider lifts its limit, if it
    /// said so.
    pub fn ended(&self, provider: &str, outcome: Outcome, resets_in: Option<Duration>) {
        self.with(provider, |state| match outcome {
            Outcome::RateLimit | Outcome::Overloaded => {
                let pause = pause(state.refusals).max(resets_in.unwrap_or_default());
                state.refusals += 1;
                state.paused_until = state.paused_until.max(Instant::now() + pause);
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
            paused_until: Instant::now(),
            refusals: 0,
        });
        read(state)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The back-off after this many failed attempts: it doubles each time.
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
    async fn refusal_pauses_all_trials_of_that_provider_and_no_others() {
        let providers = Providers::default();
        providers.ended("one", Outcome::RateLimit, None);
        assert!(timeout(SOON, providers.turn("one")).await.is_err());
        assert!(timeout(SOON, providers.turn("other")).await.is_ok());
        let before = Instant::now();
        providers.turn("one").await;
        assert!(before.elapsed() < FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_trial_is_not_refused() {
        let providers = Providers::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            providers.ended("one", Outcome::Overloaded, None);
            let before = Instant::now();
            providers.turn("one").await;
            pauses.push(before.elapsed().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        providers.ended("one", Outcome::Completed, None);
        providers.ended("one", Outcome::RateLimit, None);
        let before = Instant::now();
        providers.turn("one").await;
        assert_eq!(before.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_lasts_until_the_limit_is_lifted() {
        let providers = Providers::default();
        let reset = Some(Duration::from_hours(1));
        providers.ended("one", Outcome::RateLimit, reset);
        let before = Instant::now();
        providers.turn("one").await;
        assert_eq!(before.elapsed().as_secs(), 3600);
        providers.ended("one", Outcome::Network, reset);
        assert!(timeout(SOON, providers.turn("one")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_trials_of_a_provider_are_limited() {
        let providers = Providers::new(BTreeMap::from([("one".to_owned(), 2)]));
        let first = providers.turn("one").await;
        let _second = providers.turn("one").await;
        assert!(timeout(SOON, providers.turn("one")).await.is_err());
        drop(first);
        assert!(timeout(SOON, providers.turn("one")).await.is_ok());
    }
}
