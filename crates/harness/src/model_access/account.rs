//! What the gateway counted for a trial, as it stands in the record.

use std::collections::BTreeMap;

use proctor_gateway::{
    Call, CallEnd, Kind, Ledger, ModelContext, NanoUsd, RecordingReport, Tokens, Totals,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    config::GatewayPlace,
    model_access::reconcile::{
        failed_call::{self, FailedCall},
        unreported_calls::{self, SideCall, View},
    },
    usage::{Figures, Usage, UsageSource, Usd},
};

/// So many differences to a recording are told.
const MOST_DIFFERENCES: usize = 20;

/// What the gateway counted for a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GatewayRecord {
    /// Calls that reached a model.
    pub calls: u64,
    /// Calls that failed there.
    pub calls_failed: u64,
    /// Calls that broke off before their usage was known: it may be too low.
    pub calls_cut: u64,
    /// The most that all calls may have cost, when some of them broke off. `cost_usd` is the least then.
    /// Absent when nothing broke off, and when there is no upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_at_most_usd: Option<Usd>,
    /// Calls that the gateway refused.
    pub calls_refused: u64,
    /// Calls whose provider could not be reached or did not answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_unreachable: u64,
    /// Calls that a fault was put into on purpose.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_with_faults: u64,
    /// How often the gateway asked a provider again: what the agent would have done is not seen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// The limit that stopped a call.
    pub exhausted: Option<String>,
    /// What was used, over all models.
    #[serde(flatten)]
    pub total: Figures,
    /// The same, for each model.
    pub per_model: BTreeMap<String, Figures>,
    /// Hosts that were asked for and refused, with how often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_hosts: BTreeMap<String, u64>,
    /// Calls that the agent's own figures leave out, such as those for titles and commit messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_calls: Vec<SideCall>,
    /// Where the agent's own figures, with those calls, differ by more than 1 %.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What was done with a recording, when calls were answered from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// Where the gateway was, when the trial ran on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<GatewayPlace>,
    /// The calls one by one, to compare with; on disk they are in the call log.
    #[serde(skip)]
    seen: Vec<SideCall>,
    /// What the agent told its model besides the prompt, in a file of its own.
    #[serde(skip)]
    pub(crate) context: Option<ModelContext>,
    /// The last call, if it failed.
    #[serde(skip)]
    pub(crate) last_failure: Option<FailedCall>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the gateway did with a recording of earlier calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayRecord {
    /// Calls that were answered from it.
    pub answered: usize,
    /// Calls that are not in it.
    pub missed: usize,
    /// Recorded calls that nobody asked for.
    pub unused: usize,
    /// Where calls that are not in it differ from what was expected next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

impl ReplayRecord {
    fn plus(mut self, more: &ReplayRecord) -> ReplayRecord {
        self.answered += more.answered;
        self.missed += more.missed;
        self.unused += more.unused;
        self.differences.extend(more.differences.iter().cloned());
        self.differences.truncate(MOST_DIFFERENCES);
        self
    }
}

/// The record's form of a recording's report.
pub(super) fn replayed(report: &RecordingReport) -> ReplayRecord {
    let told = report.misses.iter().flat_map(|miss| {
        let places = miss.differences.iter().map(|difference| {
            format!(
                "{} {}: recorded {}, asked {}",
                miss.path, difference.at, difference.recorded, difference.asked
            )
        });
        let none = miss.differences.is_empty();
        let none = none.then(|| format!("{}: nothing like it was recorded", miss.path));
        places.chain(none).collect::<Vec<_>>()
    });
    ReplayRecord {
        answered: report.hits,
        missed: report.missed,
        unused: report.unused,
        differences: told.take(MOST_DIFFERENCES).collect(),
    }
}

impl GatewayRecord {
    /// Calls that a model answered.
    pub(crate) fn calls_answered(&self) -> u64 {
        self.calls.saturating_sub(self.calls_failed)
    }

    pub(super) fn of(ledger: &Ledger) -> GatewayRecord {
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
            seen: ledger.calls.iter().filter_map(seen).collect(),
            context: ledger.context.clone(),
            last_failure: failed_call::failed(ledger),
        }
    }

    /// The accounts of several keys together; `None` of none. Who made no call used nothing.
    pub(crate) fn sum(all: &[&GatewayRecord]) -> Option<GatewayRecord> {
        let (first, rest) = all.split_first()?;
        let mut sum = (*first).clone();
        for more in rest {
            sum.cost_at_most_usd = sum.at_most_with(more);
            if sum.calls == 0 {
                sum.total = more.total.clone();
            } else if more.calls > 0 {
                sum.total = sum.total.plus(&more.total);
            }
            Figures::merge(&mut sum.per_model, &more.per_model);
            sum.calls += more.calls;
            sum.calls_failed += more.calls_failed;
            sum.calls_cut += more.calls_cut;
            sum.calls_refused += more.calls_refused;
            sum.calls_unreachable += more.calls_unreachable;
            sum.calls_with_faults += more.calls_with_faults;
            sum.retries += more.retries;
            sum.exhausted = sum.exhausted.or_else(|| more.exhausted.clone());
            for (host, times) in &more.refused_hosts {
                *sum.refused_hosts.entry(host.clone()).or_default() += times;
            }
            sum.side_calls.extend(more.side_calls.iter().cloned());
            sum.differences.extend(more.differences.iter().cloned());
            if let Some(more) = &more.replay {
                sum.replay = Some(match sum.replay.take() {
                    None => more.clone(),
                    Some(one) => one.plus(more),
                });
            }
        }
        Some(sum)
    }

    /// The upper bound of two accounts together, if any call of them broke off.
    fn at_most_with(&self, more: &GatewayRecord) -> Option<Usd> {
        if self.calls_cut + more.calls_cut == 0 {
            return None;
        }
        let most = |record: &GatewayRecord| match record.calls_cut {
            0 if record.calls == 0 => Usd::from_dollars(0.0),
            0 => record.total.cost_usd,
            _ => record.cost_at_most_usd,
        };
        Some(most(self)? + most(more)?)
    }

    /// What was used, by the gateway's account; `None` when no call told.
    pub fn usage(&self) -> Option<Usage> {
        self.total.input_tokens.map(|_| Usage {
            total: self.total.clone(),
            source: UsageSource::Gateway,
            lower_bound: self.calls_cut > 0,
            per_model: self.per_model.clone(),
        })
    }

    /// Record where the agent's own figures differ from these by more than 1 %.
    pub fn compare(&mut self, agent: &Usage) {
        if self.total.input_tokens.is_none() {
            let tokens = agent.all_tokens().unwrap_or_default();
            if self.calls == 0 && tokens > 0 {
                let difference = format!(
                    "calls: {tokens} tokens by the agent, no call by the gateway: the agent used another way to its models"
                );
                self.differences.push(difference);
            }
            return;
        }
        self.side_calls = unreported_calls::left_out(&agent.total, &self.total, &self.seen);
        let view = View::of(&agent.total);
        let mut told = view.numbers(&agent.total);
        for call in &self.side_calls {
            for (told, more) in told.iter_mut().zip(view.numbers(&call.figures)) {
                *told = told.map(|told| told + more.unwrap_or_default());
            }
        }
        let pairs = told.into_iter().zip(view.numbers(&self.total));
        for (name, pair) in View::NAMES.into_iter().zip(pairs) {
            if let (Some(told), Some(counted)) = pair
                && differ(told, counted, agent.lower_bound)
            {
                let difference = format!("{name}: {told} by the agent, {counted} by the gateway");
                self.differences.push(difference);
            }
        }
        self.compare_cost(agent);
    }

    fn compare_cost(&mut self, agent: &Usage) {
        let Some(told) = agent.total.cost_usd else {
            return;
        };
        let beside = self.side_calls.iter();
        let beside: Usd = beside.filter_map(|call| call.figures.cost_usd).sum();
        let told = told + beside;
        let nanos = |cost: Usd| u64::try_from(cost.nanos()).unwrap_or_default();
        let difference = match self.total.cost_usd {
            None => format!(
                "cost_usd: {} by the agent, which counts; the gateway has no price for it",
                told.dollars()
            ),
            Some(counted) if differ(nanos(told), nanos(counted), agent.lower_bound) => format!(
                "cost_usd: {} by the agent, {} by the gateway",
                told.dollars(),
                counted.dollars()
            ),
            Some(_) => return,
        };
        self.differences.push(difference);
    }
}

