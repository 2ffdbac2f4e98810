//! The account of a key: its calls with their usage, cost and end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proctor_model_api::{Kind, Wire};
use serde::Serialize;

use crate::budget::Exhausted;
use crate::faults::Fault;
use crate::metering::Tokens;
use crate::pricing::NanoUsd;
use crate::recording::RecordingReport;
use crate::request::{ModelContext, Observation};

/// The number of recent calls that are kept in memory. The totals and the call log cover all calls.
const KEPT_CALLS: usize = 1000;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The whole response was delivered.
    Complete,
    /// The response was interrupted.
    Cut,
    /// The client disconnected.
    ClientGone,
    /// The gateway refused the call.
    Refused,
    /// The provider could not be reached or did not answer.
    Unreachable,
}

impl CallEnd {
    /// All values.
    pub const ALL: [Self; 5] = [
        Self::Complete,
        Self::Cut,
        Self::ClientGone,
        Self::Refused,
        Self::Unreachable,
    ];

    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::ClientGone => "client_gone",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// One call in the ledger and in the call log.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    /// The name of its key.
    pub key: String,
    /// Its number, counted for each key from 1.
    pub call: u64,
    /// When it came in.
    pub at: Timestamp,
    /// The API.
    pub wire: Wire,
    /// The kind of request.
    pub kind: Kind,
    /// The path, without its query.
    pub path: String,
    /// The model that the client requested.
    pub model: Option<String>,
    /// The model that was sent, if the policy renamed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_model: Option<String>,
    /// The model that claims to have answered.
    pub served_model: Option<String>,
    /// Whether the answer was a stream.
    pub stream: bool,
    /// The status that the client got, if it got one.
    pub status: Option<u16>,
    /// How it ended.
    pub ended: CallEnd,
    /// The usage. `None` if the provider did not report it.
    pub usage: Option<Tokens>,
    /// The cost. `None` if usage or price is unknown.
    pub cost_nano_usd: Option<NanoUsd>,
    /// The response did not report the whole usage: `usage` and cost are lower bounds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The upper bound of the cost of an incomplete call. `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_nano_usd: Option<NanoUsd>,
    /// The budget that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<Exhausted>,
    /// Changes and actions of the gateway: policies, added fields, faults, replays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of retries of the gateway.
    pub retries: u32,
    /// The injected fault.
    #[serde(skip)]
    pub fault: Option<Fault>,
    /// The error, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Bytes of the request body that the client sent.
    pub request_bytes: u64,
    /// Bytes of the response body.
    pub response_bytes: u64,
    /// Milliseconds that the gateway delayed the call (rate, concurrency, budget, `retry-after`).
    pub waited_ms: u64,
    /// Milliseconds until the response began.
    pub first_byte_ms: Option<u64>,
    /// Milliseconds until it ended.
    pub total_ms: u64,
}

impl Call {
    /// The model that was sent upstream.
    pub fn effective_model(&self) -> Option<&str> {
        self.sent_model.as_deref().or(self.model.as_deref())
    }
}

/// Totals over calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Calls that were sent to a model.
    pub calls: u64,
    /// Their tokens.
    pub usage: Tokens,
    /// Their cost, as far as it is known.
    pub cost_nano_usd: NanoUsd,
    /// Calls that failed at the provider, free of charge.
    pub calls_failed: u64,
    /// Calls without reported usage.
    pub calls_without_usage: u64,
    /// Calls with known usage and unknown price: the cost above is too low.
    pub calls_without_price: u64,
    /// Interrupted calls without complete usage: the usage above may be too low.
    pub calls_cut: u64,
    /// The upper bound of the cost of all calls that have one.
    pub cost_at_most_nano_usd: NanoUsd,
    /// Incomplete calls without such a bound: the sum above is too low.
    pub calls_unbounded: u64,
    /// Calls whose provider could not be reached or did not answer.
    pub calls_unreachable: u64,
    /// Calls with an injected fault.
    pub calls_with_faults: u64,
    /// The number of retries.
    pub retries: u64,
}

