//! `proctor config`: shows and changes the project settings.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::{Fault, Format};
use proctor_harness::config::Settings;
use proctor_sandbox::host::Host;
use serde_json::{Map, Value};

use crate::{
    args::{ConfigCommand, Level},
    error::{CliError, Exit},
    host,
    personality::Personality,
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/youbencharc.yaml");
/// The file that is written in a directory without settings.
const FILE: &str = ".youbencharc";

/// Settings by key, as they are in a file.
type Keys = Map<String, Value>;

pub fn config(command: &ConfigCommand) -> Result<Exit, CliError> {
    let host = host::host()?;
    match command {
        ConfigCommand::Init { level, force } => {
            let path = file(&host, *level)?;
            if path.exists() && !force {
                return Err(CliError::Exists { path });
            }
            fs::write(&path, TEMPLATE)?;
            ui::print(&format!("wrote {path}\n"))?;
        }
        ConfigCommand::List => ui::print(&yaml(&in_effect(&host)?, 0))?,
        ConfigCommand::Get { key } => {
            let keys = in_effect(&host)?;
            let value = path_to(key).fold(keys.get(first(key)), |value, part| value?.get(part));
            let value = value.ok_or_else(|| CliError::NoSetting { key: key.clone() })?;
            ui::print(&match value {
                Value::Object(keys) => yaml(keys, 0),
                Value::String(text) => format!("{text}\n"),
                other => format!("{other}\n"),
            })?;
        }
        ConfigCommand::Set { key, value, level } => {
            let path = file(&host, *level)?;
            let mut keys = read(&path)?;
            set(&mut keys, key, scalar(value));
            write(&path, &keys, &host)?;
            ui::print(&format!("set {key} in {path}\n"))?;
        }
        ConfigCommand::Unset { key, level } => {
            let path = file(&host, *level)?;
            let mut keys = read(&path)?;
            if !unset(&mut keys, key) {
                return Err(CliError::NoSetting { key: key.clone() });
            }
            write(&path, &keys, &host)?;
            ui::print(&format!("removed {key} from {path}\n"))?;
        }
    }
    Ok(Exit::Success)
}

/// The settings file of a level, which need not exist.
fn file(host: &Host, level: Level) -> Result<Utf8PathBuf, CliError> {
    let folder = match (&host.home, level.global) {
        (Some(home), true) => home,
        (None, true) => return Err(CliError::NoHome),
        (_, false) => &host.cwd,
    };
    let found = Settings::file_in(folder).map_err(|error| CliError::Config(vec![error]))?;
    Ok(found.unwrap_or_else(|| folder.join(FILE)))
}

/// The settings of HOME and the working directory over the defaults.
fn in_effect(host: &Host) -> Result<Keys, CliError> {
    // Invalid settings are reported as in other commands.
    super::settings(host)?;
    let mut keys = defaults();
    for global in [true, false] {
        match file(host, Level { global }) {
            Ok(path) => merge_over(&mut keys, read(&path)?),
            Err(CliError::NoHome) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(keys)
}

fn defaults() -> Keys {
    let personality = Personality::current();
    let runs = personality.runs_dir.unwrap_or(".proctor");
    let mut keys = Keys::new();
    set(&mut keys, "workspace_dir", runs.into());
    let evals = personality.evals_dir.unwrap_or(runs);
    set(&mut keys, "output_dir", evals.into());
    set(&mut keys, "timeout_ms", 300_000.into());
    set(&mut keys, "log_level", "info".into());
    set(&mut keys, "keep_workspace", true.into());
    keys
}

/// The keys of a file; none if the file does not exist.
fn read(path: &Utf8Path) -> Result<Keys, CliError> {
    if !path.exists() {
        return Ok(Keys::new());
    }
    let text = fs::read_to_string(path)?;
    parse(&text, Format::of(path)).map_err(|reason| CliError::BadSettings {
        path: path.to_owned(),
        reason,
    })
}

fn parse(text: &str, format: Format) -> Result<Keys, String> {
    let faults = |mut faults: Vec<Fault>| faults.swap_remove(0).message;
    let root = format.parse(text).map_err(faults)?;
    if root.value == proctor_document::Value::Null {
        return Ok(Keys::new());
    }
    root.read().map_err(|fault| fault.message)
}

/// Writes the keys, unless the settings would not be valid.
fn write(path: &Utf8Path, keys: &Keys, host: &Host) -> Result<(), CliError> {
    let before = fs::read(path).ok();
    let text = match path.extension() {
        Some("json") => format!("{:#}\n", Value::Object(keys.clone())),
        _ => yaml(keys, 0),
    };
    fs::write(path, text)?;
    super::settings(host).map(drop).inspect_err(|_| {
        let _ = match &before {
            Some(before) => fs::write(path, before),
            None => fs::remove_file(path),
        };
    })
}

fn first(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}

/// The parts of a key after the first.
fn path_to(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').skip(1)
}

/// A value of the command line as the number or boolean that it looks like, else as text.
fn scalar(text: &str) -> Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => text
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from),
    }
}

