//! Tokens and money, with where each figure came from. Unknown is `None`, never zero;
//! money is whole nano-dollars, so that sums are exact.

use std::{borrow::Cow, collections::BTreeMap, iter::Sum, ops::Add};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_DOLLAR: f64 = 1e9;

/// An amount of US dollars, in whole nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(i64);

impl Usd {
    /// The amount nearest to `dollars`, or `None` if it is not an amount (NaN, infinite, too
    /// large).
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked first"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Usd> {
        let nanos = (dollars * NANOS_PER_DOLLAR).round();
        (nanos.abs() < 9e18).then_some(Usd(nanos as i64))
    }

    /// The amount in dollars, for showing.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR
    }

    /// The amount in nano-dollars.
    pub fn nanos(self) -> i64 {
        self.0
    }
}

impl Add for Usd {
    type Output = Usd;
    fn add(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(amounts: I) -> Usd {
        amounts.fold(Usd(0), Usd::add)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Usd::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("not an amount of money"))
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "description": "US dollars" })
    }
}

/// Where usage figures came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The agent's own final account of the session.
    ResultEvent,
    /// Added up from the messages that were seen; nothing final came.
    Messages,
    /// Read from lines of a plain-text transcript.
    Text,
    /// A file that the agent left behind.
    Sidecar,
    /// The gateway, which saw every call.
    Gateway,
    /// Added up over iterations whose figures came from different places.
    Iterations,
}

/// Tokens and cost. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Tokens sent, cached ones not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input plus output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Tokens read from the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// What it cost, by the agent's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// What a trial used, over all models, sub-agents included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The totals.
    #[serde(flatten)]
    pub total: Figures,
    /// Where these figures came from.
    pub source: UsageSource,
    /// True when the session was cut off: the real figures are at least these.
    #[serde(default)]
    pub lower_bound: bool,
    /// The same, for each model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub per_model: BTreeMap<String, Figures>,
}

impl Figures {
    /// All tokens that went in and out, cached ones included; `None` when unknown.
    pub fn all_tokens(&self) -> Option<u64> {
        let both = self.input_tokens?.saturating_add(self.output_tokens?);
        let cached = [self.cache_read_tokens, self.cache_creation_tokens];
        let cached = cached.into_iter().flatten();
        Some(cached.fold(both, u64::saturating_add))
    }

    /// The sum. A figure that is unknown for one is unknown for both.
    #[must_use]
    pub fn plus(&self, other: &Figures) -> Figures {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        Figures {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            total_tokens: sum(self.total_tokens, other.total_tokens),
            cache_read_tokens: sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_creation_tokens: sum(self.cache_creation_tokens, other.cache_creation_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(one), Some(other)) => Some(one + other),
                _ => None,
            },
        }
    }

    /// Figures by name, each name's together.
    pub fn merge(into: &mut BTreeMap<String, Figures>, more: &BTreeMap<String, Figures>) {
        for (name, figures) in more {
            match into.get_mut(name) {
                Some(known) => *known = known.plus(figures),
                None => drop(into.insert(name.clone(), figures.clone())),
            }
        }
    }
}

impl Usage {
    /// Whether the agent itself gave these figures.
    pub fn is_own(&self) -> bool {
        self.source != UsageSource::Gateway
    }

    /// The figures that reports and limits use: the gateway's where it counted any, else the
    /// agent's own. A cost that the gateway has no price for is the agent's.
    pub fn settled(own: Option<&Usage>, gateway: Option<Usage>) -> Option<Usage> {
        let Some(mut counted) = gateway else {
            return own.cloned();
        };
        let own_cost = own.and_then(|own| own.total.cost_usd);
        counted.total.cost_usd = counted.total.cost_usd.or(own_cost);
        Some(counted)
    }

    /// All tokens that went in and out, cached ones included; `None` when unknown.
    pub fn all_tokens(&self) -> Option<u64> {
        self.total.all_tokens()
    }

