//! Custom agents of Claude Code: written in the test case, or as Markdown files with a header.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{settings::Definition, verdict::NAMES};
use crate::agent::LaunchError;

/// Keys whose values are lists, which a header may write as one line with commas.
const LISTS: &[&str] = &["tools", "disallowedTools", "skills"];

/// Every definition there is, as the CLI takes it; one in the test case wins over a file of the same name.
pub(super) fn collect(
    written: &BTreeMap<String, Definition>,
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
        "define it under `agent.config.agents`, or in `.claude/agents/` beside the test case or in the repo".to_owned()
    } else {
        format!("the known ones are: {}", known.join(", "))
    };
    NAMES
        .invalid(format!("there is no agent `{name}`"))
        .with_hint(hint)
}

/// A definition with all keys of its header: the CLI ignores those that it does not know.
fn parse(name: &str, markdown: &str) -> Result<Value, LaunchError> {
    // Editors on Windows begin with a mark and end lines in their own way.
    let markdown = markdown
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n");
    let (header, prompt) = split(&markdown);
    let mut keys = read(header).map_err(|error| {
        NAMES.invalid(format!("the header of .claude/agents/{name}.md: {error}"))
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

/// The keys of a header. The CLI also accepts values that are not YAML, such as `description: a: b`.
fn read(header: &str) -> Result<Map<String, Value>, serde_saphyr::Error> {
    let yaml = |text: &str| serde_saphyr::from_str::<Option<Map<String, Value>>>(text);
    let keys = yaml(header).or_else(|error| {
        let lines: Vec<String> = header.lines().map(quoted).collect();
        yaml(&lines.join("\n")).map_err(|_| error)
    })?;
    Ok(keys.unwrap_or_default())
}

/// A line `key: value` with the value in quotes, if it is not YAML by itself.
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

/// The text between the two `---` lines, and what follows.
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
    fn a_markdown_definition_has_a_header_and_a_prompt() {
        let text = "---\nname: zed\ndescription: Reviews\ntools: Read, Grep\nmodel: inherit\ncolor: red\n---\n\nYou are Zed.\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(
            definition,
            json!({"description": "Reviews", "prompt": "You are Zed.", "tools": ["Read", "Grep"], "color": "red"})
        );
    }

    #[test]
    fn every_header_that_the_cli_accepts_is_read_and_no_key_is_dropped() {
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
    fn a_definition_written_on_windows_is_read_the_same() {
        let text = "\u{feff}---\r\nname: zed\r\ndescription: Reviews\r\n---\r\n\r\nYou are Zed.\r\nGo.\r\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(
            definition,
            json!({"description": "Reviews", "prompt": "You are Zed.\nGo."})
        );
    }

    #[test]
    fn without_a_header_the_whole_text_is_the_prompt() {
        let definition = parse("zed", "You are Zed.").unwrap();
        assert_eq!(definition["prompt"], "You are Zed.");
    }
}
