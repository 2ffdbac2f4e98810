//! Custom agents of Claude Code: in the test case, or Markdown files with a header.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{settings::AgentDefinition, verdict::NAMES};
use crate::agent::LaunchError;

/// Keys with list values, which a header can write as one line with commas.
const LISTS: &[&str] = &["tools", "disallowedTools", "skills"];

/// All definitions in the CLI's format. The test case takes precedence over a file of the same
/// name.
pub(super) fn collect(
    written: &BTreeMap<String, AgentDefinition>,
    found: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, LaunchError> {
    let mut all = BTreeMap::new();
    for (name, markdown) in found {
        all.insert(name.clone(), parse(name, markdown)?);
    }
    let written = written.iter();
    all.extend(written.map(|(name, definition)| (name.clone(), json!(definition))));
    Ok(all)
}

pub(super) fn unknown(name: &str, known: &BTreeMap<String, Value>) -> LaunchError {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let hint = if known.is_empty() {
        "define it under `agent.config.agents`, or in `.claude/agents/` next to the test case or in the repo".to_owned()
    } else {
        format!("the known ones are: {}", known.join(", "))
    };
    NAMES
        .invalid(format!("unknown agent `{name}`"))
        .with_hint(hint)
}

/// Parses a definition with all keys of its header: the CLI ignores unknown ones.
fn parse(name: &str, markdown: &str) -> Result<Value, LaunchError> {
    // Windows editors add a byte order mark and CRLF line ends.
    let markdown = markdown
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n");
    let (header, prompt) = split(&markdown);
    let mut keys = read(header).map_err(|error| {
        NAMES.invalid(format!(
            "invalid header of .claude/agents/{name}.md: {error}"
        ))
    })?;
    keys.remove("name");
    keys.retain(|_, value| !value.is_null());
    for key in LISTS {
        if let Some(Value::String(words)) = keys.get(*key) {
            let words: Vec<&str> = words.split(',').map(str::trim).collect();
            keys[*key] = json!(words);
        }
    }
    if keys.get("model").is_some_and(|model| model == "inherit") {
        keys.remove("model");
    }
    keys.entry("description").or_insert(json!(""));
    keys.insert("prompt".to_owned(), json!(prompt.trim()));
    Ok(Value::Object(keys))
}

/// Parses the keys of a header. The CLI also accepts values that are not YAML, such as
/// `description: a: b`.
fn read(header: &str) -> Result<Map<String, Value>, serde_saphyr::Error> {
    let yaml = |text: &str| serde_saphyr::from_str::<Option<Map<String, Value>>>(text);
    let keys = yaml(header).or_else(|error| {
        let lines: Vec<String> = header.lines().map(quoted).collect();
        yaml(&lines.join("\n")).map_err(|_| error)
    })?;
    Ok(keys.unwrap_or_default())
}

/// A line `key: value` with the value in quotes, if it is not valid YAML.
fn quoted(line: &str) -> String {
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_');
    match line.split_once(": ") {
        Some((key, value))
            if is_key(key) && serde_saphyr::from_str::<Map<String, Value>>(line).is_err() =>
        {
            format!("{key}: {}", json!(value.trim()))
        }
        _ => line.to_owned(),
    }
}

/// The text between the two `---` lines, and the remaining text.
fn split(markdown: &str) -> (&str, &str) {
    markdown
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .map_or(("{}", markdown), |(header, body)| {
            (header, body.trim_start_matches('-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_definition_has_a_header_and_a_prompt() {
        let text = "---\nname: zed\ndescription: Reviews\ntools: Read, Grep\nmodel: inherit\ncolor: red\n---\n\nYou are Zed.\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(
            definition,
            json!({"description": "Reviews", "prompt": "You are Zed.", "tools": ["Read", "Grep"], "color": "red"})
        );
    }

    #[test]
    fn all_headers_of_the_cli_are_read_with_all_keys() {
        let text = "---\ndescription: When: always # really\ntools:\n  - Read\n  - Grep\npermissionMode: plan\nskills: one, two\nhooks:\n  Stop:\n    - hooks: []\nmaxTurns: 3\n---\nGo.";
        assert_eq!(
            parse("zed", text).unwrap(),
            json!({
                "description": "When: always # really",
                "prompt": "Go.",
                "tools": ["Read", "Grep"],
                "permissionMode": "plan",
                "skills": ["one", "two"],
                "hooks": {"Stop": [{"hooks": []}]},
                "maxTurns": 3,
            })
        );
        let error = parse("zed", "---\n[\n---\nGo.").unwrap_err();
        assert!(error.message.contains("zed.md"), "{error}");
    }

    #[test]
    fn definition_with_windows_line_ends_is_read() {
        let text = "\u{feff}---\r\nname: zed\r\ndescription: Reviews\r\n---\r\n\r\nYou are Zed.\r\nGo.\r\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(
            definition,
            json!({"description": "Reviews", "prompt": "You are Zed.\nGo."})
        );
    }

    #[test]
    fn definition_without_a_header_is_the_prompt() {
        let definition = parse("zed", "You are Zed.").unwrap();
        assert_eq!(definition["prompt"], "You are Zed.");
    }
}
