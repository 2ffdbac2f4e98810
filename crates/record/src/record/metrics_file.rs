//! The figures that an adapter script writes: `.thunderdome-metrics.json`. A valid file is trusted;
//! an invalid one is a warning, and the figures are unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fs::beneath::UntrustedDir;
use crate::usage::{Figures, Usage, UsageSource, Usd};

/// The file's name, in the workspace.
pub const METRICS_FILE: &str = ".thunderdome-metrics.json";
/// The maximum size of the file.
const MAX_BYTES: u64 = 1 << 20;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// The name in the published schema of records.
#[schemars(rename = "Sidecar")]
pub struct AgentMetrics {
    /// Input tokens, without cached ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// The number of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The names of the used tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_used: Option<Vec<String>>,
    /// The cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<Usd>,
    /// The duration of the agent in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl AgentMetrics {
    /// Reads the file of a workspace; `None` if it does not exist, an error if it is invalid.
    pub fn read(workspace: &UntrustedDir, name: &str) -> Result<Option<AgentMetrics>, String> {
        match workspace.read(name, MAX_BYTES) {
            Ok(bytes) => AgentMetrics::parse(&bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("is not readable: {error}")),
        }
    }

    fn parse(bytes: &[u8]) -> Result<AgentMetrics, String> {
        // serde would accept a list for a struct.
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"))?;
        if !value.is_object() {
            return Err("is not a JSON object".to_owned());
        }
        let read: AgentMetrics =
            serde_json::from_value(value).map_err(|error| format!("is invalid: {error}"))?;
        match read.total_cost_usd {
            Some(cost) if cost.nanos() < 0 => Err("has a negative cost".to_owned()),
            _ => Ok(read),
        }
    }

    /// The figures as usage; `None` if there are none.
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
    fn missing_figures_of_a_valid_file_are_unknown() {
        let text = r#"{"input_tokens": 10, "output_tokens": 2, "turns": 3, "tools_used": ["Bash"], "total_cost_usd": 0.5, "more": 1}"#;
        let sidecar = AgentMetrics::parse(text.as_bytes()).unwrap();
        let usage = sidecar.usage().unwrap();
        assert_eq!(usage.total.total_tokens, Some(12));
        assert_eq!(usage.total.cache_read_tokens, None);
        assert_eq!(usage.source, UsageSource::Sidecar);
        assert_eq!(sidecar.turns, Some(3));
        let empty = AgentMetrics::parse(b"{}").unwrap();
        assert_eq!(empty.usage(), None, "missing figures are unknown, not zero");
    }

    #[test]
    fn invalid_file_is_not_used_in_part() {
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
