//! The settings of a variant, from `KEY=VALUE` on the command line to an agent of a suite.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::nearest;
use serde_json::{Value, json};

use crate::error::AbError;

/// Keys of an agent that take a text as it is.
const TEXT_KEYS: [&str; 6] = [
    "model",
    "version",
    "ref",
    "prompt_prefix",
    "prompt_suffix",
    "prompt_template",
];

/// All keys that are not paths.
const KEYS: [&str; 9] = [
    "model",
    "version",
    "ref",
    "prompt_prefix",
    "prompt_suffix",
    "prompt_template",
    "agent",
    "skill",
    "mcp",
];

/// The directories that paths are relative to.
pub(crate) struct Places<'a> {
    /// The user's working directory.
    pub(crate) cwd: &'a Utf8Path,
    /// The directory of the suite.
    pub(crate) suite: &'a Utf8Path,
}

impl Places<'_> {
    /// A path of the command line, as a suite has to write it.
    pub(crate) fn in_suite(&self, path: &str) -> Utf8PathBuf {
        let path = self.cwd.join(path.trim_start_matches("./"));
        match path.strip_prefix(self.suite) {
            Ok(below) => below.to_owned(),
            Err(_) => path,
        }
    }

    /// The same for a path that must exist.
    fn existing(&self, path: &str) -> Result<Value, Utf8PathBuf> {
        let place = self.cwd.join(path.trim_start_matches("./"));
        if place.exists() {
            Ok(json!(literal(self.in_suite(path).as_str())))
        } else {
            Err(place)
        }
    }
}

/// The path of a file in the workspace: the given one, or else that of the file itself.
pub(crate) fn place_of(given: Option<&str>, file: &Utf8Path) -> String {
    let own = file.as_str().trim_start_matches("./");
    let is_below = !file.is_absolute() && !own.split(['/', '\\']).any(|part| part == "..");
    let name = file.file_name().unwrap_or(own);
    given
        .unwrap_or(if is_below { own } else { name })
        .to_owned()
}

/// An agent like `base` with another name and these settings.
pub(super) fn variant(
    base: &Value,
    name: &str,
    settings: &[String],
    places: &Places<'_>,
) -> Result<Value, AbError> {
    let mut agent = base.clone();
    agent["name"] = json!(name);
    for setting in settings {
        let Some((key, value)) = setting.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(AbError::Setting {
                setting: setting.clone(),
            });
        };
        set(&mut agent, key, value, places).map_err(|path| AbError::File {
            setting: setting.clone(),
            path,
            meant: nearest(key, &KEYS).filter(|it| *it != key),
        })?;
    }
    Ok(agent)
}

/// Removes files from the agent's workspace.
pub(super) fn remove_files(agent: &mut Value, paths: &[String]) {
    for path in paths {
        agent["files"][path] = Value::Null;
    }
}

/// Sets a key of the agent. The error is the path of a file that does not exist.
fn set(agent: &mut Value, key: &str, value: &str, places: &Places<'_>) -> Result<(), Utf8PathBuf> {
    match key {
        "agent" => agent["type"] = json!(literal(value)),
        "skill" => push(&mut agent["skills"], places.existing(value)?),
        "mcp" => agent["config"]["mcp_config"] = places.existing(value)?,
        key if TEXT_KEYS.contains(&key) => agent[key] = json!(literal(value)),
        key => match key.split_once('.') {
            Some(("env", name)) => agent["config"]["env"][name] = json!(literal(value)),
            Some(("config", name)) => agent["config"][name] = scalar(value),
            _ => agent["files"][key] = file(key, value, places)?,
        },
    }
    Ok(())
}

/// The source of a file: `git:REF`, `git:REF:PATH`, `text:TEXT`, or a path on this machine. The
/// suite has the text of a file, so that it does not matter where the file is.
fn file(path: &str, value: &str, places: &Places<'_>) -> Result<Value, Utf8PathBuf> {
    if let Some(text) = value.strip_prefix("text:") {
        return Ok(json!({"text": literal(text)}));
    }
    match value.strip_prefix("git:") {
        Some(revision) if revision.contains(':') => Ok(json!(literal(value))),
        Some(revision) => Ok(json!(literal(&format!("git:{revision}:{path}")))),
        None => match fs_err::read_to_string(places.cwd.join(value)) {
            Ok(text) => Ok(json!({"text": literal(&text)})),
            Err(_) => places.existing(value),
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
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_keys_of_the_agent() {
        let base = json!({"type": "claude-code"});
        let dir = tempfile::tempdir().unwrap();
        let suite = Utf8Path::from_path(dir.path()).unwrap();
        let cwd = suite.join("w");
        for folder in ["s", "docs"] {
            fs_err::create_dir_all(cwd.join(folder)).unwrap();
        }
        fs_err::write(cwd.join("m.json"), "{}").unwrap();
        fs_err::write(cwd.join("new.md"), "${x}").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let elsewhere = Utf8Path::from_path(elsewhere.path()).unwrap();
        let places = Places { cwd: &cwd, suite };
        let outside = format!("skill={elsewhere}");
        for (setting, expected) in [
            ("model=opus", json!({"model": "opus"})),
            ("version=2.1.30", json!({"version": "2.1.30"})),
            ("agent=codex", json!({"type": "codex"})),
            ("ref=feature", json!({"ref": "feature"})),
            ("prompt_prefix=a=b", json!({"prompt_prefix": "a=b"})),
            ("prompt_suffix=${x}", json!({"prompt_suffix": "$${x}"})),
            ("skill=./s", json!({"skills": ["w/s"]})),
            (outside.as_str(), json!({"skills": [elsewhere]})),
            ("mcp=m.json", json!({"config": {"mcp_config": "w/m.json"}})),
            ("env.A=1", json!({"config": {"env": {"A": "1"}}})),
            ("config.max_turns=3", json!({"config": {"max_turns": 3}})),
            ("config.effort=high", json!({"config": {"effort": "high"}})),
            (
                "CLAUDE.md=new.md",
                json!({"files": {"CLAUDE.md": {"text": "$${x}"}}}),
            ),
            ("docs=./docs", json!({"files": {"docs": "w/docs"}})),
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

    #[test]
    fn missing_file_is_named_with_the_key_that_was_meant() {
        let places = Places {
            cwd: "/nowhere".into(),
            suite: "/nowhere".into(),
        };
        for (setting, expected) in [
            ("CLAUDE.md=new.md", None),
            ("modle=opus", Some("model")),
            ("skill=./s", Some("skill")),
        ] {
            let made = variant(&json!({}), "b", &[setting.to_owned()], &places);
            let Err(AbError::File { meant, path, .. }) = made else {
                panic!("{setting}");
            };
            assert!(path.starts_with("/nowhere"), "{path}");
            let expected = expected.filter(|it| !setting.starts_with(it));
            assert_eq!(meant, expected, "{setting}");
        }
    }
}
