//! The keys of `task.toml`: all of Harbor's format, including those that are refused.

use std::collections::BTreeMap;

use proctor_document::{Node, Value, keys_of};
use serde::{Deserialize, Deserializer, de};

use crate::evaluate::VerifierMode;

/// The whole file. Parts that are refused unless empty are read from the tree.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskToml {
    #[serde(rename = "schema_version")]
    _schema_version: Option<String>,
    /// The old name of `schema_version`.
    #[serde(rename = "version")]
    _version: Option<String>,
    #[serde(rename = "source")]
    _source: Option<String>,
    #[serde(rename = "multi_step_reward_strategy")]
    _strategy: Option<RewardStrategy>,
    #[serde(default)]
    pub(super) artifacts: Vec<de::IgnoredAny>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) task: Option<TaskTable>,
    #[serde(default)]
    pub(super) agent: AgentTable,
    #[serde(default)]
    pub(super) verifier: VerifierTable,
    #[serde(default)]
    pub(super) environment: EnvironmentTable,
    #[serde(default)]
    pub(super) solution: SolutionTable,
    #[serde(default)]
    pub(super) steps: Vec<de::IgnoredAny>,
}

/// Relevant only for tasks of several steps.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RewardStrategy {
    Mean,
    Final,
}

/// A table with arbitrary content.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata {
    pub(super) category: Option<Loose>,
    /// Whether the prompt contains the deadline: an extension of Proctor.
    pub(super) tell_deadline: Option<serde_json::Value>,
}

