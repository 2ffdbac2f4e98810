//! Prices of tokens, with date and source, in nano-dollars. An unknown price stays unknown.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::metering::Tokens;

/// An amount in nano-dollars.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl NanoUsd {
    /// An amount in dollars, rounded once to the nano-dollar.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast from a float saturates"
    )]
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * 1e9).round() as i64)
    }

    /// The sum, which never wraps.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, which never wraps.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The prices of some models, in USD per million tokens, as a price file has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The models' names, without dates and providers.
    pub models: Vec<String>,
    /// The source of the price.
    pub source: String,
    /// When it was looked up, as `YYYY-MM-DD`.
    pub checked: String,
    /// Input that is not cached.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the cache: as dear as input unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input written to the cache for five minutes: as dear as input unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<f64>,
    /// Input written to the cache for an hour: as dear as for five minutes unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// The longest prompt, in tokens, that these prices are known for. The cost of a call with a longer
    /// one is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
    /// Other prices for calls with a long prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

impl Price {
    /// Whether it names a model and every amount is one.
    fn check(&self) -> Result<(Rates, Option<(u64, Rates)>), PriceError> {
        let model = self.models.first().ok_or(PriceError::NoModel)?;
        rates_of(self).ok_or_else(|| PriceError::NoAmount {
            model: model.clone(),
        })
    }

    /// Whether the source notes that the price is not from the provider's own page.
    pub fn is_unconfirmed(&self) -> bool {
        self.source.contains("unconfirmed")
    }
}

/// Prices that hold for the whole of a call whose prompt is longer than `above`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// The longest prompt, in tokens, that the other prices hold for.
    pub above: u64,
    /// Input that is not cached.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
}

/// A file of prices.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    about: String,
    prices: Vec<Price>,
}

/// Why prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// Not a price file.
    #[error("not a file of prices")]
    Unreadable {
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
    /// A price of nothing.
    #[error("a price names no model")]
    NoModel,
    /// A price that is not a valid amount.
    #[error("the price of {model} is not a valid amount of money")]
    NoAmount {
        /// The first model of the entry.
        model: String,
    },
}

/// Nano-dollars per million tokens.
#[derive(Debug, Clone, Copy)]
struct Rates {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
}

impl Rates {
    fn of(&self, tokens: &Tokens) -> NanoUsd {
        let parts = [
            (tokens.input, self.input),
            (tokens.output, self.output),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write_5m, self.cache_write_5m),
            (tokens.cache_write_1h, self.cache_write_1h),
        ];
        let sum: u128 = parts
            .iter()
            .map(|(n, rate)| u128::from(*n) * u128::from(*rate))
            .sum();
        NanoUsd(i64::try_from((sum + 500_000) / 1_000_000).unwrap_or(i64::MAX))
    }
}

#[derive(Debug)]
struct PriceEntry {
    price: Arc<Price>,
    rates: Rates,
    long: Option<(u64, Rates)>,
}

impl PriceEntry {
    fn rates_for(&self, tokens: &Tokens) -> &Rates {
        match &self.long {
            Some((above, long)) if tokens.prompt() > *above => long,
            _ => &self.rates,
        }
    }
}

/// All known prices.
#[derive(Debug)]
pub struct Prices {
    by_model: HashMap<String, Arc<PriceEntry>>,
}

impl Prices {
    /// The prices that come with this program.
    pub fn built_in() -> Self {
        Self::of(Self::built_in_list()).expect("the built-in prices are checked by a test")
    }

    /// The prices that come with this program, as they are written.
    pub fn built_in_list() -> Vec<Price> {
        Self::read_file(include_str!("prices.json"))
            .expect("the built-in prices are checked by a test")
    }

    /// These prices, of which the later win.
    pub fn of(prices: impl IntoIterator<Item = Price>) -> Result<Self, PriceError> {
        let mut all = Self {
            by_model: HashMap::new(),
        };
        prices.into_iter().try_for_each(|price| all.add(price))?;
        Ok(all)
    }

