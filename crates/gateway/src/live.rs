//! A call under way: whatever happens to it, it is settled, entered into the ledger and logged exactly
//! once.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::HeaderMap;
use tokio::sync::OwnedSemaphorePermit;

use crate::abandoned::Billable;
use crate::budget::{Amount, EXHAUSTED_HEADER, Exhausted};
use crate::cassette::Recording;
use crate::hub::Hub;
use crate::key::Key;
use crate::ledger::{Call, Ended};
use crate::meter::Meter;
use crate::throttle::Pass;
use crate::tokens::Tokens;
use crate::wire::Kind;

/// A call from its first byte to its end.
pub(crate) struct Live {
    hub: Arc<Hub>,
    key: Arc<Key>,
    pub(crate) call: Call,
    began: Instant,
    meter: Option<Meter>,
    reserved: Option<Reserved>,
    pass: Option<Pass>,
    /// Sent upstream: whoever asks from then on may be billed.
    sent: bool,
    pub(crate) billable: Billable,
    /// The permit of the call among those of its key.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    pub(crate) recording: Option<Recording>,
    /// The answer was read to its last byte.
    whole: bool,
    done: bool,
}

/// What is reserved for a call.
#[derive(Clone, Copy)]
struct Reserved {
    amount: Amount,
    /// The longest answer that the request asks for. Without it the amount is an estimate.
    output: Option<u64>,
}

impl Live {
    pub(crate) fn new(hub: &Arc<Hub>, key: &Arc<Key>, call: Call) -> Self {
        key.begin();
        Self {
            hub: Arc::clone(hub),
            key: Arc::clone(key),
            call,
            began: Instant::now(),
            meter: None,
            reserved: None,
            pass: None,
            sent: false,
            billable: Billable::default(),
            permit: None,
            recording: None,
            whole: false,
            done: false,
        }
    }

    /// Notes what was reserved for this call.
    pub(crate) fn reserve(&mut self, amount: Amount, output: Option<u64>) {
        self.reserved = Some(Reserved { amount, output });
    }

    pub(crate) fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// Notes that the call goes out now, after having waited.
    pub(crate) fn send(&mut self, pass: Pass) {
        self.pass = Some(pass);
        self.sent = true;
        self.call.waited_ms = millis(self.began);
    }

    /// Lets others to the provider before this call asks it again.
    pub(crate) fn release(&mut self) {
        self.pass = None;
        self.billable.set(false);
    }

    /// The answer begins.
    pub(crate) fn answer(&mut self, status: u16, headers: &HeaderMap) {
        self.call.status = Some(status);
        self.call.first_byte_ms = Some(millis(self.began));
        let exhausted = headers.get(EXHAUSTED_HEADER);
        self.call.exhausted = exhausted.and_then(|name| Exhausted::named(name.as_bytes()));
        if self.call.kind == Kind::Generate && status < 400 {
            self.meter = Some(Meter::new(self.call.wire, headers));
        }
    }

    /// More of the answer passes by.
    pub(crate) fn pass_by(&mut self, bytes: &Bytes) {
        self.call.response_bytes += bytes.len() as u64;
        self.meter(bytes);
        if let Some(recording) = &mut self.recording {
            recording.push(bytes);
        }
    }

    /// Reads usage out of bytes that the client does not get.
    pub(crate) fn meter(&mut self, bytes: &Bytes) {
        if let Some(meter) = &mut self.meter {
            meter.push(bytes);
        }
    }

    /// Whether more of the answer may tell what the call used.
    pub(crate) fn awaits_usage(&self) -> bool {
        !self.done && self.meter.as_ref().is_some_and(|meter| !meter.is_told())
    }

    /// The answer's last byte was read.
    pub(crate) fn note_whole(&mut self) {
        self.whole = true;
    }

    /// The call is over.
    pub(crate) fn finish(&mut self, ended: Ended) {
        if self.done {
            return;
        }
        self.done = true;
        self.pass = None;
        self.permit = None;
        // The client got an error that the gateway wrote, to its end.
        if self.call.ended != Ended::Unreachable {
            self.call.ended = ended;
        }
        self.whole |= ended == Ended::Complete;
        let told = self.read_meter();
        self.note_bound(told);
        self.call.total_ms = millis(self.began);
        self.settle();
        if let Some(recording) = self.recording.take() {
            recording.finish(&self.key, &self.hub.redactor, self.call.ended);
        }
        self.enter();
        self.key.end();
    }

    /// Reads what the meter has. Gives whether the answer told all that the call used.
    fn read_meter(&mut self) -> bool {
        let Some(meter) = self.meter.take() else {
            return false;
        };
        let reading = meter.finish();
        let call = &mut self.call;
        call.stream = reading.stream;
        call.served_model = reading.seen.model;
        call.usage = reading.seen.tokens;
        if !reading.readable {
            call.notes
                .push("answer in an unknown encoding: usage unknown".to_owned());
        }
        // A stream that ends without saying so was cut by somebody who closes politely.
        if reading.stream && !reading.seen.finished && call.ended == Ended::Complete {
            call.ended = Ended::Cut;
        }
        call.cost_nano_usd = call.usage.and_then(|tokens| {
            let sent = call.sent_model.as_deref().or(call.model.as_deref());
            let by_sent = sent.and_then(|model| self.hub.prices.cost(model, &tokens));
            let by_served = || self.hub.prices.cost(call.served_model.as_deref()?, &tokens);
            by_sent.or_else(by_served)
        });
        let at_end = if reading.stream {
            reading.seen.finished
        } else {
            self.whole
        };
        at_end && call.usage.is_some()
    }

    /// Notes whether the provider may bill more than it told, and how much that is at most.
    fn note_bound(&mut self, told: bool) {
        let call = &self.call;
        let failed = call.status.is_some_and(|status| status >= 400);
        let counts = call.kind == Kind::Generate
            && !matches!(call.ended, Ended::Refused | Ended::Unreachable);
        let began = self.sent || call.status.is_some();
        self.call.incomplete = counts && began && !failed && !told;
        let bounded = self
            .reserved
            .is_some_and(|reserved| reserved.output.is_some());
        if self.call.incomplete && self.sent && bounded {
            self.call.at_most_nano_usd = self.may_have_cost().usd;
        }
    }

    /// An upper bound for a call that did not tell all: what is known of its prompt and the longest answer
    /// that it asked for, else what was reserved.
    fn may_have_cost(&self) -> Amount {
        let Some(Reserved { amount, output }) = self.reserved else {
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
        let model = self.call.effective_model();
        Amount {
            usd: model
                .and_then(|model| self.hub.prices.cost(model, &most))
                .or(amount.usd),
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

    /// What budgets are charged with. A call that did not tell all counts with its upper bound.
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
        let redactor = &self.hub.redactor;
        let call = &mut self.call;
        // A client can put its key anywhere, in the model's name too.
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
        self.hub.count(&self.call);
        if let Some(log) = &self.key.log
            && let Ok(line) = serde_json::to_string(&self.call)
        {
            self.hub.log.write(log, line);
        }
        self.key.ledger().add(self.call.clone());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.finish(Ended::ClientGone);
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