/// Whether two figures are more than 1 % apart. Those of an agent that was cut off may be too low.
fn differ(agent: u64, gateway: u64, is_lower_bound: bool) -> bool {
    let is_expected = is_lower_bound && agent < gateway;
    let larger = u128::from(agent.max(gateway));
    !is_expected && u128::from(agent.abs_diff(gateway)) * 100 > larger
}

/// Sums in the words of the record. Without a call that told its usage nothing is known.
fn figures(totals: &Totals) -> Figures {
    let known = totals.calls > totals.calls_without_usage + totals.calls_failed;
    if !known {
        return Figures::default();
    }
    counted(totals.usage, totals.cost())
}

/// The upper bound of the cost, when calls broke off.
fn at_most(totals: &Totals) -> Option<Usd> {
    let most = totals.cost_at_most().filter(|_| totals.calls_cut > 0)?;
    Usd::from_dollars(most.0 as f64 / 1e9)
}

/// Tokens and their cost in the words of the record.
fn counted(tokens: Tokens, cost: Option<NanoUsd>) -> Figures {
    Figures {
        input_tokens: Some(tokens.input),
        output_tokens: Some(tokens.output),
        total_tokens: Some(tokens.input.saturating_add(tokens.output)),
        cache_read_tokens: Some(tokens.cache_read),
        cache_creation_tokens: Some(tokens.cache_write_5m.saturating_add(tokens.cache_write_1h)),
        cost_usd: cost.and_then(|cost| Usd::from_dollars(cost.0 as f64 / 1e9)),
    }
}

/// A call whose usage is known.
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
        GatewayRecord::of(&Ledger {
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
    fn the_cost_of_calls_that_broke_off_is_a_range() {
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
        assert_eq!(sum.cost_at_most_usd, None, "an unknown bound stays unknown");
    }
}
