//! Rate and concurrency of the requests to one provider, and the pauses that it asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::RETRY_AFTER;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// No pause is longer, whatever a provider asks for.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// How much a provider gets at once. The default limits nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// The most requests under way.
    pub concurrent: Option<usize>,
    /// The most requests that start in a minute, evenly spread.
    pub per_minute: Option<u32>,
}

/// The state of one provider's limits.
#[derive(Debug)]
pub(crate) struct Gate {
    permits: Option<Arc<Semaphore>>,
    spacing: Option<Duration>,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    /// When the next request may start by rate.
    next: Option<Instant>,
    /// Until when the provider wants to be left alone.
    paused: Option<Instant>,
}

/// A request under way.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Gate {
    pub(crate) fn new(throttle: Throttle) -> Self {
        let per_minute = throttle.per_minute.filter(|count| *count > 0);
        Self {
            permits: throttle
                .concurrent
                .map(|count| Arc::new(Semaphore::new(count.max(1)))),
            spacing: per_minute.map(|count| Duration::from_mins(1) / count),
            times: Mutex::default(),
        }
    }

    /// Waits until a request may start.
    pub(crate) async fn enter(&self) -> Pass {
        let permit = match &self.permits {
            Some(permits) => {
                let permit = Arc::clone(permits).acquire_owned().await;
                Some(permit.expect("the semaphore is never closed"))
            }
            None => None,
        };
        while let Some(until) = self.pause() {
            tokio::time::sleep_until(until.into()).await;
        }
        if let Some(at) = self.slot() {
            tokio::time::sleep_until(at.into()).await;
        }
        Pass { _permit: permit }
    }

    /// Leaves the provider alone for as long as its answer asks for. All keys share this.
    pub(crate) fn note(&self, status: u16, headers: &HeaderMap) {
        if !matches!(status, 429 | 503 | 529) {
            return;
        }
        if let Some(pause) = retry_after(headers) {
            let until = Instant::now() + pause.min(LONGEST_PAUSE);
            let mut times = self.lock();
            times.paused = times.paused.max(Some(until));
        }
    }

    fn pause(&self) -> Option<Instant> {
        let until = self.lock().paused?;
        (until > Instant::now()).then_some(until)
    }

    fn slot(&self) -> Option<Instant> {
        let spacing = self.spacing?;
        let now = Instant::now();
        let mut times = self.lock();
        let at = times.next.map_or(now, |next| next.max(now));
        times.next = Some(at + spacing);
        Some(at)
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause that an answer asks for, in either unit.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let precise = number("retry-after-ms").map(Duration::from_millis);
    precise.or_else(|| number(RETRY_AFTER.as_str()).map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn a_pause_that_one_call_was_told_holds_for_all() {
        let gate = Gate::new(Throttle::default());
        let headers = HeaderMap::from_iter([(
            hyper::header::HeaderName::from_static("retry-after-ms"),
            HeaderValue::from_static("80"),
        )]);
        let began = Instant::now();
        gate.note(200, &headers);
        gate.enter().await;
        assert!(
            began.elapsed() < Duration::from_millis(70),
            "a good answer pauses nothing"
        );
        gate.note(429, &headers);
        gate.enter().await;
        assert!(began.elapsed() >= Duration::from_millis(80));
    }

    #[tokio::test]
    async fn no_more_requests_at_once_than_allowed() {
        let gate = Gate::new(Throttle {
            concurrent: Some(1),
            per_minute: None,
        });
        let first = gate.enter().await;
        let second = tokio::time::timeout(Duration::from_millis(20), gate.enter());
        assert!(second.await.is_err());
        drop(first);
        gate.enter().await;
    }

    #[tokio::test]
    async fn a_rate_spreads_requests_evenly() {
        let gate = Gate::new(Throttle {
            concurrent: None,
            per_minute: Some(3000),
        });
        let began = Instant::now();
        for _ in 0..4 {
            gate.enter().await;
        }
        assert!(began.elapsed() >= Duration::from_millis(60));
    }
}
