//! The state that all workers of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use proctor_model_api::Provider;
use proctor_scripted_model::Script;
use tokio_util::sync::CancellationToken;

use crate::call_log::CallLogWriter;
use crate::key::Keys;
use crate::ledger::{Call, CallEnd};
use crate::pricing::Prices;
use crate::secrets::Redactor;
use crate::status::{Histogram, KeyStatus, Overview, Pages};
use crate::tls::Acceptor;
use crate::upstream::DialConfig;
use crate::upstream::UpstreamEndpoint;

/// The state of a gateway.
#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) keys: Keys,
    pub(crate) prices: Prices,
    pub(crate) redactor: Redactor,
    pub(crate) log: CallLogWriter,
    pub(crate) upstreams: [Option<ModelBackend>; Provider::ALL.len()],
    pub(crate) dial: Arc<DialConfig>,
    /// Cancelled when the gateway has to stop.
    pub(crate) stop: CancellationToken,
    pub(crate) counters: Counters,
    /// The start time, as a timestamp and as a monotonic time.
    pub(crate) since: Timestamp,
    pub(crate) began: Instant,
    pub(crate) pages: Pages,
    /// TLS for TCP connections, if enabled.
    pub(crate) tls: Option<Acceptor>,
}

/// The source of responses for a provider.
#[derive(Debug)]
pub(crate) enum ModelBackend {
    Http(Box<UpstreamEndpoint>),
    Script(Arc<Script>),
}

/// Counters since the start, for the status page.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Finished calls, by their end.
    pub(crate) ended: [AtomicU64; CallEnd::ALL.len()],
    /// Times until responses began and ended.
    pub(crate) first_byte: Histogram,
    pub(crate) total: Histogram,
}

impl GatewayState {
    pub(crate) fn backend(&self, provider: Provider) -> Option<&ModelBackend> {
        self.upstreams[provider as usize].as_ref()
    }

    /// Counts a finished call.
    pub(crate) fn count(&self, call: &Call) {
        let counters = &self.counters;
        counters.ended[call.ended as usize].fetch_add(1, Ordering::Relaxed);
        if call.ended != CallEnd::Refused {
            call.first_byte_ms
                .into_iter()
                .for_each(|ms| counters.first_byte.add(ms));
            counters.total.add(call.total_ms);
        }
    }

    /// The status of the gateway.
    pub(crate) fn overview(&self) -> Overview {
        let mut keys: Vec<KeyStatus> = self.keys.all().iter().map(|key| key.status()).collect();
        keys.sort_by(|one, other| one.label.cmp(&other.label));
        let counters = &self.counters;
        Overview {
            since: self.since,
            uptime: self.began.elapsed(),
            ended: CallEnd::ALL.map(|ended| {
                let count = counters.ended[ended as usize].load(Ordering::Relaxed);
                (ended, count)
            }),
            keys,
            first_byte: counters.first_byte.read(),
            total: counters.total.read(),
        }
    }
}
