//! The file reference, `docs/reference/files/`, from the schemas in `docs/schema`. `BLESS=1` writes it.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::{read, root};

/// Schema, title and the guide to the file.
const FILES: [(&str, &str, &str); 6] = [
    (
        "suite",
        "Test cases and suites",
        "[Suites](../../suites.md) and [test cases](../../test-cases.md)",
    ),
    ("eval", "Evaluation files", "[Judges](../../judges.md)"),
    ("record", "record.json", "[The record](../../record.md)"),
    ("results", "results.json", "[The record](../../record.md)"),
    ("log", "youbencha-log.json", "[The record](../../record.md)"),
    ("trial", "Trial specs", "[Clusters](../../clusters.md)"),
];

fn page(name: &str, title: &str, guide: &str) -> String {
    let schema = read(&root().join(format!("docs/schema/{name}.json")));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut text = format!(
        "# {title}\n\nAll keys, from the [JSON Schema](../../schema/{name}.json) that `proctor schema {name}`\nprints. {guide} explain them with examples.\n"
    );
    if schema.get("then").is_some() {
        section(&mut text, "Suite", &schema["then"]);
        section(&mut text, "Test case", &schema["else"]);
    } else {
        section(&mut text, "Top level", &schema);
    }
    let empty = Map::new();
    let parts = schema["$defs"].as_object().unwrap_or(&empty);
    for (name, part) in parts {
        section(&mut text, name, part);
    }
    text
}

/// The section of an object, or of a choice.
fn section(text: &mut String, name: &str, schema: &Value) {
    let _ = write!(text, "\n## {name}\n");
    if let Some(about) = schema["description"].as_str() {
        let _ = write!(text, "\n{}\n", about.replace('\n', " "));
    }
    if let Some(keys) = schema["properties"].as_object().filter(|it| !it.is_empty()) {
        let required = schema["required"].as_array();
        let is_required = |key: &str| required.is_some_and(|it| it.iter().any(|it| it == key));
        text.push_str("\n| key | value | meaning |\n|---|---|---|\n");
        for (key, value) in keys {
            let mark = if is_required(key) { ", required" } else { "" };
            let about = value["description"].as_str().unwrap_or_default();
            let about = about.replace('\n', " ").replace('|', "\\|");
            let _ = writeln!(text, "| `{key}`{mark} | {} | {about} |", kind(value));
        }
    }
    let choices = ["oneOf", "anyOf"]
        .iter()
        .find_map(|it| schema[it].as_array());
    if choices.is_some() || schema.get("enum").is_some() || schema.get("properties").is_none() {
        let _ = write!(text, "\nValue: {}.\n", kind(schema));
    }
}

/// The values that a schema accepts, in short.
fn kind(schema: &Value) -> String {
    if let Some(part) = schema["$ref"].as_str() {
        let part = part.rsplit('/').next().unwrap();
        return format!("[{part}](#{})", part.to_lowercase());
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`").replace('"', "");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|it| format!("`{it}`")).collect();
        return values.join(", ").replace('"', "");
    }
    for word in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[word].as_array() {
            let mut kinds: Vec<String> = choices.iter().map(kind).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    let of = |kind: &str| match kind {
        "array" => format!(
            "list of {}",
            schema.get("items").map_or("any".to_owned(), kind_of)
        ),
        "object" => "map".to_owned(),
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(one) => of(one),
        Value::Array(some) => {
            let some: Vec<String> = some.iter().filter_map(Value::as_str).map(of).collect();
            some.join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn kind_of(schema: &Value) -> String {
    kind(schema)
}

#[test]
fn file_reference_is_current() {
    let folder = root().join("docs/reference/files");
    for (name, title, guide) in FILES {
        let text = page(name, title, guide);
        let path = folder.join(format!("{name}.md"));
        #[expect(
            clippy::disallowed_methods,
            reason = "a switch for people who change the docs"
        )]
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{path} is not current: set BLESS=1 to write it"
        );
    }
}