    /// The prices of a file's text, each in order.
    pub fn read_file(text: &str) -> Result<Vec<Price>, PriceError> {
        let file: PriceFile =
            serde_json::from_str(text).map_err(|source| PriceError::Unreadable { source })?;
        for price in &file.prices {
            price.check()?;
        }
        Ok(file.prices)
    }

    /// Adds the prices of a file's text. They win over those that were there before.
    pub fn add_file(&mut self, text: &str) -> Result<(), PriceError> {
        let prices = Self::read_file(text)?;
        prices.into_iter().try_for_each(|price| self.add(price))
    }

    /// Adds one price. It wins over those that were there before.
    pub fn add(&mut self, price: Price) -> Result<(), PriceError> {
        let (rates, long) = price.check()?;
        let price = Arc::new(price);
        let entry = Arc::new(PriceEntry {
            price: Arc::clone(&price),
            rates,
            long,
        });
        for model in &price.models {
            self.by_model.insert(model.clone(), Arc::clone(&entry));
        }
        Ok(())
    }

    /// The price of a model, if there is one under this name, or under it without provider and date.
    pub fn find(&self, model: &str) -> Option<&Price> {
        self.entry(model).map(|entry| &*entry.price)
    }

    /// The cost of the tokens of one call. `None` for a model without a price.
    pub fn cost(&self, model: &str, tokens: &Tokens) -> Option<NanoUsd> {
        let entry = self.entry(model)?;
        if entry.price.up_to.is_some_and(|most| tokens.prompt() > most) {
            return None;
        }
        Some(entry.rates_for(tokens).of(tokens))
    }

    /// The most that a call may cost with a prompt and an answer of up to so many tokens. The prompt is
    /// an upper bound, so prices are taken to hold for it however long it is.
    pub(crate) fn at_most(&self, model: &str, prompt: u64, output: u64) -> Option<NanoUsd> {
        let entry = self.entry(model)?;
        let fresh = Tokens {
            input: prompt,
            output,
            ..Tokens::default()
        };
        let cached = Tokens {
            cache_write_5m: prompt,
            output,
            ..Tokens::default()
        };
        let cached_for_longer = Tokens {
            cache_write_1h: prompt,
            output,
            ..Tokens::default()
        };
        let rates = entry.rates_for(&fresh);
        let costs = [fresh, cached, cached_for_longer].map(|tokens| rates.of(&tokens));
        costs.into_iter().max()
    }

    /// All prices, by model.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Price)> {
        let mut all: Vec<_> = self.by_model.iter().collect();
        all.sort_by_key(|(model, _)| *model);
        all.into_iter()
            .map(|(model, entry)| (model.as_str(), &*entry.price))
    }

    fn entry(&self, model: &str) -> Option<&PriceEntry> {
        let found = self.by_model.get(model).or_else(|| {
            let plain = plain_name(model);
            self.by_model.get(plain)
        });
        found.map(|entry| &**entry)
    }
}

/// A model's name without its provider, context marker and date: `anthropic/claude-x-20250101[1m]` is
/// `claude-x`.
fn plain_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.split('[').next().unwrap_or(name);
    let name = name.strip_suffix("-latest").unwrap_or(name);
    let digits =
        |part: &str, count| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    if let Some((rest, date)) = name.rsplit_once('-')
        && digits(date, 8)
    {
        return rest;
    }
    let mut parts = name.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(rest))
            if digits(day, 2) && digits(month, 2) && digits(year, 4) =>
        {
            rest
        }
        _ => name,
    }
}

