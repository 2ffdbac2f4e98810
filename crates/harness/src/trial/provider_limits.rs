//! Limits of providers: the number of concurrent trials, and the pause after a rate limit or an
//! overload. A pause affects all trials of that provider and no others.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_record::outcome::{LimitReset, Outcome};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pause after a limit that is lifted at an unknown time.
const UNKNOWN_RESET_PAUSE: Duration = Duration::from_mins(5);

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
    /// The time until which no trial starts.
    paused_until: Instant,
    /// Consecutive trials that ended with a rate limit or an overload.
    refusals: u32,
}

/// The permit to use a provider, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _slot: Option<OwnedSemaphorePermit>,
}

impl Providers {
    /// Providers, some with a limit on concurrent trials.
    pub fn new(limits: BTreeMap<String, usize>) -> Providers {
        Providers {
            limits,
            states: Mutex::default(),
        }
    }

    /// Waits for a permit to use `provider`.
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

    /// Record how a trial with `provider` ended. `reset` is when the provider lifts its limit, if it mentioned that.
    pub fn ended(&self, provider: &str, outcome: Outcome, reset: Option<LimitReset>) {
        self.with(provider, |state| match outcome {
            Outcome::RateLimit | Outcome::Overloaded => {
                let until_reset = match reset {
                    Some(LimitReset::In(wait)) => wait,
                    Some(LimitReset::Unknown) => UNKNOWN_RESET_PAUSE,
                    None | Some(LimitReset::TooFar) => Duration::ZERO,
                };
                let pause = pause(state.refusals).max(until_reset);
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
        let reset = LimitReset::In(Duration::from_hours(1));
        for (reset, seconds) in [
            (reset, 3600),
            (LimitReset::Unknown, 300),
            // Nothing is gained by waiting: the back-off of the fourth refusal.
            (LimitReset::TooFar, 4),
        ] {
            providers.ended("one", Outcome::RateLimit, Some(reset));
            let before = Instant::now();
            providers.turn("one").await;
            assert_eq!(before.elapsed().as_secs(), seconds, "{reset:?}");
        }
        providers.ended("one", Outcome::Network, Some(reset));
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
