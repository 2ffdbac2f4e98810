//! A call in flight. It is settled, entered into the ledger and logged exactly once, however it ends.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::HeaderMap;
use proctor_model_api::Kind;
use tokio::sync::OwnedSemaphorePermit;

use super::abandoned::Billable;
use crate::budget::{Amount, EXHAUSTED_HEADER, Exhausted};
use crate::key::Key;
use crate::ledger::{Call, CallEnd};
use crate::metering::{Meter, Tokens};
use crate::pricing::NanoUsd;
use crate::recording::AnswerRecorder;
use crate::state::GatewayState;
use crate::upstream::LimiterPermit;

/// A call in flight.
pub(crate) struct ActiveCall {
    state: Arc<GatewayState>,
    key: Arc<Key>,
    pub(crate) call: Call,
    began: Instant,
    meter: Option<Meter>,
    reserved: Option<Reserved>,
    limiter_permit: Option<LimiterPermit>,
    /// Whether the call was sent upstream and may be billed.
    sent: bool,
    pub(crate) billable: Billable,
    /// The permit among the concurrent calls of the key.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    pub(crate) recorder: Option<AnswerRecorder>,
    /// Whether the whole response was read.
    whole: bool,
    done: bool,
}

/// The reservation of a call.
#[derive(Clone, Copy)]
struct Reserved {
    amount: Amount,
    /// The longest response that the request allows. Without it the amount is an estimate.
    output: Option<u64>,
    /// Whether the price list does not hold for the call.
    has_other_price: bool,
}

impl ActiveCall {
    pub(crate) fn new(state: &Arc<GatewayState>, key: &Arc<Key>, call: Call) -> Self {
        key.begin();
        Self {
            state: Arc::clone(state),
            key: Arc::clone(key),
            call,
            began: Instant::now(),
            meter: None,
            reserved: None,
            limiter_permit: None,
            sent: false,
            billable: Billable::default(),
            permit: None,
            recorder: None,
            whole: false,
            done: false,
        }
    }

    /// Notes the reservation of this call.
    pub(crate) fn reserve(&mut self, amount: Amount, output: Option<u64>, has_other_price: bool) {
        self.reserved = Some(Reserved {
            amount,
            output,
            has_other_price,
        });
    }

    /// The cost of these tokens; `None` if the price is unknown.
    fn price(&self, tokens: &Tokens) -> Option<NanoUsd> {
        if self.reserved.is_some_and(|it| it.has_other_price) {
            return None;
        }
        let price = |model: &str| self.state.prices.cost(model, tokens);
        let by_sent = self.call.effective_model().and_then(price);
        by_sent.or_else(|| price(self.call.served_model.as_deref()?))
    }

    pub(crate) fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// Notes that the call is sent now.
    pub(crate) fn send(&mut self, permit: LimiterPermit) {
        self.limiter_permit = Some(permit);
        self.sent = true;
        self.call.waited_ms = millis(self.began);
    }

    /// Releases the limiter's permit before a retry.
    pub(crate) fn release(&mut self) {
        self.limiter_permit = None;
        self.billable.set(false);
    }

    /// Notes the head of the response.
    pub(crate) fn answer(&mut self, status: u16, headers: &HeaderMap) {
        self.call.status = Some(status);
        self.call.first_byte_ms = Some(millis(self.began));
        let exhausted = headers.get(EXHAUSTED_HEADER);
        self.call.exhausted = exhausted.and_then(|name| Exhausted::named(name.as_bytes()));
        if self.call.kind == Kind::Generate && status < 400 {
            self.meter = Some(Meter::new(self.call.wire, headers));
        }
    }

    /// Meters and records bytes that are sent to the client.
    pub(crate) fn observe(&mut self, bytes: &Bytes) {
        self.call.response_bytes += bytes.len() as u64;
        self.meter(bytes);
        if let Some(recorder) = &mut self.recorder {
            recorder.push(bytes);
        }
    }

    /// Meters bytes that are not sent to the client.
    pub(crate) fn meter(&mut self, bytes: &Bytes) {
        if let Some(meter) = &mut self.meter {
            meter.push(bytes);
        }
    }

    /// Whether the rest of the response may report the usage.
    pub(crate) fn awaits_usage(&self) -> bool {
        !self.done
            && self
                .meter
                .as_ref()
                .is_some_and(|meter| !meter.is_complete())
    }

    /// Notes that the whole response was read.
    pub(crate) fn note_whole(&mut self) {
        self.whole = true;
    }

