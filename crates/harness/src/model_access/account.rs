//! The gateway's account of a trial: converts the ledger of its key for the record.

use proctor_gateway::{
    Call, CallEnd, Kind, Ledger, ModelContext, NanoUsd, Observation, RecordingReport, Tokens,
    Totals,
};
use proctor_record::{
    record::{GatewayRecord, MOST_DIFFERENCES, ReplayRecord, SideCall},
    usage::{Figures, Usage, Usd},
};

use crate::model_access::reconcile::{
    failed_call::{self, FailedCall},
    unreported_calls::{self, FigureView},
};

/// The account of a revoked key.
#[derive(Debug)]
pub struct KeyAccount {
    /// The recorded part.
    pub record: GatewayRecord,
    /// The system prompt and the tools that the agent sent to its model.
    pub(crate) context: Option<ModelContext>,
    /// The last call, if it failed.
    pub(crate) last_failure: Option<FailedCall>,
    /// The first appearance of each watched item.
    pub(crate) watched: Vec<Observation>,
}

impl KeyAccount {
    pub(super) fn of(ledger: &Ledger) -> KeyAccount {
        KeyAccount {
            record: record_of(ledger),
            context: ledger.context.clone(),
            last_failure: failed_call::failed(ledger),
            watched: ledger.watched.clone(),
        }
    }
}

/// The record of a recording's report.
pub(super) fn replayed(report: &RecordingReport) -> ReplayRecord {
    let stated = report.misses.iter().flat_map(|miss| {
        let places = miss.differences.iter().map(|difference| {
            format!(
                "{} {}: recorded {}, asked {}",
                miss.path, difference.at, difference.recorded, difference.asked
            )
        });
        let none = miss.differences.is_empty();
        let none = none.then(|| format!("{}: no similar call was recorded", miss.path));
        places.chain(none).collect::<Vec<_>>()
    });
    ReplayRecord {
        answered: report.hits,
        missed: report.missed,
        unused: report.unused,
        differences: stated.take(MOST_DIFFERENCES).collect(),
    }
}

/// Converts a key's ledger.
fn record_of(ledger: &Ledger) -> GatewayRecord {
    GatewayRecord {
        calls: ledger.totals.calls,
        calls_failed: ledger.totals.calls_failed,
        calls_cut: ledger.totals.calls_cut,
        cost_at_most_usd: at_most(&ledger.totals),
        calls_refused: ledger.refused,
        calls_unreachable: ledger.totals.calls_unreachable,
        calls_with_faults: ledger.totals.calls_with_faults,
        retries: ledger.totals.retries,
        exhausted: ledger.exhausted.map(|limit| limit.name().to_owned()),
        total: figures(&ledger.totals),
        per_model: ledger
            .models
            .iter()
            .map(|(model, totals)| (model.clone(), figures(totals)))
            .collect(),
        refused_hosts: ledger.refused_hosts.clone(),
        side_calls: Vec::new(),
        differences: Vec::new(),
        replay: None,
        place: None,
        observed_calls: ledger.calls.iter().filter_map(seen).collect(),
    }
}

/// Records where the agent's own figures differ from the gateway's by more than 1 %.
pub fn compare(record: &mut GatewayRecord, agent: &Usage) {
    if record.total.input_tokens.is_none() {
        let tokens = agent.total.all_tokens().unwrap_or_default();
        if record.calls == 0 && tokens > 0 {
            let difference = format!(
                "calls: {tokens} tokens reported by the agent, no call through the gateway: the agent bypassed the gateway"
            );
            record.differences.push(difference);
        }
        return;
    }
    record.side_calls =
        unreported_calls::left_out(&agent.total, &record.total, &record.observed_calls);
    let view = FigureView::of(&agent.total);
    let mut stated = view.numbers(&agent.total);
    for call in &record.side_calls {
        for (stated, more) in stated.iter_mut().zip(view.numbers(&call.figures)) {
            *stated = stated.map(|stated| stated + more.unwrap_or_default());
        }
    }
    let pairs = stated.into_iter().zip(view.numbers(&record.total));
    for (name, pair) in FigureView::NAMES.into_iter().zip(pairs) {
        if let (Some(stated), Some(counted)) = pair
            && differ(stated, counted, agent.lower_bound)
        {
            let difference = format!("{name}: {stated} by the agent, {counted} by the gateway");
            record.differences.push(difference);
        }
    }
    compare_cost(record, agent);
}

