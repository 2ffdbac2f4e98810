//! The settings of a variant, from `KEY=VALUE` on the command line to an agent of a suite.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::error::CliError;

/// Keys of an agent that take a text as it is.
const TEXT_KEYS: [&str; 6] = [
    "model",
    "version",
    "ref",
    "prompt_prefix",
    "prompt_suffix",
    "prompt_template",
];

/// The directories that paths are relative to.
pub(super) struct Places<'a> {
    /// The user's working directory.
    pub(super) cwd: &'a Utf8Path,
    /// The directory of the suite.
    pub(super) suite: &'a Utf8Path,
}

impl Places<'_> {
    /// A path of the command line, as a suite has to write it.
    fn in_suite(&self, path: &str) -> Utf8PathBuf {
        let path = self.cwd.join(path.trim_start_matches("./"));
        match path.strip_prefix(self.suite) {
            Ok(below) => below.to_owned(),
            Err(_) => path,
        }
    }
}

/// An agent like `base` with another name and these settings.
pub(super) fn variant(
    base: &Value,
    name: &str,
    settings: &[String],
    places: &Places<'_>,
) -> Result<Value, CliError> {
    let mut agent = base.clone();
    agent["name"] = json!(name);
    for setting in settings {
        let Some((key, value)) = setting.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CliError::InvalidVariant {
                setting: setting.clone(),
            });
        };
        set(&mut agent, key, value, places);
    }
    Ok(agent)
}

/// Removes files from the agent's workspace.
pub(super) fn remove_files(agent: &mut Value, paths: &[String]) {
    for path in paths {
        agent["files"][path] = Value::Null;
    }
}

fn set(agent: &mut Value, key: &str, value: &str, places: &Places<'_>) {
    let path = || json!(literal(places.in_suite(value).as_str()));
    match key {
        "agent" => agent["type"] = json!(literal(value)),
        "skill" => push(&mut agent["skills"], path()),
        "mcp" => agent["config"]["mcp_config"] = path(),
        key if TEXT_KEYS.contains(&key) => agent[key] = json!(literal(value)),
        key => match key.split_once('.') {
            Some(("env", name)) => agent["config"]["env"][name] = json!(literal(value)),
            Some(("config", name)) => agent["config"][name] = scalar(value),
            _ => agent["files"][key] = file(key, value, places),
        },
    }
}

/// The source of a file: `git:REF`, `git:REF:PATH`, `text:TEXT`, or a path on this machine. The
/// suite has the text of a file, so that it does not matter where the file is.
fn file(path: &str, value: &str, places: &Places<'_>) -> Value {
    if let Some(text) = value.strip_prefix("text:") {
        return json!({"text": literal(text)});
    }
    match value.strip_prefix("git:") {
        Some(revision) if revision.contains(':') => json!(literal(value)),
        Some(revision) => json!(literal(&format!("git:{revision}:{path}"))),
        None => match fs_err::read_to_string(places.cwd.join(value)) {
            Ok(text) => json!({"text": literal(&text)}),
            Err(_) => json!(literal(places.in_suite(value).as_str())),
        },
    }
}

/// A number, a switch or a list in JSON, or else a text.
fn scalar(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|_| json!(literal(value)))
}

fn push(list: &mut Value, value: Value) {
    match list {
        Value::Array(items) => items.push(value),
        _ => *list = json!([value]),
    }
}

/// Variables of a suite are replaced; a text of the command line is meant literally.
pub(super) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_keys_of_the_agent() {
        let base = json!({"type": "claude-code"});
        let places = Places {
            cwd: "/suite/w".into(),
            suite: "/suite".into(),
        };
        for (setting, expected) in [
            ("model=opus", json!({"model": "opus"})),
            ("version=2.1.30", json!({"version": "2.1.30"})),
            ("agent=codex", json!({"type": "codex"})),
            ("ref=feature", json!({"ref": "feature"})),
            ("prompt_prefix=a=b", json!({"prompt_prefix": "a=b"})),
            ("prompt_suffix=${x}", json!({"prompt_suffix": "$${x}"})),
            ("skill=./s", json!({"skills": ["w/s"]})),
            ("skill=/x/s", json!({"skills": ["/x/s"]})),
            ("mcp=m.json", json!({"config": {"mcp_config": "w/m.json"}})),
            ("env.A=1", json!({"config": {"env": {"A": "1"}}})),
            ("config.max_turns=3", json!({"config": {"max_turns": 3}})),
            ("config.effort=high", json!({"config": {"effort": "high"}})),
            (
                "CLAUDE.md=new.md",
                json!({"files": {"CLAUDE.md": "w/new.md"}}),
            ),
            (
                "CLAUDE.md=git:main",
                json!({"files": {"CLAUDE.md": "git:main:CLAUDE.md"}}),
            ),
            (
                "docs/A.md=git:v1:B.md",
                json!({"files": {"docs/A.md": "git:v1:B.md"}}),
            ),
            (
                "AGENTS.md=text:Be brief.",
                json!({"files": {"AGENTS.md": {"text": "Be brief."}}}),
            ),
        ] {
            let made = variant(&base, "b", &[setting.to_owned()], &places).unwrap();
            let mut whole = json!({"type": "claude-code", "name": "b"});
            let (Value::Object(whole_map), Value::Object(expected)) = (&mut whole, expected) else {
                unreachable!("both are maps");
            };
            whole_map.extend(expected);
            assert_eq!(made, whole, "{setting}");
        }
    }

    #[test]
    fn a_setting_needs_a_key_and_a_value() {
        let places = Places {
            cwd: "/w".into(),
            suite: "/w".into(),
        };
        for setting in ["CLAUDE.md", "=x", ""] {
            let made = variant(&json!({}), "b", &[setting.to_owned()], &places);
            assert!(made.is_err(), "{setting}");
        }
    }
}
