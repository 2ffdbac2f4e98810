//! Tokens and cost in one convention for all CLIs: input without tokens read from or written to the
//! prompt cache, output with reasoning.

use std::collections::BTreeMap;

use proctor_record::{
    session::{SessionEvent, SessionHost},
    usage::{Figures, Usage, UsageSource, Usd},
};
use serde_json::Value;

/// The usage of some calls. `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) cost: Option<Usd>,
}

impl Tokens {
    /// Subtracts cached tokens from the input.
    #[must_use]
    pub(super) fn without_cached_input(mut self) -> Tokens {
        let cached = self.cache_read.unwrap_or_default() + self.cache_write.unwrap_or_default();
        self.input = self.input.map(|input| input.saturating_sub(cached));
        self
    }

    /// The sum. If one figure is unknown, the other is used.
    #[must_use]
    pub(super) fn plus(self, other: Tokens) -> Tokens {
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Tokens {
            input: add(self.input, other.input),
            output: add(self.output, other.output),
            cache_read: add(self.cache_read, other.cache_read),
            cache_write: add(self.cache_write, other.cache_write),
            cost: match (self.cost, other.cost) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            },
        }
    }

    /// Reports the figures so far.
    pub(super) fn report(self, host: &mut dyn SessionHost) {
        host.event(SessionEvent::Progress {
            input_tokens: self.input.unwrap_or_default(),
            output_tokens: self.output.unwrap_or_default(),
        });
    }

    pub(super) fn is_nothing(self) -> bool {
        let counts = [self.input, self.output, self.cache_read, self.cache_write];
        let has_none = counts.into_iter().all(|count| count.unwrap_or(0) == 0);
        has_none && self.cost.is_none_or(|cost| cost.nanos() == 0)
    }

    pub(super) fn figures(self) -> Figures {
        Figures {
            input_tokens: self.input,
            output_tokens: self.output,
            total_tokens: self
                .input
                .zip(self.output)
                .map(|(input, output)| input.saturating_add(output)),
            cache_read_tokens: self.cache_read,
            cache_creation_tokens: self.cache_write,
            cost_usd: self.cost,
        }
    }

    /// The usage of a session without figures by model; `None` without any figure.
    pub(super) fn usage(self, source: UsageSource) -> Option<Usage> {
        (!self.is_nothing()).then(|| Usage {
            total: self.figures(),
            source,
            lower_bound: false,
            per_model: BTreeMap::new(),
        })
    }
}

/// The usage of a session with several models; `None` without any figure.
pub(super) fn by_model(
    models: impl IntoIterator<Item = (String, Tokens)>,
    source: UsageSource,
) -> Option<Usage> {
    let models: Vec<(String, Tokens)> = models.into_iter().collect();
    let total = models
        .iter()
        .fold(Tokens::default(), |sum, (_, tokens)| sum.plus(*tokens));
    let mut usage = total.usage(source)?;
    usage.per_model = models
        .into_iter()
        .map(|(name, tokens)| (name, tokens.figures()))
        .collect();
    Some(usage)
}

/// The whole number at a JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64()
}

/// The amount of dollars at a JSON pointer.
pub(super) fn dollars(value: &Value, pointer: &str) -> Option<Usd> {
    value.pointer(pointer)?.as_f64().and_then(Usd::from_dollars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_subtracted_from_the_input() {
        let tokens = Tokens {
            input: Some(2500),
            output: Some(70),
            cache_read: Some(1200),
            ..Tokens::default()
        };
        let figures = tokens.without_cached_input().figures();
        assert_eq!(figures.input_tokens, Some(1300));
        assert_eq!(figures.total_tokens, Some(1370));
        assert_eq!(Tokens::default().usage(UsageSource::Sidecar), None);
    }
}