fn compare_cost(record: &mut GatewayRecord, agent: &Usage) {
    let Some(stated) = agent.total.cost_usd else {
        return;
    };
    let beside = record.side_calls.iter();
    let beside: Usd = beside.filter_map(|call| call.figures.cost_usd).sum();
    let stated = stated + beside;
    let nanos = |cost: Usd| u64::try_from(cost.nanos()).unwrap_or_default();
    let difference = match record.total.cost_usd {
        None => format!(
            "cost_usd: {} reported by the agent, which is used; the gateway has no price for the model",
            stated.dollars()
        ),
        Some(counted) if differ(nanos(stated), nanos(counted), agent.lower_bound) => format!(
            "cost_usd: {} by the agent, {} by the gateway",
            stated.dollars(),
            counted.dollars()
        ),
        Some(_) => return,
    };
    record.differences.push(difference);
}
/// Whether two figures differ by more than 1 %. The figures of an agent that was ended may be too
/// low.
fn differ(agent: u64, gateway: u64, is_lower_bound: bool) -> bool {
    let is_expected = is_lower_bound && agent < gateway;
    let larger = u128::from(agent.max(gateway));
    !is_expected && u128::from(agent.abs_diff(gateway)) * 100 > larger
}

/// Converts sums. They are unknown without a call with known usage.
fn figures(totals: &Totals) -> Figures {
    let known = totals.calls > totals.calls_without_usage + totals.calls_failed;
    if !known {
        return Figures::default();
    }
    counted(totals.usage, totals.cost())
}

/// The upper bound of the cost, if calls were interrupted.
fn at_most(totals: &Totals) -> Option<Usd> {
    let most = totals.cost_at_most().filter(|_| totals.calls_cut > 0)?;
    Some(Usd::from_nanos(most.0))
}

/// Converts tokens and their cost.
fn counted(tokens: Tokens, cost: Option<NanoUsd>) -> Figures {
    Figures {
        input_tokens: Some(tokens.input),
        output_tokens: Some(tokens.output),
        total_tokens: Some(tokens.input.saturating_add(tokens.output)),
        cache_read_tokens: Some(tokens.cache_read),
        cache_creation_tokens: Some(tokens.cache_write_5m.saturating_add(tokens.cache_write_1h)),
        cost_usd: cost.map(|cost| Usd::from_nanos(cost.0)),
    }
}

/// A call with known usage.
fn seen(call: &Call) -> Option<SideCall> {
    let counts = call.kind == Kind::Generate && call.ended != CallEnd::Refused;
    Some(SideCall {
        call: call.call,
        model: call.effective_model().map(str::to_owned),
        figures: counted(call.usage.filter(|_| counts)?, call.cost_nano_usd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(calls: u64, cut: u64, cost: i64, most: i64) -> GatewayRecord {
        record_of(&Ledger {
            totals: Totals {
                calls,
                calls_cut: cut,
                cost_nano_usd: NanoUsd(cost),
                cost_at_most_nano_usd: NanoUsd(most),
                ..Totals::default()
            },
            ..Ledger::default()
        })
    }

    #[test]
    fn cost_of_interrupted_calls_is_a_range() {
        let (whole, cut) = (account(1, 0, 100, 100), account(2, 1, 10, 500));
        let shown = |record: &GatewayRecord| {
            let most = record.cost_at_most_usd.map(Usd::nanos);
            (record.total.cost_usd.map(Usd::nanos), most)
        };
        assert_eq!(shown(&whole), (Some(100), None));
        assert_eq!(shown(&cut), (Some(10), Some(500)));
        let nothing = account(0, 0, 0, 0);
        for (all, expected) in [
            (vec![&whole, &cut], (Some(110), Some(600))),
            (vec![&cut, &nothing, &cut], (Some(20), Some(1000))),
            (vec![&whole, &whole], (Some(200), None)),
        ] {
            assert_eq!(shown(&GatewayRecord::sum(&all).unwrap()), expected);
        }
        let mut unbounded = cut.clone();
        unbounded.cost_at_most_usd = None;
        let sum = GatewayRecord::sum(&[&unbounded, &cut]).unwrap();
        assert_eq!(
            sum.cost_at_most_usd, None,
            "an unknown bound must stay unknown"
        );
    }
}
