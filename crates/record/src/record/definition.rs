//! Definitions of agents, tasks and evaluators as canonical JSON, with their digests. Trials are pooled only if their
//! digests are equal, and a difference between two definitions is named by JSON pointers.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::fs::hex;

/// The longest value in the text of a change, in characters.
const LONGEST_VALUE: usize = 80;

/// A definition as canonical JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The SHA-256 of the text.
    pub digest: String,
    /// The definition, with sorted keys.
    pub text: Value,
}

impl Definition {
    /// The canonical form of `value`.
    pub fn new(value: Value) -> Definition {
        let text = canonical(value);
        Definition {
            digest: hex(&Sha256::digest(text.to_string())),
            text,
        }
    }
}

/// Sort the keys of all objects: another crate may turn on `serde_json`'s order of insertion.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<String, Value> = map.into_iter().collect();
            let sorted = sorted.into_iter().map(|(key, it)| (key, canonical(it)));
            Value::Object(sorted.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(canonical).collect()),
        other => other,
    }
}

/// The definition of a trial's agent or task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionRecord {
    /// The SHA-256 of `planned` and `found`. Trials with different digests are never pooled.
    pub digest: String,
    /// The SHA-256 of the definition in the plan; `plan.json` of the run has its text.
    pub planned: String,
    /// Facts that were known only when the trial ran, such as the version of the agent's CLI.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, String>,
}

impl DefinitionRecord {
    /// The record of a planned definition, before its trial.
    pub fn new(planned: &str) -> DefinitionRecord {
        let mut record = DefinitionRecord {
            digest: String::new(),
            planned: planned.to_owned(),
            found: BTreeMap::new(),
        };
        record.update();
        record
    }

    /// Add a fact.
    pub fn find(&mut self, name: &str, value: &str) {
        self.found.insert(name.to_owned(), value.to_owned());
        self.update();
    }

    fn update(&mut self) {
        let whole = serde_json::json!({"planned": self.planned, "found": self.found});
        self.digest = Definition::new(whole).digest;
    }

    /// Whether `other` has the same plan and all facts of this one, and more.
    pub fn is_part_of(&self, other: &DefinitionRecord) -> bool {
        let is_known = |(name, value): (&String, &String)| other.found.get(name) == Some(value);
        self.planned == other.planned
            && self.found.len() < other.found.len()
            && self.found.iter().all(is_known)
    }
}

/// The digests of the definitions of one agent on one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairDigests {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The digest of the agent's definition.
    pub agent_digest: String,
    /// The digest of the task's definition.
    pub task_digest: String,
    /// The digest of the definition of the task's evaluators.
    pub evaluators_digest: String,
}

/// A difference between two definitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DefinitionChange {
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The earlier value; `None` if there was none.
    pub before: Option<Value>,
    /// The later value; `None` if there is none.
    pub after: Option<Value>,
}

impl fmt::Display for DefinitionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (shown(self.before.as_ref()), shown(self.after.as_ref()));
        write!(f, "{}: {before} → {after}", self.pointer)
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "not set".to_owned();
    };
    let text = value.to_string();
    if text.chars().count() <= LONGEST_VALUE {
        return text;
    }
    let start: String = text.chars().take(LONGEST_VALUE).collect();
    format!("{start}…")
}

/// All differences between two definitions, in the order of their pointers.
pub fn changes(before: &Value, after: &Value) -> Vec<DefinitionChange> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(
    pointer: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<DefinitionChange>,
) {
    match (before, after) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for key in keys(one, other) {
                let below = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                compare(&below, one.get(key), other.get(key), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                let below = format!("{pointer}/{index}");
                compare(&below, one.get(index), other.get(index), found);
            }
        }
        _ if before == after => {}
        _ => found.push(DefinitionChange {
            pointer: pointer.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

fn keys<'a>(one: &'a Map<String, Value>, other: &'a Map<String, Value>) -> Vec<&'a String> {
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_in_another_order_have_the_same_digest() {
        let parsed = |text: &str| Definition::new(serde_json::from_str(text).unwrap());
        let one = parsed(r#"{"b": [{"y": 1, "x": 2}], "a": "ä"}"#);
        let other = parsed(r#"{"a": "ä", "b": [{"x": 2, "y": 1}]}"#);
        assert_eq!(one, other);
        assert_eq!(one.text.to_string(), r#"{"a":"ä","b":[{"x":2,"y":1}]}"#);
        assert_ne!(one.digest, parsed(r#"{"a": "a"}"#).digest);
    }

    #[test]
    fn a_change_is_named_by_its_pointer() {
        let before = json!({"config": {"a/b": 1, "list": [1, 2], "gone": null}, "same": {}});
        let after = json!({"config": {"a/b": "1", "list": [1], "new": {"x": 1}}, "same": {}});
        let found: Vec<String> = changes(&before, &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "/config/a~1b: 1 → \"1\"",
                "/config/gone: null → not set",
                "/config/list/1: 2 → not set",
                "/config/new: not set → {\"x\":1}",
            ]
        );
    }

    #[test]
    fn a_long_value_is_cropped() {
        let change = &changes(&json!({"p": "x".repeat(500)}), &json!({"p": "y"}))[0];
        assert!(change.to_string().chars().count() < 110, "{change}");
    }

    #[test]
    fn facts_are_part_of_the_digest() {
        let planned = DefinitionRecord::new("p");
        let mut found = planned.clone();
        found.find("version", "1.0.0");
        assert_ne!(planned.digest, found.digest);
        assert!(planned.is_part_of(&found));
        assert!(!found.is_part_of(&planned) && !found.is_part_of(&found.clone()));
        let mut other = planned.clone();
        other.find("version", "1.0.1");
        assert_ne!(other.digest, found.digest);
        other.find("image", "i");
        assert!(!found.is_part_of(&other) && planned.is_part_of(&other));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c/~]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c/~]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Definitions are equal, have equal digests and no changes, or none of it; each pointer finds its values.
        #[test]
        fn digests_and_changes_agree(one in value(), other in value()) {
            let (one, other) = (Definition::new(one), Definition::new(other));
            let found = changes(&one.text, &other.text);
            prop_assert_eq!(one.digest == other.digest, found.is_empty());
            prop_assert_eq!(one.text == other.text, found.is_empty());
            for change in found {
                prop_assert_eq!(one.text.pointer(&change.pointer), change.before.as_ref());
                prop_assert_eq!(other.text.pointer(&change.pointer), change.after.as_ref());
            }
        }
    }
}
