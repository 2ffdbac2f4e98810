//! The last model call of a trial, if it failed. An agent that silently retries failed calls was
//! not too slow, and one that reports another error than its failed call did not fail by itself.

use proctor_gateway::{Call, CallEnd, Kind, Ledger};
use proctor_record::outcome::{Outcome, provider_failure};

/// A failed call without a later success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    /// The class of the failure.
    pub(crate) outcome: Outcome,
    /// The result of the call.
    pub(crate) what: String,
}

/// The last call of an account, if it failed. A call whose client has disconnected does not count.
pub(crate) fn failed(ledger: &Ledger) -> Option<FailedCall> {
    let calls = ledger.calls.iter().rev();
    let mut calls = calls.filter(|call| call.kind == Kind::Generate);
    let last = calls.find(|call| call.ended != CallEnd::ClientGone || call.status.is_some())?;
    outcome(last).map(|outcome| FailedCall {
        outcome,
        what: match last.status {
            Some(status) if last.ended == CallEnd::Complete => format!("status {status}"),
            _ => "the connection to the model failed".to_owned(),
        },
    })
}

fn outcome(call: &Call) -> Option<Outcome> {
    if call.fault.is_some() {
        // The fault was injected: the agent's reaction is measured.
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
    fn failure_counts_until_a_later_success() {
        let good = (CallEnd::Complete, Some(200));
        let limited = (CallEnd::Complete, Some(429));
        let unanswered = (CallEnd::ClientGone, None);
        check(&[], None);
        check(&[good], None);
        check(&[good, limited], Some(Outcome::RateLimit));
        check(&[limited, good], None);
        // The agent was ended during a retry.
        check(&[limited, unanswered], Some(Outcome::RateLimit));
        check(&[limited, good, unanswered], None);
        check(&[limited, (CallEnd::ClientGone, Some(200))], None);
        check(&[(CallEnd::Cut, Some(200))], Some(Outcome::Network));
        check(&[(CallEnd::Unreachable, Some(502))], Some(Outcome::Network));
        check(&[(CallEnd::Refused, Some(403))], None);
    }
}
