//! The values that youBencha requires in its log and that Proctor may not know. In memory an
//! unknown value is `None`; the file has a value that stands for it, because youBencha's schema
//! has no null.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::{
    outcome::Outcome,
    usage::{Figures, Usage, UsageSource, Usd},
};

/// The time in the log for an unknown time.
pub const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";
/// The exit code in the log for an unknown one: a timeout, or an agent that never started.
const UNKNOWN_EXIT_CODE: i32 = -1;
/// Variables of `environment` that youBencha requires.
pub(super) const ENVIRONMENT: [&str; 4] = [
    "os",
    "node_version",
    "youbencha_version",
    "working_directory",
];

/// The exit code of a session in youBencha's files, where 0 and `success` are the same. The record
/// has the code of the process.
pub fn exit_code(outcome: Outcome, code: Option<i32>) -> i32 {
    match (outcome, code) {
        (Outcome::Completed, code) => code.unwrap_or(0),
        (_, Some(0) | None) => UNKNOWN_EXIT_CODE,
        (_, Some(code)) => code,
    }
}

/// Adds youBencha's own names of the agent and the model to the schema of the log.
pub(super) fn complete(schema: &mut Schema) {
    let names = [("agent", "agent_info"), ("model", "model_info")];
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for (name, same) in names {
        let definition = object["properties"][same].clone();
        object["properties"][name] = definition;
        if let Some(required) = object["required"].as_array_mut() {
            required.push(json!(name));
        }
    }
}

/// A time that may be unknown.
pub(super) mod time {
    use super::{Deserialize, Deserializer, Serializer, UNKNOWN_TIME};

    #[allow(clippy::ref_option, reason = "the signature is serde's")]
    pub fn serialize<S: Serializer>(time: &Option<String>, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(time.as_deref().unwrap_or(UNKNOWN_TIME))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
        let time = Option::<String>::deserialize(value)?;
        Ok(time.filter(|time| time != UNKNOWN_TIME))
    }
}

/// A duration that may be unknown.
#[allow(clippy::ref_option, reason = "the signature is serde's")]
pub(super) fn duration<S: Serializer>(millis: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(millis.unwrap_or_default())
}

/// Usage in the log: youBencha's names and those of its adapters.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct LogUsage {
    /// The same as `input_tokens`.
    prompt_tokens: u64,
    /// The same as `output_tokens`.
    completion_tokens: u64,
    /// The same as `cost_usd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimated_cost_usd: Option<Usd>,
    /// The totals; 0 when unknown.
    #[serde(flatten)]
    total: Figures,
    /// Where the figures come from; `unknown` when there are none.
    source: LogSource,
    /// True when the session was cut off: the real figures are at least these.
    #[serde(default)]
    lower_bound: bool,
    /// The same, for each model.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    per_model: std::collections::BTreeMap<String, Figures>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum LogSource {
    Known(UsageSource),
    Unknown(UnknownSource),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UnknownSource {
    Unknown,
}

impl LogUsage {
    fn new(usage: Option<&Usage>) -> LogUsage {
        let mut total = usage.map(|usage| usage.total.clone()).unwrap_or_default();
        let prompt_tokens = *total.input_tokens.get_or_insert_default();
        let completion_tokens = *total.output_tokens.get_or_insert_default();
        let sum = prompt_tokens.saturating_add(completion_tokens);
        total.total_tokens.get_or_insert(sum);
        LogUsage {
            prompt_tokens,
            completion_tokens,
            estimated_cost_usd: total.cost_usd,
            total,
            source: usage.map_or(LogSource::Unknown(UnknownSource::Unknown), |usage| {
                LogSource::Known(usage.source)
            }),
            lower_bound: usage.is_some_and(|usage| usage.lower_bound),
            per_model: usage
                .map(|usage| usage.per_model.clone())
                .unwrap_or_default(),
        }
    }
}

/// Usage that may be unknown.
pub(super) mod usage {
    use super::{Deserialize, Deserializer, LogSource, LogUsage, Serialize, Serializer, Usage};

    #[allow(clippy::ref_option, reason = "the signature is serde's")]
    pub fn serialize<S: Serializer>(usage: &Option<Usage>, out: S) -> Result<S::Ok, S::Error> {
        LogUsage::new(usage.as_ref()).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Usage>, D::Error> {
        let LogUsage {
            total,
            source,
            lower_bound,
            per_model,
            ..
        } = LogUsage::deserialize(value)?;
        let LogSource::Known(source) = source else {
            return Ok(None);
        };
        Ok(Some(Usage {
            total,
            source,
            lower_bound,
            per_model,
        }))
    }
}
