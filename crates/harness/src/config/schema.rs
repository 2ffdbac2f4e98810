//! The JSON Schema of test cases and suites, for editors: the keys of `agent.config` depend on
//! `agent.type`.

use proctor_agents::agent::Adapter;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{agent::AUTO, eval::EvalCase, suite::Suite, testcase::TestCase};

/// The schema of configuration files: a suite if the file names agents or tasks, otherwise a test
/// case.
pub fn schema_for_config(adapters: &[&dyn Adapter]) -> Value {
    let mut case = schema_for_testcase(adapters);
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut suite = generator.into_root_schema_for::<Suite>().to_value();
    drop_null(&mut suite);
    suite["properties"]["agents"]["items"] = json!({ "$ref": "#/$defs/SuiteAgent" });
    let mut defs = case["$defs"].take();
    let mut agent = defs["Agent"].clone();
    agent["properties"]["name"] = json!({
        "description": "The agent's name in results and filters. Default: its type.",
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    });
    add_treatment(&mut agent);
    let mut variant = agent.clone();
    if let Value::Object(variant) = &mut variant {
        // A variant has the type and the settings of its agent.
        variant.retain(|key, _| !matches!(key.as_str(), "oneOf" | "allOf"));
        variant.insert("required".to_owned(), json!(["name"]));
    }
    agent["properties"]["variants"] = json!({
        "description": "Agents that run instead of this one: each has its keys, and changes some of them.",
        "type": "array",
        "minItems": 1,
        "items": { "$ref": "#/$defs/AgentVariant" },
    });
    defs["AgentVariant"] = variant;
    defs["SuiteAgent"] = agent;
    for part in [&mut case, &mut suite] {
        if let Value::Object(part) = part {
            part.remove("$schema");
            let own = part
                .remove("$defs")
                .and_then(|defs| defs.as_object().cloned());
            if let Value::Object(defs) = &mut defs {
                defs.extend(own.unwrap_or_default());
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Proctor test case or suite",
        "if": { "anyOf": [{ "required": ["agents"] }, { "required": ["orchestrators"] }, { "required": ["tasks"] }] },
        "then": suite,
        "else": case,
        "$defs": defs,
    })
}

/// Adds the keys of an agent's treatment.
fn add_treatment(agent: &mut Value) {
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let keys = &mut agent["properties"];
    keys["files"] = json!({
        "description": "Files of the workspace, or below `~/` of HOME: a file or folder relative to the suite, `git:REVISION:PATH`, `{text: …}`, or null to remove it.",
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "text": { "type": "string" } },
                    "required": ["text"],
                    "additionalProperties": false,
                },
                { "type": "null" },
            ],
        },
    });
    keys["skills"] = json!({
        "description": "Folders of skills, relative to the suite.",
        "type": "array",
        "items": { "type": "string" },
    });
    keys["prompt_prefix"] = text("A paragraph before the task's prompt.");
    keys["prompt_suffix"] = text("A paragraph after the task's prompt.");
    keys["prompt_template"] = text("A text with `{prompt}` in the place of the task's prompt.");
    keys["ref"] = text("The revision of the task's repository that the agent starts from.");
}

/// The schema of files for `proctor eval`.
pub fn schema_for_eval() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<EvalCase>().to_value();
    schema["title"] = json!("Proctor evaluation of existing work");
    let entry = schema["properties"]["evaluators"]["items"].take();
    schema["properties"]["evaluators"]["items"] = json!({
        "anyOf": [{ "type": "string" }, entry],
    });
    drop_null(&mut schema);
    schema
}

/// The schema of a test case for these adapters.
fn schema_for_testcase(adapters: &[&dyn Adapter]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let configs: Vec<(&str, schemars::Schema)> = adapters
        .iter()
        .map(|adapter| (adapter.name(), adapter.schema(&mut generator)))
        .collect();
    let mut schema = generator.into_root_schema_for::<TestCase>().to_value();
    schema["title"] = json!("Proctor test case");
    let agent = &mut schema["$defs"]["Agent"];
    let names = configs.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names.chain([AUTO]).collect();
    agent["properties"]["type"] = json!({
        "description": "The adapter; `auto` is the first installed one.",
        "type": "string",
        "enum": names,
    });
    agent["oneOf"] = json!([{ "required": ["type"] }, { "required": ["backend"] }]);
    agent["allOf"] = configs
        .into_iter()
        .map(|(name, config)| choice(name, &config))
        .collect();
    // A plain name is short for `{name: …}`.
    let entry = schema["properties"]["evaluators"]["items"].take();
    schema["properties"]["evaluators"]["items"] = json!({
        "anyOf": [{ "type": "string" }, entry],
    });
    drop_null(&mut schema);
    schema
}

fn choice(name: &str, config: &schemars::Schema) -> Value {
    let mut condition = json!({
        "properties": { "type": { "const": name } },
        "required": ["type"],
    });
    if name == "claude-code" {
        let backend = json!({
            "properties": { "backend": { "const": "claude" } },
            "required": ["backend"],
        });
        condition = json!({ "anyOf": [condition, backend] });
    }
    json!({ "if": condition, "then": { "properties": { "config": config } } })
}

/// Removes `null` from the types of optional keys: a key without a value is refused.
fn drop_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    object["type"] = only.clone();
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| *choice != json!({ "type": "null" }));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    object.extend(only);
                }
            }
            object.values_mut().for_each(drop_null);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proctor_document::Fault;
    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use super::*;
    use proctor_agents::agent::{Agent, AgentSection};

    struct Fake;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "used for its schema")]
    struct FakeConfig {
        prompt: Option<String>,
    }

    impl Adapter for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn summary(&self) -> &'static str {
            "for tests"
        }

        fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
            generator.subschema_for::<FakeConfig>()
        }

        fn configure(&self, _: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
            Err(Vec::new())
        }
    }

    #[test]
    fn required_and_unknown_keys_are_in_the_schema() {
        let schema = schema_for_testcase(&[&Fake]);
        let required = json!(["name", "description", "repo", "agent", "evaluators"]);
        assert_eq!(schema["required"], required);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["name"]["maxLength"], 200);
        assert_eq!(schema["properties"]["branch"]["type"], "string");
        assert_eq!(schema["properties"]["evaluators"]["minItems"], 1);
    }

    #[test]
    fn schema_of_agent_config_depends_on_its_type() {
        let schema = schema_for_testcase(&[&Fake]);
        let agent = &schema["$defs"]["Agent"];
        assert_eq!(agent["properties"]["type"]["enum"], json!(["fake", "auto"]));
        let choice = json!({
            "if": { "properties": { "type": { "const": "fake" } }, "required": ["type"] },
            "then": { "properties": { "config": { "$ref": "#/$defs/FakeConfig" } } },
        });
        assert_eq!(agent["allOf"], json!([choice]));
        let prompt = &schema["$defs"]["FakeConfig"]["properties"]["prompt"];
        assert_eq!(prompt["type"], "string");
        assert_eq!(agent["properties"]["backend"]["$ref"], "#/$defs/Backend");
    }
}
