//! Tokens and money, with the source of each figure. Unknown is `None`, never zero; money is in
//! whole nano-dollars, so that sums are exact.

use std::{borrow::Cow, collections::BTreeMap, iter::Sum, ops::Add};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_DOLLAR: f64 = 1e9;

/// An amount of US dollars, in whole nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(i64);

impl Usd {
    /// The nearest amount to `dollars`; `None` if it is not a valid amount (NaN, infinite, too
    /// large).
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked first"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Usd> {
        let nanos = (dollars * NANOS_PER_DOLLAR).round();
        (nanos.abs() < 9e18).then_some(Usd(nanos as i64))
    }

    /// The amount in dollars, for display.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR
    }

    /// An amount of nano-dollars.
    pub fn from_nanos(nanos: i64) -> Usd {
        Usd(nanos)
    }

    /// The amount in nano-dollars.
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// The rest after `other` is spent: 0 if it is more.
    #[must_use]
    pub fn less(self, other: Usd) -> Usd {
        Usd(self.0.saturating_sub(other.0).max(0))
    }

    /// One of `parts` equal shares, rounded down; everything if there are no parts.
    #[must_use]
    pub fn share(self, parts: usize) -> Usd {
        Usd(self.0 / i64::try_from(parts.max(1)).unwrap_or(i64::MAX))
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
        Usd::from_dollars(dollars)
            .ok_or_else(|| serde::de::Error::custom("invalid amount of money"))
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

/// The source of usage figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The agent's own final account of the session.
    ResultEvent,
    /// The sum over the messages; there was no final account.
    Messages,
    /// Read from lines of a plain-text transcript.
    Text,
    /// A file of the agent.
    Sidecar,
    /// The gateway, which observes every call.
    Gateway,
    /// The sum over iterations with different sources.
    Iterations,
}

/// Tokens and cost. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Input tokens, without cached ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
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
    /// The cost, according to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// The usage of a trial, over all models and sub-agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The totals.
    #[serde(flatten)]
    pub total: Figures,
    /// The source of these figures.
    pub source: UsageSource,
    /// Whether the session was interrupted: the figures are lower bounds.
    #[serde(default)]
    pub lower_bound: bool,
    /// The same, for each model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub per_model: BTreeMap<String, Figures>,
}

impl Figures {
    /// The figure that is called *tokens* everywhere: input plus output, without cached input; `None` when unknown.
    pub fn tokens(&self) -> Option<u64> {
        Some(self.input_tokens?.saturating_add(self.output_tokens?))
    }

    /// Input that was read from or written to the prompt cache; `None` when both are unknown.
    pub fn cached_tokens(&self) -> Option<u64> {
        match (self.cache_read_tokens, self.cache_creation_tokens) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0).saturating_add(written.unwrap_or(0))),
        }
    }

    /// Tokens and cached tokens together, as Thunderdome counts them; `None` when unknown.
    pub fn all_tokens(&self) -> Option<u64> {
        let cached = self.cached_tokens().unwrap_or(0);
        Some(self.tokens()?.saturating_add(cached))
    }

    /// The sum. A figure that is unknown in one is unknown in the sum.
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

    /// Adds figures by name.
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
    /// Whether the agent itself reported these figures.
    pub fn is_own(&self) -> bool {
        self.source != UsageSource::Gateway
    }

    /// The figures that reports and limits use: the gateway's if it counted any, else the agent's
    /// own. The agent's cost is used if the gateway has no price.
    pub fn settled(own: Option<&Usage>, gateway: Option<Usage>) -> Option<Usage> {
        let Some(mut counted) = gateway else {
            return own.cloned();
        };
        let own_cost = own.and_then(|own| own.total.cost_usd);
        counted.total.cost_usd = counted.total.cost_usd.or(own_cost);
        Some(counted)
    }

    /// Input plus output, without cached input; `None` when unknown.
    pub fn tokens(&self) -> Option<u64> {
        self.total.tokens()
    }

    /// Input that was read from or written to the prompt cache; `None` when unknown.
    pub fn cached_tokens(&self) -> Option<u64> {
        self.total.cached_tokens()
    }

    /// The sum; `None` for an empty list.
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
    fn sum_is_known_if_all_parts_are() {
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
    fn gateway_figures_take_precedence_except_for_unknown_prices() {
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
        let reported = |own: Option<&Usage>, gateway: Option<&Usage>| {
            let settled = Usage::settled(own, gateway.cloned())?;
            let cost = settled.total.cost_usd.map(Usd::dollars);
            Some((settled.source, settled.total.input_tokens?, cost))
        };
        let gateway = UsageSource::Gateway;
        assert_eq!(
            reported(Some(&own), Some(&priced)),
            Some((gateway, 100, Some(2.0)))
        );
        assert_eq!(
            reported(Some(&own), Some(&unpriced)),
            Some((gateway, 100, Some(0.1)))
        );
        assert_eq!(reported(None, Some(&unpriced)), Some((gateway, 100, None)));
        assert_eq!(
            reported(Some(&own), None),
            Some((UsageSource::Sidecar, 1, Some(0.1)))
        );
        assert_eq!(reported(None, None), None);
    }

    #[test]
    fn tokens_are_input_and_output_and_cached_input_is_apart() {
        let mut figures = Figures {
            input_tokens: Some(1),
            output_tokens: Some(20),
            cache_read_tokens: Some(300),
            cache_creation_tokens: Some(4000),
            ..Figures::default()
        };
        let tokens = |it: &Figures| (it.tokens(), it.cached_tokens(), it.all_tokens());
        assert_eq!(tokens(&figures), (Some(21), Some(4300), Some(4321)));
        figures.cache_read_tokens = None;
        assert_eq!(tokens(&figures), (Some(21), Some(4000), Some(4021)));
        figures.cache_creation_tokens = None;
        assert_eq!(tokens(&figures), (Some(21), None, Some(21)));
        figures.output_tokens = None;
        assert_eq!(tokens(&figures), (None, None, None));
    }

    #[test]
    fn money_is_rounded_to_the_nearest_nano_dollar() {
        let cost: Usd = serde_json::from_str("0.015300000000000001").unwrap();
        assert_eq!(cost.nanos(), 15_300_000);
        assert_eq!(serde_json::to_string(&cost).unwrap(), "0.0153");
    }

    #[test]
    fn invalid_amounts_are_refused() {
        assert_eq!(Usd::from_dollars(f64::NAN), None);
        assert_eq!(Usd::from_dollars(1e12), None);
    }
}