/// Text, or another type that is ignored.
#[derive(Debug)]
pub(super) struct Loose(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = serde_json::Value::deserialize(deserializer)?;
        Ok(Loose(any.as_str().map(str::to_owned)))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTable {
    pub(super) name: String,
    #[serde(rename = "version")]
    _version: Option<String>,
    pub(super) description: Option<String>,
    #[serde(rename = "authors")]
    _authors: Option<Vec<Author>>,
    #[serde(rename = "keywords")]
    _keywords: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Author {
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "email")]
    _email: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentTable {
    pub(super) timeout_sec: Option<f64>,
    pub(super) user: Option<User>,
    pub(super) network_mode: Option<NetworkMode>,
    pub(super) allowed_hosts: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifierTable {
    pub(super) timeout_sec: Option<f64>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) user: Option<User>,
    pub(super) environment_mode: Option<VerifierMode>,
    pub(super) environment: Option<EnvironmentTable>,
    #[serde(default)]
    pub(super) collect: Vec<CollectTable>,
    pub(super) network_mode: Option<NetworkMode>,
    pub(super) allowed_hosts: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectTable {
    pub(super) command: String,
    pub(super) service: Option<String>,
    pub(super) timeout_sec: Option<f64>,
    pub(super) user: Option<User>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentTable {
    pub(super) build_timeout_sec: Option<f64>,
    pub(super) docker_image: Option<String>,
    pub(super) os: Option<Os>,
    pub(super) cpus: Option<f64>,
    pub(super) memory_mb: Option<u64>,
    pub(super) storage_mb: Option<u64>,
    /// The old form of `memory_mb`.
    pub(super) memory: Option<String>,
    /// The old form of `storage_mb`.
    pub(super) storage: Option<String>,
    /// The old form of `network_mode`.
    pub(super) allow_internet: Option<bool>,
    pub(super) gpus: Option<u64>,
    #[serde(default)]
    pub(super) gpu_types: Vec<String>,
    pub(super) tpu: Option<de::IgnoredAny>,
    #[serde(default)]
    pub(super) mcp_servers: Vec<de::IgnoredAny>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) skills_dir: Option<String>,
    pub(super) workdir: Option<String>,
    pub(super) network_mode: Option<NetworkMode>,
    pub(super) allowed_hosts: Option<Vec<String>>,
    pub(super) healthcheck: Option<HealthcheckTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Os {
    Linux,
    Windows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NetworkMode {
    Public,
    NoNetwork,
    Allowlist,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthcheckTable {
    pub(super) command: String,
    pub(super) interval_sec: Option<f64>,
    pub(super) timeout_sec: Option<f64>,
    pub(super) start_period_sec: Option<f64>,
    pub(super) start_interval_sec: Option<f64>,
    pub(super) retries: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SolutionTable {
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// A user by name or number.
#[derive(Clone, Debug)]
pub(super) struct User(pub(super) String);

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl de::Visitor<'_> for NameOrNumber {
            type Value = String;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a user's name or number")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<String, E> {
                Ok(name.to_owned())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
                Ok(number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
                Ok(number.to_string())
            }
        }
        deserializer.deserialize_any(NameOrNumber).map(User)
    }
}

/// Removes unknown keys, which Harbor ignores. Returns a note about each.
pub(super) fn ignore_unknown_keys(root: &mut Node) -> Vec<String> {
    let mut notes = Vec::new();
    for (table, known) in [
        ("", keys_of::<TaskToml>()),
        ("task", keys_of::<TaskTable>()),
        ("task.authors", keys_of::<Author>()),
        ("agent", keys_of::<AgentTable>()),
        ("verifier", keys_of::<VerifierTable>()),
        ("verifier.collect", keys_of::<CollectTable>()),
        ("verifier.environment", keys_of::<EnvironmentTable>()),
        (
            "verifier.environment.healthcheck",
            keys_of::<HealthcheckTable>(),
        ),
        ("environment", keys_of::<EnvironmentTable>()),
        ("environment.healthcheck", keys_of::<HealthcheckTable>()),
        ("solution", keys_of::<SolutionTable>()),
    ] {
        let below: Vec<&str> = table.split('.').filter(|part| !part.is_empty()).collect();
        keep_known(root, &below, known, &mut |key| {
            let key = [table, key].join(".");
            let key = key.trim_start_matches('.');
            let note = format!("unknown key `{key}` in task.toml has no effect");
            if !notes.contains(&note) {
                notes.push(note);
            }
        });
    }
    notes
}

/// Keeps the known keys of the tables at a path below `node`; a list has several.
fn keep_known(node: &mut Node, below: &[&str], known: &[&str], removed: &mut impl FnMut(&str)) {
    match (&mut node.value, below) {
        (Value::List(items), _) => {
            for item in items {
                keep_known(item, below, known, removed);
            }
        }
        (Value::Map(entries), []) => entries.retain(|(_, key, _)| {
            let is_known = known.contains(&key.as_str());
            if !is_known {
                removed(key);
            }
            is_known
        }),
        (Value::Map(entries), [next, rest @ ..]) => {
            for (_, key, item) in entries {
                if key == next {
                    keep_known(item, rest, known, removed);
                }
            }
        }
        _ => {}
    }
}

/// Parses `2G`, `512M`, `1048576K` or bytes. Returns MiB.
pub(super) fn megabytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let text = text.trim_end_matches('B').trim_end_matches('I');
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.trim().parse().ok()?;
    let factor = match &text[digits.len()..] {
        "" => 1.0 / 1_048_576.0,
        "K" => 1.0 / 1024.0,
        "M" => 1.0,
        "G" => 1024.0,
        "T" => 1_048_576.0,
        _ => return None,
    };
    let size = (number * factor).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (1.0..1e15).contains(&size).then_some(size as u64)
}

#[cfg(test)]
mod tests {
    use super::megabytes;

    #[test]
    fn sizes_of_old_files_are_read() {
        for (text, expect) in [
            ("2G", Some(2048)),
            ("512M", Some(512)),
            ("1.5Gi", Some(1536)),
            ("2048k", Some(2)),
            ("1048577", Some(2)),
            ("10GB", Some(10240)),
            ("", None),
            ("lots", None),
            ("-1G", None),
            ("nan", None),
        ] {
            assert_eq!(megabytes(text), expect, "{text}");
        }
    }
}
