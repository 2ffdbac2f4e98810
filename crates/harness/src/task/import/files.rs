//! Files that all imported tasks have.

use std::fmt::Write;

use camino::Utf8Path;
use proctor_agents::agent::PromptSource;
use serde_json::{Value, json};

use super::super::{Asks, Task};
use crate::evaluate::make_executable;

/// A table of `task.toml`.
pub(super) type Table<'a> = (&'a str, Vec<(&'a str, Value)>);

/// Writes `instruction.md`.
pub(super) fn write_prompt(task: &Task, folder: &Utf8Path) -> std::io::Result<()> {
    let prompt = match &task.asks {
        Asks::Prompt(PromptSource::Text(prompt)) => prompt.as_str(),
        _ => "",
    };
    fs_err::write(folder.join("instruction.md"), prompt)
}

/// Writes `task.toml`. Values that are null are left out.
pub(super) fn write_manifest(folder: &Utf8Path, tables: &[Table<'_>]) -> std::io::Result<()> {
    let mut text = String::new();
    for (name, keys) in tables {
        if !name.is_empty() {
            let _ = write!(text, "\n[{name}]\n");
        }
        for (key, value) in keys.iter().filter(|(_, value)| !value.is_null()) {
            let _ = writeln!(text, "{key} = {}", toml_value(value));
        }
    }
    fs_err::write(folder.join("task.toml"), text)
}

/// A value of TOML. JSON strings are valid in TOML.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(key, value)| format!("{} = {}", json!(key), toml_value(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items = items.iter().map(toml_value);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Writes an executable script, and its directory.
pub(super) fn write_script(path: &Utf8Path, text: &str) -> std::io::Result<()> {
    fs_err::create_dir_all(path.parent().unwrap_or(path))?;
    fs_err::write(path, text)?;
    make_executable(path)
}