fn set(keys: &mut Keys, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(keys.insert(key.to_owned(), value)),
        Some((first, rest)) => {
            let inner = keys.entry(first).or_insert_with(|| Keys::new().into());
            if !inner.is_object() {
                *inner = Keys::new().into();
            }
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Removes a key; returns whether it was there.
fn unset(keys: &mut Keys, key: &str) -> bool {
    match key.split_once('.') {
        None => keys.remove(key).is_some(),
        Some((first, rest)) => {
            let inner = keys.get_mut(first).and_then(Value::as_object_mut);
            inner.is_some_and(|inner| unset(inner, rest))
        }
    }
}

fn merge_over(keys: &mut Keys, nearer: Keys) {
    for (key, value) in nearer {
        match (keys.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(nearer)) => merge_over(inner, nearer),
            (_, value) => drop(keys.insert(key, value)),
        }
    }
}

/// Settings as YAML. JSON values are YAML values, so only maps need lines of their own.
fn yaml(keys: &Keys, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let lines = keys.iter().map(|(key, value)| match value {
        Value::Object(inner) if !inner.is_empty() => {
            format!("{indent}{key}:\n{}", yaml(inner, depth + 1))
        }
        Value::String(text) if is_plain(text) => format!("{indent}{key}: {text}\n"),
        other => format!("{indent}{key}: {other}\n"),
    });
    lines.collect()
}

/// Whether a text is the same text as YAML without quotes.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || "/.".contains(c))
        && text.chars().all(is_plain)
        && ![
            "true", "false", "null", "yes", "no", "on", "off", ".inf", ".nan",
        ]
        .contains(&text.to_ascii_lowercase().as_str())
        && text.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(json: Value) -> Keys {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn settings_are_set_and_removed_by_their_path() {
        let mut all = keys(serde_json::json!({"timeout_ms": 1, "agent": {"model": "a"}}));
        set(&mut all, "agent.type", "copilot-cli".into());
        set(&mut all, "variables.A", "b".into());
        assert!(unset(&mut all, "agent.model"));
        assert!(!unset(&mut all, "agent.model"));
        assert!(!unset(&mut all, "timeout_ms.x"));
        let expect = serde_json::json!({
            "timeout_ms": 1, "agent": {"type": "copilot-cli"}, "variables": {"A": "b"}
        });
        assert_eq!(all, keys(expect));
    }

    #[test]
    fn yaml_reads_back_as_the_same_settings() {
        let all = keys(serde_json::json!({
            "workspace_dir": "./runs: x",
            "timeout_ms": 5,
            "keep_workspace": true,
            "log_level": "info",
            "variables": {"A": "1.5", "B": "yes", "C": "", "D": "- x", "E": "#"},
            "agent": {"order": ["codex", "aider"], "model": "gpt-5.1"},
            "evaluators": {},
        }));
        let text = yaml(&all, 0);
        let back = parse(&text, Format::Yaml).unwrap();
        assert_eq!(back, all, "{text}");
    }

    #[test]
    fn value_has_the_type_that_it_looks_like() {
        assert_eq!(scalar("true"), Value::Bool(true));
        assert_eq!(scalar("900000"), Value::from(900_000));
        assert_eq!(scalar("1.5x"), Value::from("1.5x"));
    }
}
