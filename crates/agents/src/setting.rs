//! Settings of a CLI agent as rows of a table: how a value is read, checked and described in the
//! schema, and the flag that passes it on.

use std::collections::BTreeMap;

use proctor_document::{Fault, FaultKind, Node, Value, unknown_name};
use proctor_record::fs::named;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

use super::model_name;
use crate::agent::AgentSection;

/// One key of `agent.config`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    about: &'static str,
    kind: SettingKind,
    default: Option<&'static str>,
    pub(super) flag: Option<Flag>,
    /// Whether the log lists it among the sampling parameters.
    pub(super) is_parameter: bool,
    /// An example, for a required setting.
    example: Option<&'static str>,
    /// The folder of Markdown files in which the value is defined.
    pub(super) definitions: Option<&'static str>,
}

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingKind {
    /// Text of any length.
    Text,
    /// Text with a maximum number of characters.
    TextUpTo(usize),
    /// An integer of at least 1.
    Count,
    /// A number from 0 to this maximum.
    Number(Option<f64>),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A model, by its name or as `maker/name` for LiteLLM.
    LiteLlmModel,
    /// A file next to the test case.
    File,
    /// A list of texts.
    Words,
    /// Texts by name.
    Variables,
}

/// How a value becomes arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flag {
    /// The flag, then the value.
    Value(&'static str),
    /// The flag, then `@` and the value.
    AtFile(&'static str),
    /// The flag, `=` and the values with commas between them.
    List(&'static str),
    /// The flag alone, if the value is `false`.
    WhenFalse(&'static str),
}

impl Setting {
    pub(super) const fn new(key: &'static str, kind: SettingKind, about: &'static str) -> Setting {
        Setting {
            key,
            about,
            kind,
            default: None,
            flag: None,
            is_parameter: false,
            example: None,
            definitions: None,
        }
    }

    /// The same, with values that Markdown files in `folder` define.
    pub(super) const fn defined_in(self, folder: &'static str) -> Setting {
        Setting {
            definitions: Some(folder),
            ..self
        }
    }

    /// The same, passed as the value of `flag`.
    pub(super) const fn flag(self, flag: &'static str) -> Setting {
        self.passed(Flag::Value(flag))
    }

    /// The same, passed in this way.
    pub(super) const fn passed(mut self, flag: Flag) -> Setting {
        self.flag = Some(flag);
        self
    }

    /// The same, listed among the sampling parameters in the log.
    pub(super) const fn parameter(mut self) -> Setting {
        self.is_parameter = true;
        self
    }

    /// The same, with a default.
    pub(super) const fn or(mut self, default: &'static str) -> Setting {
        self.default = Some(default);
        self
    }

    /// The same, but required. `example` is for the hint.
    pub(super) const fn required(mut self, example: &'static str) -> Setting {
        self.example = Some(example);
        self
    }

    fn read(&self, section: &AgentSection<'_>, node: &Node) -> Result<Json, Fault> {
        let Setting { key, .. } = self;
        let fault = |message: String| Err(Fault::new(node.span, message));
        match self.kind {
            SettingKind::Text => value::<String>(node),
            SettingKind::TextUpTo(most) => match node.as_str() {
                Some(text) if text.chars().count() > most => {
                    fault(format!("`{key}` is limited to {most} characters"))
                }
                _ => value::<String>(node),
            },
            SettingKind::Count => match value::<u32>(node)? {
                zero if zero == 0 => fault(format!("`{key}` must be at least 1")),
                count => Ok(count),
            },
            SettingKind::Number(most) => {
                let number = value::<f64>(node)?;
                let range = 0.0..=most.unwrap_or(f64::MAX);
                match (range.contains(&number.as_f64().unwrap_or(-1.0)), most) {
                    (true, _) => Ok(number),
                    (false, Some(most)) => fault(format!("`{key}` must be from 0 to {most}")),
                    (false, None) => fault(format!("`{key}` must be at least 0")),
                }
            }
            SettingKind::Switch => value::<bool>(node),
            SettingKind::OneOf(words) => match node.as_str() {
                Some(word) if !words.contains(&word) => {
                    Err(unknown_name(node.span, "value", word, words))
                }
                _ => value::<String>(node),
            },
            SettingKind::LiteLlmModel => {
                let model: String = node.read()?;
                Ok(json!(model_name::litellm(&model)))
            }
            SettingKind::File => {
                let path: String = node.read()?;
                let file = beside(section, key, &path)?;
                Ok(json!(file))
            }
            SettingKind::Words => value::<Vec<String>>(node),
            SettingKind::Variables => value::<BTreeMap<String, String>>(node),
        }
    }

    fn schema(&self) -> Json {
        let strings = json!({ "type": "string" });
        let mut schema = match self.kind {
            SettingKind::Text | SettingKind::LiteLlmModel | SettingKind::File => strings,
            SettingKind::TextUpTo(most) => json!({ "type": "string", "maxLength": most }),
            SettingKind::Count => json!({ "type": "integer", "minimum": 1 }),
            SettingKind::Number(None) => json!({ "type": "number", "minimum": 0 }),
            SettingKind::Number(Some(most)) => {
                json!({ "type": "number", "minimum": 0, "maximum": most })
            }
            SettingKind::Switch => json!({ "type": "boolean" }),
            SettingKind::OneOf(words) => json!({ "type": "string", "enum": words }),
            SettingKind::Words => json!({ "type": "array", "items": strings }),
            SettingKind::Variables => json!({ "type": "object", "additionalProperties": strings }),
        };
        schema["description"] = json!(self.about);
        if let Some(default) = self.default {
            schema["default"] = json!(default);
        }
        schema
    }
}

fn value<T: Serialize + DeserializeOwned>(node: &Node) -> Result<Json, Fault> {
    node.read::<Option<T>>().map(|value| json!(value))
}

/// The file of `agent.config.KEY`, which must be next to the test case.
pub(super) fn beside(
    section: &AgentSection<'_>,
    key: &str,
    path: &str,
) -> Result<camino::Utf8PathBuf, Fault> {
    named::file_beside(section.folder, path).map_err(|problem| {
        let message = format!("invalid {key} `{path}`: {problem}");
        let hint = "use a file in the folder of the test case";
        section.config.fault(key, message).with_hint(hint)
    })
}

/// The settings of all CLI agents.
const COMMON: &[Setting] = &[
    Setting::new(
        "prompt",
        SettingKind::TextUpTo(1_000_000),
        "The prompt: this or `prompt_file`.",
    ),
    Setting::new(
        "prompt_file",
        SettingKind::TextUpTo(500),
        "A file with the prompt, next to the test case or in the repo.",
    ),
    Setting::new(
        "args",
        SettingKind::Words,
        "Additional arguments of the CLI.",
    ),
    Setting::new(
        "env",
        SettingKind::Variables,
        "Additional environment variables of the CLI.",
    ),
];

/// The values of an agent's settings.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Json>);

impl Values {
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub(super) fn set(&mut self, key: &'static str, value: Json) {
        self.0.insert(key, value);
    }

    /// Removes and returns a list or a map; an empty one if it is missing.
    pub(super) fn take<T: DeserializeOwned + Default>(&mut self, key: &str) -> T {
        let value = self.0.remove(key).unwrap_or_default();
        serde_json::from_value(value).unwrap_or_default()
    }
}

/// Reads `agent.config` by these rows. Reports all faults, not only the first.
pub(super) fn read(
    rows: &'static [Setting],
    section: &AgentSection<'_>,
) -> Result<Values, Vec<Fault>> {
    let Value::Map(entries) = &section.config.value else {
        let message = format!("expected a map, found {}", section.config.value);
        return Err(vec![Fault::new(section.config.span, message)]);
    };
    let all = || COMMON.iter().chain(rows);
    let known: Vec<&str> = all().map(|row| row.key).collect();
    let (mut values, mut faults) = (Values::default(), Vec::new());
    for row in all() {
        if let Some(default) = row.default {
            values.set(row.key, json!(default));
        }
    }
    for (span, key, node) in entries {
        let Some(row) = all().find(|row| row.key == key) else {
            let fault = unknown_name(*span, "key", key, &known);
            faults.push(fault.with_kind(FaultKind::UnknownKey(key.clone())));
            continue;
        };
        match row.read(section, node) {
            Ok(value) => values.set(row.key, value),
            Err(mut fault) => {
                // A key without a value has no position of its own.
                if fault.span.is_empty() {
                    fault.span = *span;
                }
                faults.push(fault);
            }
        }
    }
    for (key, outer) in [("agent_name", section.agent_name), ("model", section.model)] {
        match one_of(section, key, outer, values.text(key)) {
            Ok(Some(value)) => {
                let row = rows.iter().find(|row| row.key == key);
                if let Some(row) = row {
                    values.set(row.key, json!(value));
                }
            }
            Ok(None) => {}
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        Ok(values)
    } else {
        Err(faults)
    }
}

/// Faults of missing required settings.
pub(super) fn missing(
    rows: &[Setting],
    values: &Values,
    title: &str,
    section: &AgentSection<'_>,
) -> Vec<Fault> {
    let required = rows.iter().filter_map(|row| Some((row.key, row.example?)));
    required
        .filter(|(key, _)| values.get(key).is_none())
        .map(|(key, example)| {
            let message = format!("{title} requires `{key}`");
            let hint = format!("add one, such as `{example}`");
            Fault::new(section.node.span, message).with_hint(hint)
        })
        .collect()
}

/// A setting that can be next to `type` or in `config`: the one that is set.
pub(super) fn one_of(
    section: &AgentSection<'_>,
    key: &str,
    outer: Option<&str>,
    inner: Option<&str>,
) -> Result<Option<String>, Fault> {
    match (outer, inner) {
        (Some(outer), Some(inner)) if outer != inner => {
            let message =
                format!("`agent.{key}` is `{outer}` but `agent.config.{key}` is `{inner}`");
            Err(section
                .config
                .fault(key, message)
                .with_hint("remove one of them"))
        }
        (outer, inner) => Ok(inner.or(outer).map(str::to_owned)),
    }
}

/// The JSON Schema of `agent.config` for these rows.
pub(super) fn schema(rows: &[Setting]) -> schemars::Schema {
    let properties = COMMON.iter().chain(rows);
    let properties: Map<String, Json> = properties
        .map(|row| (row.key.to_owned(), row.schema()))
        .collect();
    schemars::json_schema!({
        "type": "object",
        "description": "`agent.config`.",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Keys of other agents, with advice: changing `agent.type` alone never drops a setting silently.
const ELSEWHERE: &[(&str, &str)] = &[
    ("agent_name", "remove it"),
    ("agents", "remove it"),
    (
        "allowed_tools",
        "remove it: all tools are allowed in the trial's workspace",
    ),
    ("append_system_prompt", "add it to the prompt"),
    ("include_partial_messages", "remove it"),
    (
        "inherit",
        "remove it: this agent always has its own HOME; set variables in `env`",
    ),
    ("max_tokens", "remove it"),
    (
        "max_turns",
        "use the test case's `timeout` and `idle_timeout`",
    ),
    ("mcp_config", "remove it"),
    ("message_timeout", "use the test case's `idle_timeout`"),
    ("output_format", "remove it"),
    (
        "permission_mode",
        "remove it: everything is allowed in the trial's workspace",
    ),
    (
        "permission_policy",
        "remove it: everything is allowed in the trial's workspace",
    ),
    (
        "prompt_delivery",
        "remove it: prompts of any length are supported",
    ),
    ("pty_mode", "remove it"),
    ("system_prompt", "add it to the prompt"),
    ("temperature", "remove it"),
    ("transport", "remove it"),
];

/// Faults of options of other agents. `instead` is the agent's own advice.
pub(super) fn refused(
    rows: &[Setting],
    instead: &[(&str, &str)],
    title: &str,
    section: &AgentSection<'_>,
) -> Vec<Fault> {
    let foreign = ELSEWHERE
        .iter()
        .filter(|(key, _)| rows.iter().all(|row| row.key != *key));
    let written = foreign.filter_map(|(key, usual)| {
        let span = match section.config.get(key) {
            Some(_) => section.config.key_span_of(key),
            None if *key == "agent_name" && section.agent_name.is_some() => {
                section.node.key_span_of(key)
            }
            None => return None,
        };
        let own = instead.iter().find(|(name, _)| name == key);
        let hint = own.map_or(*usual, |(_, hint)| hint);
        let message = format!("{title} has no option for `{key}`");
        Some(Fault::new(span, message).with_hint(hint))
    });
    written.collect()
}
