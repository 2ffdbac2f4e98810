//! The status of a gateway, from its keys and counters, for the status page and the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::budget::Exhausted;
use crate::ledger::{Call, CallEnd, Ledger, Totals};

/// The number of recent calls of each key to show.
const SHOWN_CALLS: usize = 20;

/// Upper bounds of the classes of the histogram, in milliseconds.
pub(crate) const BOUNDS: [u64; 14] = [
    1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 120_000,
];

/// Whether a gateway serves its status at `/` and `/metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pages {
    /// Nothing is served.
    #[default]
    Hidden,
    /// Names and figures are served: no keys, prompts or responses.
    Shown,
}

/// A histogram of times.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    classes: [AtomicU64; BOUNDS.len() + 1],
    sum_ms: AtomicU64,
}

impl Histogram {
    pub(crate) fn add(&self, ms: u64) {
        let class = BOUNDS.partition_point(|bound| *bound < ms);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.sum_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Times {
        Times {
            classes: self
                .classes
                .each_ref()
                .map(|class| class.load(Ordering::Relaxed)),
            sum_ms: self.sum_ms.load(Ordering::Relaxed),
        }
    }
}

/// How long calls took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// The number of calls in each class; the last class has no upper bound.
    pub(crate) classes: [u64; BOUNDS.len() + 1],
    /// The total, in milliseconds.
    pub(crate) sum_ms: u64,
}

impl Times {
    /// The number of calls.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The percentile, in milliseconds, rounded up to a class. `None` without calls, or beyond all classes.
    pub fn within(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut so_far = 0;
        let class = self.classes.iter().position(|count| {
            so_far += count;
            so_far >= wanted
        })?;
        BOUNDS.get(class).copied().filter(|_| wanted > 0)
    }
}

/// The status of one key.
#[derive(Debug, Clone)]
pub struct KeyStatus {
    /// Its name.
    pub label: String,
    /// Calls in flight.
    pub in_flight: usize,
    /// Sums over its calls.
    pub totals: Totals,
    /// Totals by model.
    pub models: BTreeMap<String, Totals>,
    /// Free calls.
    pub free_calls: u64,
    /// Calls that the gateway refused.
    pub refused: u64,
    /// The first limit that stopped a call.
    pub exhausted: Option<Exhausted>,
    /// Recent calls, the newest first.
    pub last_calls: Vec<Call>,
}

/// The status of a gateway.
#[derive(Debug, Clone)]
pub struct Overview {
    /// When it was started.
    pub since: Timestamp,
    /// How long it has been running.
    pub uptime: Duration,
    /// Finished calls, by their end.
    pub ended: [(CallEnd, u64); 5],
    /// The keys that are valid now, by name.
    pub keys: Vec<KeyStatus>,
    /// Milliseconds until answers began.
    pub first_byte: Times,
    /// Milliseconds until they ended.
    pub total: Times,
}

impl Overview {
    /// Calls in flight.
    pub fn in_flight(&self) -> usize {
        self.keys.iter().map(|key| key.in_flight).sum()
    }

    /// Sums over all keys, by model.
    pub fn models(&self) -> BTreeMap<&str, Totals> {
        let mut models: BTreeMap<&str, Totals> = BTreeMap::new();
        for (model, totals) in self.keys.iter().flat_map(|key| &key.models) {
            models.entry(model).or_default().merge(totals);
        }
        models
    }

    /// Sums over all keys.
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        self.keys.iter().for_each(|key| all.merge(&key.totals));
        all
    }
}

impl KeyStatus {
    pub(crate) fn new(ledger: &Ledger, in_flight: usize) -> Self {
        Self {
            label: ledger.label.clone(),
            in_flight,
            totals: ledger.totals.clone(),
            models: ledger.models.clone(),
            free_calls: ledger.free_calls,
            refused: ledger.refused,
            exhausted: ledger.exhausted,
            last_calls: ledger
                .calls
                .iter()
                .rev()
                .take(SHOWN_CALLS)
                .cloned()
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_bounds_of_classes() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().within(50), None);
        for ms in [1, 2, 3, 40, 900] {
            histogram.add(ms);
        }
        let times = histogram.read();
        assert_eq!((times.count(), times.sum_ms), (5, 946));
        assert_eq!(times.within(20), Some(1));
        assert_eq!(times.within(50), Some(5));
        assert_eq!(times.within(99), Some(1000));
        histogram.add(500_000);
        assert_eq!(histogram.read().within(99), None, "beyond all classes");
    }
}