    /// Finishes the call. Further calls have no effect.
    pub(crate) fn finish(&mut self, ended: CallEnd) {
        if self.done {
            return;
        }
        self.done = true;
        self.limiter_permit = None;
        self.permit = None;
        // The client received an error that the gateway wrote.
        if self.call.ended != CallEnd::Unreachable {
            self.call.ended = ended;
        }
        self.whole |= ended == CallEnd::Complete;
        let is_reported = self.read_meter();
        self.note_bound(is_reported);
        self.call.total_ms = millis(self.began);
        self.settle();
        self.finish_recording();
        self.enter();
        self.key.end();
    }

    /// Writes the answer to the recording. An answer whose client left is not complete, so it cannot be
    /// replayed.
    fn finish_recording(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        if let Some(recording) = &self.key.recording
            && self.call.ended != CallEnd::ClientGone
        {
            let cut = self.call.ended == CallEnd::Cut;
            recording.add(recorder, &self.state.redactor, cut);
        }
    }

    /// Reads the meter. Returns whether the response reported the whole usage.
    fn read_meter(&mut self) -> bool {
        let Some(meter) = self.meter.take() else {
            return false;
        };
        let reading = meter.finish();
        let call = &mut self.call;
        call.stream = reading.stream;
        call.served_model = reading.summary.model;
        call.usage = reading.summary.tokens;
        if !reading.readable {
            call.notes
                .push("usage unknown: unsupported content encoding".to_owned());
        }
        // A stream without its final event was interrupted, even if the connection was closed properly.
        if reading.stream && !reading.summary.finished && call.ended == CallEnd::Complete {
            call.ended = CallEnd::Cut;
        }
        let usage = call.usage;
        self.call.cost_nano_usd = usage.and_then(|tokens| self.price(&tokens));
        let at_end = if reading.stream {
            reading.summary.finished
        } else {
            self.whole
        };
        at_end && usage.is_some()
    }

    /// Notes whether the provider may bill more than it reported, and the upper bound.
    fn note_bound(&mut self, is_reported: bool) {
        let call = &self.call;
        let failed = call.status.is_some_and(|status| status >= 400);
        let counts = call.kind == Kind::Generate
            && !matches!(call.ended, CallEnd::Refused | CallEnd::Unreachable);
        let began = self.sent || call.status.is_some();
        self.call.incomplete = counts && began && !failed && !is_reported;
        let bounded = self
            .reserved
            .is_some_and(|reserved| reserved.output.is_some());
        if self.call.incomplete && self.sent && bounded {
            self.call.at_most_nano_usd = self.may_have_cost().usd;
        }
    }

    /// The upper bound for a call with incomplete usage: the known prompt and the longest response that it
    /// requested, otherwise the reservation.
    fn may_have_cost(&self) -> Amount {
        let Some(Reserved { amount, output, .. }) = self.reserved else {
            return Amount::default();
        };
        let Some(tokens) = self.call.usage else {
            return amount;
        };
        let Some(output) = output else {
            return Amount {
                usd: amount.usd.max(self.call.cost_nano_usd),
                tokens: amount.tokens.max(tokens.total()),
            };
        };
        let most = Tokens {
            output: tokens.output.max(output),
            ..tokens
        };
        Amount {
            usd: self.price(&most).or(amount.usd),
            tokens: most.total(),
        }
    }

    fn settle(&self) {
        let Some(reserved) = self.reserved else {
            return;
        };
        let did_cost = self.did_cost();
        let budgets = self.key.shared.iter().map(|budget| &**budget);
        for budget in std::iter::once(&self.key.budget).chain(budgets) {
            budget.settle(reserved.amount, did_cost);
        }
    }

    /// The amount to charge to budgets. A call with incomplete usage counts with its upper bound.
    fn did_cost(&self) -> Amount {
        let call = &self.call;
        if call.incomplete && self.sent {
            return self.may_have_cost();
        }
        let known = call.usage.map(|tokens| Amount {
            usd: call.cost_nano_usd,
            tokens: tokens.total(),
        });
        known.unwrap_or_default()
    }

    fn enter(&mut self) {
        let redactor = &self.state.redactor;
        let call = &mut self.call;
        // A client can send its key in any field, also as the name of the model.
        let texts = [
            &mut call.model,
            &mut call.sent_model,
            &mut call.served_model,
            &mut call.error,
        ];
        texts
            .into_iter()
            .flatten()
            .for_each(|text| redactor.mask(text));
        call.notes.iter_mut().for_each(|note| redactor.mask(note));
        redactor.mask(&mut call.path);
        self.state.count(&self.call);
        if let Some(log) = &self.key.log
            && let Ok(line) = serde_json::to_string(&self.call)
        {
            self.state.log.write(log, line);
        }
        self.key.ledger().add(self.call.clone());
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.finish(CallEnd::ClientGone);
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