impl Totals {
    fn add(&mut self, call: &Call) {
        self.calls += 1;
        let failed = call.status.is_none_or(|status| status >= 400);
        match call.usage {
            Some(tokens) => self.usage += tokens,
            None if failed && call.ended != CallEnd::ClientGone => self.calls_failed += 1,
            None => self.calls_without_usage += 1,
        }
        match call.cost_nano_usd {
            Some(cost) => self.cost_nano_usd = self.cost_nano_usd.plus(cost),
            None if call.usage.is_some() => self.calls_without_price += 1,
            None => {}
        }
        let cut = matches!(call.ended, CallEnd::Cut | CallEnd::ClientGone);
        self.calls_cut += u64::from(cut && call.incomplete);
        self.calls_unbounded += u64::from(call.incomplete && call.at_most_nano_usd.is_none());
        let most = call.at_most_nano_usd.or(call.cost_nano_usd);
        self.cost_at_most_nano_usd = self.cost_at_most_nano_usd.plus(most.unwrap_or_default());
        self.calls_unreachable += u64::from(call.ended == CallEnd::Unreachable);
        self.calls_with_faults += u64::from(call.fault.is_some());
        self.retries += u64::from(call.retries);
    }

    /// Adds the totals of other calls.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.usage += other.usage;
        self.cost_nano_usd = self.cost_nano_usd.plus(other.cost_nano_usd);
        self.calls_failed += other.calls_failed;
        self.calls_without_usage += other.calls_without_usage;
        self.calls_without_price += other.calls_without_price;
        self.calls_cut += other.calls_cut;
        self.cost_at_most_nano_usd = self.cost_at_most_nano_usd.plus(other.cost_at_most_nano_usd);
        self.calls_unbounded += other.calls_unbounded;
        self.calls_unreachable += other.calls_unreachable;
        self.calls_with_faults += other.calls_with_faults;
        self.retries += other.retries;
    }

    /// The cost, or `None` when that of some call is unknown.
    pub fn cost(&self) -> Option<NanoUsd> {
        (self.calls_without_price == 0).then_some(self.cost_nano_usd)
    }

    /// The upper bound of the cost, or `None` when some call has none.
    pub fn cost_at_most(&self) -> Option<NanoUsd> {
        let bounded = self.calls_without_price == 0 && self.calls_unbounded == 0;
        bounded.then_some(self.cost_at_most_nano_usd)
    }
}

/// The account of one key.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ledger {
    /// The name that the key was minted with.
    pub label: String,
    /// Totals over all calls.
    pub totals: Totals,
    /// Totals by the model that was sent.
    pub models: BTreeMap<String, Totals>,
    /// Free calls: counts of tokens, lists of models.
    pub free_calls: u64,
    /// Calls that the gateway refused.
    pub refused: u64,
    /// The first limit that stopped a call.
    pub exhausted: Option<Exhausted>,
    /// Hosts that the forward proxy refused, with the number of attempts.
    pub refused_hosts: BTreeMap<String, u64>,
    /// The most recent calls.
    pub calls: Vec<Call>,
    /// The number of calls that were dropped from `calls`.
    pub calls_left_out: u64,
    /// The report of the recording, if there is one.
    pub recording: Option<RecordingReport>,
    /// The system prompt and tools, if a call had tools.
    #[serde(skip)]
    pub context: Option<ModelContext>,
    /// The first appearance of each watched item.
    #[serde(skip)]
    pub watched: Vec<Observation>,
}

impl Ledger {
    pub(crate) fn add(&mut self, call: Call) {
        self.exhausted = self.exhausted.or(call.exhausted);
        match (call.ended, call.kind) {
            (CallEnd::Refused, _) => self.refused += 1,
            (_, Kind::CountTokens | Kind::Lookup) => self.free_calls += 1,
            (_, Kind::Generate) => {
                self.totals.add(&call);
                let model = call.effective_model().unwrap_or("unknown");
                self.models.entry(model.to_owned()).or_default().add(&call);
            }
        }
        if self.calls.len() == KEPT_CALLS {
            // Removing from the front moves all entries, so many are removed at once.
            self.calls.drain(..KEPT_CALLS / 2);
            self.calls_left_out += KEPT_CALLS as u64 / 2;
        }
        self.calls.push(call);
    }
}
