//! The gateway's account of a trial, as recorded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::{Figures, Usage, UsageSource, Usd};

/// The maximum number of recorded differences to a recording.
pub const MOST_DIFFERENCES: usize = 20;

/// The gateway's counts for a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GatewayRecord {
    /// Calls that reached a model.
    pub calls: u64,
    /// Calls that failed at the provider.
    pub calls_failed: u64,
    /// Calls that were interrupted before their usage was known: the usage may be too low.
    pub calls_cut: u64,
    /// The upper bound of the cost, if calls were interrupted. `cost_usd` is the lower bound then.
    /// Absent without interrupted calls, and without an upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_at_most_usd: Option<Usd>,
    /// Calls that the gateway refused.
    pub calls_refused: u64,
    /// Calls whose provider was unreachable or did not answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_unreachable: u64,
    /// Calls with an injected fault.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_with_faults: u64,
    /// The number of retries of the gateway, which hide the agent's own reaction.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// The limit that stopped a call.
    pub exhausted: Option<String>,
    /// The usage, over all models.
    #[serde(flatten)]
    pub total: Figures,
    /// The same, for each model.
    pub per_model: BTreeMap<String, Figures>,
    /// Refused hosts, with the number of requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_hosts: BTreeMap<String, u64>,
    /// Calls that the agent's own figures omit, such as those for titles and commit messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_calls: Vec<SideCall>,
    /// Figures of the agent that differ by more than 1 %, including those calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// The use of a recording, if calls were answered from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// The location of the gateway, if the trial ran on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<GatewayPlace>,
    /// The calls with their usage, for the comparison with the agent's figures. On disk they are in
    /// the call log.
    #[serde(skip)]
    pub observed_calls: Vec<SideCall>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The gateway's use of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayRecord {
    /// Calls that were answered from it.
    pub answered: usize,
    /// Calls that are missing in it.
    pub missed: usize,
    /// Recorded calls that were not requested.
    pub unused: usize,
    /// Differences between missing calls and the next recorded ones.
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

/// One call with the gateway's counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideCall {
    /// Its number in the call log.
    pub call: u64,
    /// The requested model.
    pub model: Option<String>,
    /// Its usage.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The location of the gateway for trials on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayPlace {
    /// One in each trial, with its share of the run's budget.
    #[default]
    Trial,
    /// One on the machine that runs the suite, for all nodes.
    Head,
}

impl GatewayRecord {
    /// The model of all calls, if it is the same for all.
    pub fn only_model(&self) -> Option<&String> {
        let mut models = self.per_model.keys();
        models.next().filter(|_| models.next().is_none())
    }

    /// Calls that a model answered.
    pub fn calls_answered(&self) -> u64 {
        self.calls.saturating_sub(self.calls_failed)
    }

    /// The sum of the accounts of several keys; `None` if there are none. A key without calls has
    /// zero usage.
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

    /// The upper bound of two accounts together, if any of their calls was interrupted.
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

    /// The usage counted by the gateway; `None` if no call reported it.
    pub fn usage(&self) -> Option<Usage> {
        self.total.input_tokens.map(|_| Usage {
            total: self.total.clone(),
            source: UsageSource::Gateway,
            lower_bound: self.calls_cut > 0,
            per_model: self.per_model.clone(),
        })
    }
}
