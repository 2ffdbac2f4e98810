//! Limits the rate and concurrency of requests to one provider, and honours `retry-after`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::RETRY_AFTER;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest pause that a provider can request.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// Rate and concurrency limits of a provider. There are none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// The most requests under way.
    pub concurrent: Option<usize>,
    /// The most requests that start in a minute, evenly spread.
    pub per_minute: Option<u32>,
}

/// Enforces the limits of one provider.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    permits: Option<Arc<Semaphore>>,
    spacing: Option<Duration>,
    times: Mutex<ThrottleTimes>,
}

#[derive(Debug, Default)]
struct ThrottleTimes {
    /// When the next request may start by rate.
    next: Option<Instant>,
    /// The end of the pause that the provider requested.
    paused: Option<Instant>,
}

/// A request under way.
#[derive(Debug, Default)]
pub(crate) struct LimiterPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl RateLimiter {
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
    pub(crate) async fn enter(&self) -> LimiterPermit {
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
        LimiterPermit { _permit: permit }
    }

    /// Starts the pause that a response requests. It applies to all keys.
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

    fn lock(&self) -> MutexGuard<'_, ThrottleTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause that a response requests, in milliseconds or seconds.
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
    async fn retry_after_pauses_all_calls() {
        let limiter = RateLimiter::new(Throttle::default());
        let headers = HeaderMap::from_iter([(
            hyper::header::HeaderName::from_static("retry-after-ms"),
            HeaderValue::from_static("80"),
        )]);
        let began = Instant::now();
        limiter.note(200, &headers);
        limiter.enter().await;
        assert!(
            began.elapsed() < Duration::from_millis(70),
            "a successful response causes no pause"
        );
        limiter.note(429, &headers);
        limiter.enter().await;
        assert!(began.elapsed() >= Duration::from_millis(80));
    }

    #[tokio::test]
    async fn concurrency_limit_is_enforced() {
        let limiter = RateLimiter::new(Throttle {
            concurrent: Some(1),
            per_minute: None,
        });
        let first = limiter.enter().await;
        let second = tokio::time::timeout(Duration::from_millis(20), limiter.enter());
        assert!(second.await.is_err());
        drop(first);
        limiter.enter().await;
    }

    #[tokio::test]
    async fn rate_limit_spaces_requests_evenly() {
        let limiter = RateLimiter::new(Throttle {
            concurrent: None,
            per_minute: Some(3000),
        });
        let began = Instant::now();
        for _ in 0..4 {
            limiter.enter().await;
        }
        assert!(began.elapsed() >= Duration::from_millis(60));
    }
}
