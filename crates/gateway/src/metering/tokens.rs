//! Token counts in one convention for all APIs.

use std::ops::AddAssign;

use serde::Serialize;

/// Tokens of one or more calls. `input` excludes cached tokens, `output` includes reasoning. The counts of
/// every API are converted to this convention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Read at full price.
    pub input: u64,
    /// Written, reasoning included.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache for five minutes, or for as long as the provider thinks fit.
    pub cache_write_5m: u64,
    /// Written to the cache for an hour.
    pub cache_write_1h: u64,
    /// The part of `output` that was reasoning, if the provider reports it.
    pub reasoning: u64,
}

impl Tokens {
    /// All tokens, each counted once.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Tokens of the prompt, cached or not.
    pub fn prompt(&self) -> u64 {
        let parts = [
            self.input,
            self.cache_read,
            self.cache_write_5m,
            self.cache_write_1h,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        let add = |to: &mut u64, value: u64| *to = to.saturating_add(value);
        add(&mut self.input, other.input);
        add(&mut self.output, other.output);
        add(&mut self.cache_read, other.cache_read);
        add(&mut self.cache_write_5m, other.cache_write_5m);
        add(&mut self.cache_write_1h, other.cache_write_1h);
        add(&mut self.reasoning, other.reasoning);
    }
}