fn rates_of(price: &Price) -> Option<(Rates, Option<(u64, Rates)>)> {
    let write_5m = price.cache_write_5m.unwrap_or(price.input);
    let rates = Rates {
        input: nano(price.input)?,
        output: nano(price.output)?,
        cache_read: nano(price.cache_read.unwrap_or(price.input))?,
        cache_write_5m: nano(write_5m)?,
        cache_write_1h: nano(price.cache_write_1h.unwrap_or(write_5m))?,
    };
    let Some(long) = &price.long else {
        return Some((rates, None));
    };
    let long_rates = Rates {
        input: nano(long.input)?,
        output: nano(long.output)?,
        cache_read: nano(long.cache_read.unwrap_or(long.input))?,
        cache_write_5m: nano(long.input)?,
        cache_write_1h: nano(long.input)?,
    };
    Some((rates, Some((long.above, long_rates))))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be finite and not negative; a cast saturates"
)]
fn nano(usd: f64) -> Option<u64> {
    (usd.is_finite() && usd >= 0.0).then(|| (usd * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, tokens: Tokens) -> Option<i64> {
        Prices::built_in().cost(model, &tokens).map(|nano| nano.0)
    }

    #[test]
    fn every_built_in_price_has_a_source_and_a_date() {
        let prices = Prices::built_in();
        assert!(prices.iter().count() > 20);
        for (model, price) in prices.iter() {
            assert!(!price.source.is_empty(), "{model}");
            assert!(
                price.checked.parse::<jiff::civil::Date>().is_ok(),
                "{model}"
            );
        }
    }

    #[test]
    fn every_model_that_agents_default_to_has_a_price() {
        let prices = Prices::built_in();
        for model in [
            "claude-opus-4-8[1m]",
            "claude-opus-4-8",
            "claude-sonnet-4-5-20250929",
            "claude-haiku-4-5-20251001",
            "anthropic/claude-sonnet-4-5",
            "openai/gpt-4o",
            "gpt-4o-2024-08-06",
            "gpt-5.1",
            "gpt-5.5",
            "gemini-2.5-pro",
            "gemini-2.5-flash",
            "gemini-2.5-flash-lite",
            "models/gemini-2.5-pro",
            "claude-sonnet-5-5",
            "claude-opus-5-5",
            "qwen3-coder-plus",
        ] {
            assert!(prices.find(model).is_some(), "{model}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_own_price() {
        let tokens = Tokens {
            input: 1,
            output: 10,
            cache_read: 100,
            cache_write_5m: 1000,
            cache_write_1h: 10_000,
            reasoning: 5,
        };
        let expected = 3_000 + 10 * 15_000 + 100 * 300 + 1000 * 3_750 + 10_000 * 6_000;
        assert_eq!(cost("claude-sonnet-4-5", tokens), Some(expected));
    }

    #[test]
    fn long_prompt_costs_the_long_price_throughout() {
        let of = |input| Tokens {
            input,
            ..Tokens::default()
        };
        assert_eq!(cost("gemini-2.5-pro", of(200_000)), Some(250_000_000));
        assert_eq!(cost("gemini-2.5-pro", of(200_001)), Some(500_002_500));
    }

    #[test]
    fn prompt_beyond_the_known_price_range_has_no_cost() {
        let of = |input| Tokens {
            input,
            ..Tokens::default()
        };
        assert_eq!(cost("gpt-5.5", of(270_000)), Some(1_350_000_000));
        assert_eq!(cost("gpt-5.5", of(270_001)), None);
        let bound = Prices::built_in().at_most("gpt-5.5", 300_000, 0);
        assert_eq!(
            bound,
            Some(NanoUsd(1_500_000_000)),
            "a reservation is possible"
        );
    }

    #[test]
    fn unknown_model_has_no_price() {
        assert_eq!(cost("claude-sonnet-9", Tokens::default()), None);
        assert_eq!(cost("gpt-5.5-superb", Tokens::default()), None);
        assert_eq!(cost("gpt-4o-2024", Tokens::default()), None);
    }

    #[test]
    fn user_price_takes_precedence_and_invalid_price_is_refused() {
        let mut prices = Prices::built_in();
        let own = r#"{"prices":[{"models":["gpt-4o","m"],"source":"us","checked":"2026-01-01",
            "input":0.0375,"output":1}]}"#;
        prices.add_file(own).unwrap();
        let tokens = Tokens {
            input: 2,
            output: 1,
            ..Tokens::default()
        };
        assert_eq!(prices.cost("m", &tokens), Some(NanoUsd(1075)));
        assert_eq!(prices.find("gpt-4o").unwrap().source, "us");
        let negative = own.replace("0.0375", "-1");
        assert!(prices.add_file(&negative).is_err());
        assert!(prices.add_file("{\"prizes\":[]}").is_err());
    }
}
