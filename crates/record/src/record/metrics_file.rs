//! The figures that an adapter script leaves beside its work: `.thunderdome-metrics.json`. They
//! are believed when the file is in order; one that is not is a warning, and nothing is known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fs::beneath::UntrustedDir;
use crate::usage::{Figures, Usage, UsageSource, Usd};

/// The file's name, in the workspace.
pub const METRICS_FILE: &str = ".thunderdome-metrics.json";
/// A file larger than this holds something else.
const MAX_BYTES: u64 = 1 << 20;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// The name in the published schema of records.
#[schemars(rename = "Sidecar")]
pub struct AgentMetrics {
    /// Tokens sent, cached ones not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// Turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The names of the tools that were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_used: Option<Vec<String>>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<Usd>,
    /// How long the agent worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl AgentMetrics {
    /// Read the file of a workspace; `None` when there is none, and what is wrong with one that cannot be used.
    pub fn read(workspace: &UntrustedDir, name: &str) -> Result<Option<AgentMetrics>, String> {
        match workspace.read(name, MAX_BYTES) {
            Ok(bytes) => AgentMetrics::parse(&bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }

    fn parse(bytes: &[u8]) -> Result<AgentMetrics, String> {
        // A list would be read field by field.
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"))?;
        if !value.is_object() {
            return Err("is not a JSON object".to_owned());
        }
        let read: AgentMetrics =
            serde_json::from_value(value).map_err(|error| format!("cannot be used: {error}"))?;
        match read.total_cost_usd {
            Some(cost) if cost.nanos() < 0 => Err("has a negative cost".to_owned()),
            _ => Ok(read),
        }
    }

    /// The same as usage; `None` when it tells no figure.
    pub fn usage(&self) -> Option<Usage> {
        let total = Figures {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            total_tokens: self
                .input_tokens
                .zip(self.output_tokens)
                .map(|(input, output)| input.saturating_add(output)),
            cache_read_tokens: self.cache_read_tokens,
            cache_creation_tokens: self.cache_creation_tokens,
            cost_usd: self.total_cost_usd,
        };
        (total != Figures::default()).then(|| Usage {
            total,
            source: UsageSource::Sidecar,
            lower_bound: false,
            per_model: std::collections::BTreeMap::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_order_is_believed_and_what_it_leaves_out_is_unknown() {
        let text = r#"{"input_tokens": 10, "output_tokens": 2, "turns": 3, "tools_used": ["Bash"], "total_cost_usd": 0.5, "more": 1}"#;
        let sidecar = AgentMetrics::parse(text.as_bytes()).unwrap();
        let usage = sidecar.usage().unwrap();
        assert_eq!(usage.total.total_tokens, Some(12));
        assert_eq!(usage.total.cache_read_tokens, None);
        assert_eq!(usage.source, UsageSource::Sidecar);
        assert_eq!(sidecar.turns, Some(3));
        let empty = AgentMetrics::parse(b"{}").unwrap();
        assert_eq!(empty.usage(), None, "no figure is unknown, not zero");
    }

    #[test]
    fn a_file_that_is_not_in_order_is_not_believed_in_part() {
        for text in [
            "",
            "{",
            "[]",
            "[1,2,3,4,5,[],1,1]",
            "12",
            r#"{"input_tokens": -1, "output_tokens": 2}"#,
            r#"{"input_tokens": "10"}"#,
            r#"{"input_tokens": 1.5}"#,
            r#"{"tools_used": "Bash"}"#,
            r#"{"total_cost_usd": -0.5}"#,
            r#"{"total_cost_usd": NaN}"#,
            "\u{feff}{}",
        ] {
            assert!(AgentMetrics::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
