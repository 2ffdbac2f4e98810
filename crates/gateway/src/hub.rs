//! What all workers of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::calllog::LogWriter;
use crate::dial::DialConfig;
use crate::key::Keys;
use crate::ledger::{Call, Ended};
use crate::pricing::Prices;
use crate::redact::Redactor;
use crate::script::Script;
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
    pub(crate) calls: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) unreachable: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) cost_nano_usd: AtomicU64,
}

impl Hub {
    pub(crate) fn answerer(&self, provider: Provider) -> Option<&Answerer> {
        self.upstreams[provider as usize].as_ref()
    }

    /// Adds a call that is over to the sums.
    pub(crate) fn count(&self, call: &Call) {
        let add = |counter: &AtomicU64, value| {
            counter.fetch_add(value, Ordering::Relaxed);
        };
        let counters = &self.counters;
        add(&counters.calls, 1);
        match call.ended {
            Ended::Complete => {}
            Ended::Refused => add(&counters.refused, 1),
            Ended::Unreachable => add(&counters.unreachable, 1),
            Ended::Cut | Ended::ClientGone => add(&counters.cut, 1),
        }
        add(
            &counters.tokens,
            call.usage.map_or(0, |tokens| tokens.total()),
        );
        let cost = call.cost_nano_usd.map_or(0, |cost| cost.0);
        add(&counters.cost_nano_usd, u64::try_from(cost).unwrap_or(0));
    }
}
