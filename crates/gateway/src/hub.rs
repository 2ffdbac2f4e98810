//! What all workers of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::calllog::LogWriter;
use crate::dial::DialConfig;
use crate::key::Keys;
use crate::ledger::{Call, Ended};
use crate::pricing::Prices;
use crate::redact::Redactor;
use crate::script::Script;
use crate::status::{Histogram, Pages};
use crate::tls::Acceptor;
use crate::upstream::Ready;
use crate::wire::Provider;

/// The state of a gateway.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) keys: Keys,
    pub(crate) prices: Prices,
    pub(crate) redactor: Redactor,
    pub(crate) log: LogWriter,
    pub(crate) upstreams: [Option<Answerer>; Provider::ALL.len()],
    pub(crate) dial: Arc<DialConfig>,
    /// Cancelled when the gateway has to stop.
    pub(crate) stop: CancellationToken,
    pub(crate) counters: Counters,
    /// When it was started, by the calendar and by the clock.
    pub(crate) since: Timestamp,
    pub(crate) began: Instant,
    pub(crate) pages: Pages,
    /// How connections over the network are encrypted; not at all when `None`.
    pub(crate) tls: Option<Acceptor>,
}

/// Who answers for a provider.
#[derive(Debug)]
pub(crate) enum Answerer {
    Http(Box<Ready>),
    Script(Arc<Script>),
}

/// Sums since the start, for a status page.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Calls that are over, by their end.
    pub(crate) ended: [AtomicU64; Ended::ALL.len()],
    /// How long answers took to begin and to end.
    pub(crate) first_byte: Histogram,
    pub(crate) total: Histogram,
}

impl Hub {
    pub(crate) fn answerer(&self, provider: Provider) -> Option<&Answerer> {
        self.upstreams[provider as usize].as_ref()
    }

    /// Adds a call that is over to the sums.
    pub(crate) fn count(&self, call: &Call) {
        let counters = &self.counters;
        counters.ended[call.ended as usize].fetch_add(1, Ordering::Relaxed);
        if call.ended != Ended::Refused {
            call.first_byte_ms
                .into_iter()
                .for_each(|ms| counters.first_byte.add(ms));
            counters.total.add(call.total_ms);
        }
    }
}
