//! The gateway's account of a trial, as recorded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::{Figures, Usage, UsageSource, Usd};

/// At most so many differences to a recording are recorded.
pub const MOST_DIFFERENCES: usize = 20;

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
    /// The usage, over all models.
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
    /// The calls with their usage, for the comparison with the agent's figures. The call log has them on disk.
    #[serde(skip)]
    pub observed_calls: Vec<SideCall>,
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

/// One call as the gateway counted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideCall {
    /// Its number in the call log.
    pub call: u64,
    /// The model that was asked.
    pub model: Option<String>,
    /// Its usage.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Where the gateway of trials on nodes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayPlace {
    /// One in each trial, with its part of the run's budget.
    #[default]
    Trial,
    /// One on the machine that runs the suite, for all nodes.
    Head,
}

impl GatewayRecord {
    /// Calls that a model answered.
    pub fn calls_answered(&self) -> u64 {
        self.calls.saturating_sub(self.calls_failed)
    }

    /// The sum of the accounts of several keys; `None` if there are none. A key without calls used
    /// nothing.
    pub fn sum(all: &[&GatewayRecord]) -> Option<GatewayRecord> {
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

    /// The usage by the gateway's account; `None` if no call reported it.
    pub fn usage(&self) -> Option<Usage> {
        self.total.input_tokens.map(|_| Usage {
            total: self.total.clone(),
            source: UsageSource::Gateway,
            lower_bound: self.calls_cut > 0,
            per_model: self.per_model.clone(),
        })
    }
}
