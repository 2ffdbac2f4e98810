//! The usage of a program: paths in the JSON of its output or of a file.

use proctor_document::{Fault, Node};
use proctor_record::usage::{Usage, UsageSource, Usd};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::output::OutputKind;
use crate::tokens::Tokens;

/// `agent.config.usage`: paths such as `usage.input_tokens`, with dots between keys and indices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UsagePaths {
    /// A JSON or JSON lines file in the workspace, or below `{scratch}` or `{home}`. Default: the
    /// lines of the output.
    pub(super) file: Option<String>,
    /// Input tokens.
    input_tokens: Option<String>,
    /// Output tokens, including reasoning.
    output_tokens: Option<String>,
    /// Tokens read from the prompt cache.
    cache_read_tokens: Option<String>,
    /// Tokens written to the prompt cache.
    cache_creation_tokens: Option<String>,
    /// The cost.
    cost_usd: Option<String>,
    /// Whether figures are those of one call, to be added up, or totals, of which the last is used.
    /// Default `last`.
    each: Option<Each>,
    /// Whether the input tokens include cached ones. Default `excluded`.
    cached_input: Option<CachedInput>,
}

/// The meaning of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Each {
    /// Totals so far.
    #[default]
    Last,
    /// One call.
    Sum,
}

/// Whether the input tokens include cached ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CachedInput {
    /// They are included.
    Included,
    /// They are not included.
    #[default]
    Excluded,
}

/// Checks the paths.
pub(super) fn check(paths: &UsagePaths, output: Option<OutputKind>, config: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    let named = [
        &paths.input_tokens,
        &paths.output_tokens,
        &paths.cache_read_tokens,
        &paths.cache_creation_tokens,
        &paths.cost_usd,
    ];
    if named.iter().all(|path| path.is_none()) {
        let fault = config.fault("usage", "`usage` has no figures");
        faults.push(fault.with_hint("add paths such as `input_tokens: usage.input_tokens`"));
    }
    if paths.file.is_none() && output != Some(OutputKind::Ndjson) {
        let fault = config.fault("usage", "`usage` without `file` requires JSON lines");
        faults.push(fault.with_hint("add `output: ndjson` or `file`"));
    }
    faults
}

/// Reads figures from values.
pub(super) struct UsageReader {
    paths: UsagePaths,
    tokens: Tokens,
}

impl UsageReader {
    pub(super) fn new(paths: UsagePaths) -> UsageReader {
        UsageReader {
            paths,
            tokens: Tokens::default(),
        }
    }

    /// Reads a file: one JSON value, or one per line.
    pub(super) fn read_file(&mut self, bytes: &[u8]) {
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            return self.read(&value);
        }
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(value) = serde_json::from_slice::<Value>(line) {
                self.read(&value);
            }
        }
    }

    /// Reads the figures of `value`.
    pub(super) fn read(&mut self, value: &Value) {
        let paths = &self.paths;
        let number = |path: &Option<String>| at(value, path.as_deref()?)?.as_u64();
        let cost = || at(value, paths.cost_usd.as_deref()?)?.as_f64();
        let found = Tokens {
            input: number(&paths.input_tokens),
            output: number(&paths.output_tokens),
            cache_read: number(&paths.cache_read_tokens),
            cache_write: number(&paths.cache_creation_tokens),
            cost: cost().and_then(Usd::from_dollars),
        };
        self.tokens = match paths.each.unwrap_or_default() {
            Each::Sum => self.tokens.plus(found),
            Each::Last => Tokens {
                input: found.input.or(self.tokens.input),
                output: found.output.or(self.tokens.output),
                cache_read: found.cache_read.or(self.tokens.cache_read),
                cache_write: found.cache_write.or(self.tokens.cache_write),
                cost: found.cost.or(self.tokens.cost),
            },
        };
    }

    pub(super) fn conclude(self) -> Option<Usage> {
        let tokens = match self.paths.cached_input.unwrap_or_default() {
            CachedInput::Included => self.tokens.without_cached_input(),
            CachedInput::Excluded => self.tokens,
        };
        tokens.usage(if self.paths.file.is_some() {
            UsageSource::Sidecar
        } else {
            UsageSource::Messages
        })
    }
}

/// The value at a path such as `usage.models.0.tokens`.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}
