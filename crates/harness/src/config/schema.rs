//! The JSON Schema of a test case, for editors: what `agent.config` may hold follows from
//! `agent.type`.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::testcase::TestCase;
use crate::agent::Adapter;

/// The schema of a test case for these adapters.
pub fn schema_for_testcase(adapters: &[&dyn Adapter]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let configs: Vec<(&str, schemars::Schema)> = adapters
        .iter()
        .map(|adapter| (adapter.name(), adapter.schema(&mut generator)))
        .collect();
    let mut schema = generator.into_root_schema_for::<TestCase>().to_value();
    schema["title"] = json!("Proctor test case");
    let agent = &mut schema["$defs"]["Agent"];
    let names: Vec<&str> = configs.iter().map(|(name, _)| *name).collect();
    agent["properties"]["type"] = json!({
        "description": "The adapter.",
        "type": "string",
        "enum": names,
    });
    agent["oneOf"] = json!([{ "required": ["type"] }, { "required": ["backend"] }]);
    agent["allOf"] = configs
        .into_iter()
        .map(|(name, config)| choice(name, &config))
        .collect();
    // A bare name stands for `{name: …}`.
    let entry = schema["properties"]["evaluators"]["items"].take();
    schema["properties"]["evaluators"]["items"] = json!({
        "anyOf": [{ "type": "string" }, entry],
    });
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