    /// All of them together; `None` of none.
    pub fn sum(all: &[&Usage]) -> Option<Usage> {
        let (first, rest) = all.split_first()?;
        let mut sum = (*first).clone();
        for more in rest {
            sum.total = sum.total.plus(&more.total);
            Figures::merge(&mut sum.per_model, &more.per_model);
            sum.lower_bound |= more.lower_bound;
            if sum.source != more.source {
                sum.source = UsageSource::Iterations;
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_known_when_every_part_is() {
        let usage = |cost: Option<f64>, source| Usage {
            total: Figures {
                input_tokens: Some(3),
                cost_usd: cost.and_then(Usd::from_dollars),
                ..Figures::default()
            },
            source,
            lower_bound: false,
            per_model: BTreeMap::from([("m".to_owned(), Figures::default())]),
        };
        let known = usage(Some(0.25), UsageSource::ResultEvent);
        let sum = Usage::sum(&[&known, &known]).unwrap();
        assert_eq!(sum.total.input_tokens, Some(6));
        assert_eq!(sum.total.cost_usd, Usd::from_dollars(0.5));
        assert_eq!(sum.source, UsageSource::ResultEvent);
        let sum = Usage::sum(&[&known, &usage(None, UsageSource::Text)]).unwrap();
        assert_eq!(sum.total.input_tokens, Some(6));
        assert_eq!(sum.total.cost_usd, None);
        assert_eq!(sum.source, UsageSource::Iterations);
        assert_eq!(Usage::sum(&[]), None);
    }

    #[test]
    fn the_gateways_figures_win_and_the_agents_fill_in_a_cost_without_a_price() {
        let usage = |tokens, cost: Option<f64>, source| Usage {
            total: Figures {
                input_tokens: Some(tokens),
                cost_usd: cost.and_then(Usd::from_dollars),
                ..Figures::default()
            },
            source,
            lower_bound: false,
            per_model: BTreeMap::new(),
        };
        let own = usage(1, Some(0.1), UsageSource::Sidecar);
        let priced = usage(100, Some(2.0), UsageSource::Gateway);
        let unpriced = usage(100, None, UsageSource::Gateway);
        let told = |own: Option<&Usage>, gateway: Option<&Usage>| {
            let settled = Usage::settled(own, gateway.cloned())?;
            let cost = settled.total.cost_usd.map(Usd::dollars);
            Some((settled.source, settled.total.input_tokens?, cost))
        };
        let gateway = UsageSource::Gateway;
        assert_eq!(
            told(Some(&own), Some(&priced)),
            Some((gateway, 100, Some(2.0)))
        );
        assert_eq!(
            told(Some(&own), Some(&unpriced)),
            Some((gateway, 100, Some(0.1)))
        );
        assert_eq!(told(None, Some(&unpriced)), Some((gateway, 100, None)));
        assert_eq!(
            told(Some(&own), None),
            Some((UsageSource::Sidecar, 1, Some(0.1)))
        );
        assert_eq!(told(None, None), None);
    }

    #[test]
    fn all_tokens_count_all_four_kinds() {
        let mut figures = Figures {
            input_tokens: Some(1),
            output_tokens: Some(20),
            cache_read_tokens: Some(300),
            cache_creation_tokens: Some(4000),
            ..Figures::default()
        };
        assert_eq!(figures.all_tokens(), Some(4321));
        figures.cache_read_tokens = None;
        assert_eq!(figures.all_tokens(), Some(4021));
        figures.output_tokens = None;
        assert_eq!(figures.all_tokens(), None);
    }

    #[test]
    fn money_read_from_a_binary_float_is_the_decimal_that_was_meant() {
        let cost: Usd = serde_json::from_str("0.015300000000000001").unwrap();
        assert_eq!(cost.nanos(), 15_300_000);
        assert_eq!(serde_json::to_string(&cost).unwrap(), "0.0153");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        assert_eq!(Usd::from_dollars(f64::NAN), None);
        assert_eq!(Usd::from_dollars(1e12), None);
    }
}
