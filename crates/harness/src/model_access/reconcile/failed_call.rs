//! The last model call of a trial that did not end well. An agent that silently retries failed
//! calls was not too slow, and one that reports another reason than its failed call did not fail by
//! itself.

use proctor_gateway::{Call, CallEnd, Kind, Ledger};

use crate::outcome::{Outcome, provider_failure};

/// A call that failed, and that nothing better came after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    /// The class of the failure.
    pub(crate) outcome: Outcome,
    /// The result of the call.
    pub(crate) what: String,
}

/// The last call of an account, if it failed. A call without a waiting client is not a response.
pub(crate) fn failed(ledger: &Ledger) -> Option<FailedCall> {
    let calls = ledger.calls.iter().rev();
    let mut calls = calls.filter(|call| call.kind == Kind::Generate);
    let last = calls.find(|call| call.ended != CallEnd::ClientGone || call.status.is_some())?;
    outcome(last).map(|outcome| FailedCall {
        outcome,
        what: match last.status {
            Some(status) if last.ended == CallEnd::Complete => format!("status {status}"),
            _ => "the connection to the model failed or broke off".to_owned(),
        },
    })
}

fn outcome(call: &Call) -> Option<Outcome> {
    if call.fault.is_some() {
        // It was put in on purpose: how the agent takes it is what is measured.
        return None;
    }
    match call.ended {
        CallEnd::Refused | CallEnd::ClientGone => None,
        CallEnd::Cut | CallEnd::Unreachable => Some(Outcome::Network),
        CallEnd::Complete => {
            provider_failure(call.status, call.error.as_deref().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proctor_gateway::Wire;

    use super::*;

    fn call((ended, status): (CallEnd, Option<u16>)) -> Call {
        Call {
            key: "trial".to_owned(),
            fault: None,
            call: 1,
            at: Timestamp::UNIX_EPOCH,
            wire: Wire::Anthropic,
            kind: Kind::Generate,
            path: "/v1/messages".to_owned(),
            model: None,
            sent_model: None,
            served_model: None,
            stream: true,
            status,
            ended,
            usage: None,
            cost_nano_usd: None,
            incomplete: false,
            at_most_nano_usd: None,
            exhausted: None,
            notes: Vec::new(),
            retries: 0,
            error: None,
            request_bytes: 0,
            response_bytes: 0,
            waited_ms: 0,
            first_byte_ms: None,
            total_ms: 0,
        }
    }

    #[track_caller]
    fn check(calls: &[(CallEnd, Option<u16>)], expect: Option<Outcome>) {
        let ledger = Ledger {
            calls: calls.iter().copied().map(call).collect(),
            ..Ledger::default()
        };
        assert_eq!(failed(&ledger).map(|call| call.outcome), expect);
    }

    #[test]
    fn a_failure_counts_until_an_answer_comes() {
        let good = (CallEnd::Complete, Some(200));
        let limited = (CallEnd::Complete, Some(429));
        let unanswered = (CallEnd::ClientGone, None);
        check(&[], None);
        check(&[good], None);
        check(&[good, limited], Some(Outcome::RateLimit));
        check(&[limited, good], None);
        // The agent was ended while it tried again.
        check(&[limited, unanswered], Some(Outcome::RateLimit));
        check(&[limited, good, unanswered], None);
        check(&[limited, (CallEnd::ClientGone, Some(200))], None);
        check(&[(CallEnd::Cut, Some(200))], Some(Outcome::Network));
        check(&[(CallEnd::Unreachable, Some(502))], Some(Outcome::Network));
        check(&[(CallEnd::Refused, Some(403))], None);
    }
}
