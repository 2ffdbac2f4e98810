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
    pub(super) strategy: Option<RewardStrategy>,
    #[serde(default)]
    pub(super) artifacts: Vec<ArtifactEntry>,
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
    pub(super) steps: Vec<StepTable>,
}

/// One step of a task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) agent: AgentTable,
    #[serde(default)]
    pub(super) verifier: VerifierTable,
    pub(super) min_reward: Option<MinReward>,
    pub(super) healthcheck: Option<HealthcheckTable>,
    #[serde(default)]
    pub(super) artifacts: Vec<ArtifactEntry>,
}

/// A number for the key `reward`, or a number for each key.
#[derive(Debug)]
pub(super) struct MinReward(pub(super) BTreeMap<String, f64>);

impl<'de> Deserialize<'de> for MinReward {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = |value: &serde_json::Value| match value {
            serde_json::Value::Number(number) => number.as_f64(),
            serde_json::Value::String(text) => text.trim().parse().ok(),
            serde_json::Value::Bool(is_one) => Some(f64::from(u8::from(*is_one))),
            _ => None,
        };
        let wrong = || de::Error::custom("expected a number, or a table of numbers");
        let read = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Object(all) => {
                let all = all
                    .iter()
                    .map(|(key, value)| Some((key.clone(), number(value)?)));
                all.collect::<Option<BTreeMap<_, _>>>().ok_or_else(wrong)?
            }
            one => [("reward".to_owned(), number(&one).ok_or_else(wrong)?)].into(),
        };
        Ok(MinReward(read))
    }
}

/// Relevant only for tasks of several steps.
#[derive(Clone, Copy, Debug, Deserialize)]
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
    /// The key of the deciding reward among several: an extension of Proctor.
    pub(super) reward_key: Option<Loose>,
}

/// Text, or another type that is ignored.
#[derive(Clone, Debug)]
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
    pub(super) timeout_sec: Option<Number>,
    pub(super) user: Option<User>,
    pub(super) network_mode: Option<NetworkMode>,
    pub(super) allowed_hosts: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifierTable {
    pub(super) timeout_sec: Option<Number>,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectTable {
    pub(super) command: String,
    pub(super) service: Option<String>,
    pub(super) timeout_sec: Option<Number>,
    pub(super) user: Option<User>,
}

/// A path, or a table.
#[derive(Clone, Debug)]
pub(super) struct ArtifactEntry(pub(super) ArtifactTable);

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ArtifactTable {
    pub(super) source: String,
    pub(super) destination: Option<String>,
    #[serde(default)]
    pub(super) exclude: Vec<String>,
    pub(super) service: Option<String>,
}

impl<'de> Deserialize<'de> for ArtifactEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrTable;
        impl<'de> de::Visitor<'de> for PathOrTable {
            type Value = ArtifactTable;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a path, or a table with a `source`")
            }
            fn visit_str<E: de::Error>(self, source: &str) -> Result<ArtifactTable, E> {
                Ok(ArtifactTable {
                    source: source.to_owned(),
                    ..ArtifactTable::default()
                })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ArtifactTable, A::Error> {
                ArtifactTable::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }
        let table = deserializer.deserialize_any(PathOrTable)?;
        Ok(ArtifactEntry(table))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentTable {
    pub(super) build_timeout_sec: Option<Number>,
    pub(super) docker_image: Option<String>,
    pub(super) os: Option<Os>,
    pub(super) cpus: Option<Number>,
    pub(super) memory_mb: Option<WholeNumber>,
    pub(super) storage_mb: Option<WholeNumber>,
    /// The old form of `memory_mb`.
    pub(super) memory: Option<Loose>,
    /// The old form of `storage_mb`.
    pub(super) storage: Option<Loose>,
    /// The old form of `network_mode`.
    pub(super) allow_internet: Option<bool>,
    pub(super) gpus: Option<WholeNumber>,
    #[serde(default, rename = "gpu_types")]
    _gpu_types: Vec<String>,
    pub(super) tpu: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) mcp_servers: Vec<McpServerTable>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) skills_dir: Option<String>,
    pub(super) workdir: Option<String>,
    pub(super) network_mode: Option<NetworkMode>,
    pub(super) allowed_hosts: Option<Vec<String>>,
    pub(super) healthcheck: Option<HealthcheckTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpServerTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) transport: McpTransport,
    pub(super) url: Option<String>,
    pub(super) command: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum McpTransport {
    #[default]
    Sse,
    Stdio,
    #[serde(alias = "http")]
    StreamableHttp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Os {
    #[serde(alias = "Linux", alias = "LINUX", rename = "linux")]
    Linux,
    #[serde(alias = "Windows", alias = "WINDOWS", rename = "windows")]
    Windows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NetworkMode {
    Public,
    NoNetwork,
    Allowlist,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthcheckTable {
    pub(super) command: String,
    pub(super) interval_sec: Option<Number>,
    pub(super) timeout_sec: Option<Number>,
    pub(super) start_period_sec: Option<Number>,
    pub(super) start_interval_sec: Option<Number>,
    pub(super) retries: Option<WholeNumber>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SolutionTable {
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// A number, also written as text, as in Harbor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyNumber;
        impl de::Visitor<'_> for AnyNumber {
            type Value = f64;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
                let number = text.trim().parse();
                number.map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
                Ok(number as f64)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
                Ok(number)
            }
            fn visit_bool<E: de::Error>(self, is_one: bool) -> Result<f64, E> {
                Ok(f64::from(u8::from(is_one)))
            }
        }
        deserializer.deserialize_any(AnyNumber).map(Number)
    }
}

/// A whole number that is not negative, also written as text or with a fraction of 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeNumber(pub(super) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Number(number) = Number::deserialize(deserializer)?;
        let is_whole = (0.0..1e15).contains(&number) && number.fract() == 0.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        if is_whole {
            Ok(WholeNumber(number as u64))
        } else {
            Err(de::Error::custom("expected a whole number of at least 0"))
        }
    }
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
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
                if number.fract() == 0.0 {
                    Ok(format!("{number:.0}"))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(number), &self))
                }
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
        ("artifacts", keys_of::<ArtifactTable>()),
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
        ("environment.mcp_servers", keys_of::<McpServerTable>()),
        (
            "verifier.environment.mcp_servers",
            keys_of::<McpServerTable>(),
        ),
        ("solution", keys_of::<SolutionTable>()),
        ("steps", keys_of::<StepTable>()),
        ("steps.agent", keys_of::<AgentTable>()),
        ("steps.verifier", keys_of::<VerifierTable>()),
        ("steps.verifier.collect", keys_of::<CollectTable>()),
        ("steps.verifier.environment", keys_of::<EnvironmentTable>()),
        ("steps.healthcheck", keys_of::<HealthcheckTable>()),
        ("steps.artifacts", keys_of::<ArtifactTable>()),
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
