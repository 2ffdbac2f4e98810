//! The reward of a Harbor verifier: `reward.json` or `reward.txt`. A missing, empty or non-numeric
//! reward is an error and never a 0.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use camino::Utf8Path;
use proctor_record::fs::beneath::UntrustedDir;
use serde_json::{Map, Value};

/// The maximum size of a reward file.
const MAX_BYTES: u64 = 1 << 20;
/// The key of the deciding reward.
const REWARD: &str = "reward";

/// The rewards of a verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewards {
    /// The deciding reward; `None` if none of several has its key.
    pub reward: Option<f64>,
    /// All rewards, as written.
    pub all: Map<String, Value>,
}

/// Reads the reward in the folder `verifier` of `logs` (Harbor's `/logs`). `reward.json` takes
/// precedence. `key` decides, or else `reward`, or else the only key.
pub fn read(logs: &Utf8Path, key: Option<&str>) -> Result<Rewards, String> {
    let logs = UntrustedDir::new(logs);
    for name in ["reward.json", "reward.txt"] {
        if let Some(text) = text_of(&logs, name).map_err(|error| format!("{name} {error}"))? {
            let parsed = match name {
                "reward.json" => from_json(&text, key),
                _ => from_text(&text),
            };
            return parsed.map_err(|problem| format!("{name} {problem}"));
        }
    }
    Err("neither reward.json nor reward.txt was written".to_owned())
}

/// The text of a regular file; `None` if it is missing. The tests ran the agent's code, so a link
/// may point anywhere.
fn text_of(logs: &UntrustedDir, name: &str) -> Result<Option<String>, String> {
    let path = Path::new("verifier").join(name);
    match logs.metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("is not readable: {error}")),
        Ok(about) if !about.is_file() => return Err("is not a regular file".to_owned()),
        Ok(about) if about.len() > MAX_BYTES => return Err("is larger than 1 MiB".to_owned()),
        Ok(_) => {}
    }
    let bytes = logs.read(path, MAX_BYTES);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    match text {
        Ok(text) if text.trim().is_empty() => Err("is empty".to_owned()),
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(format!("is not readable: {error}")),
    }
}

fn from_text(text: &str) -> Result<Rewards, String> {
    let reward: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("does not contain a number but {:?}", cropped(text)))?;
    let value =
        serde_json::Number::from_f64(reward).ok_or("contains a number that is not finite")?;
    Ok(Rewards {
        reward: Some(reward),
        all: Map::from_iter([(REWARD.to_owned(), Value::Number(value))]),
    })
}

fn from_json(text: &str, key: Option<&str>) -> Result<Rewards, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let all = match value {
        Value::Number(number) => Map::from_iter([(REWARD.to_owned(), Value::Number(number))]),
        Value::Object(all) => all,
        _ => return Err("contains neither a number nor a map of numbers".to_owned()),
    };
    for (name, value) in &all {
        if !value.as_f64().is_some_and(f64::is_finite) {
            return Err(format!("has no finite number under `{name}`"));
        }
    }
    if all.is_empty() {
        return Err(format!("has no key `{}`", key.unwrap_or(REWARD)));
    }
    let reward = deciding(&all, key);
    Ok(Rewards { reward, all })
}

/// The reward that decides: that of `key` or `reward`, else the only one.
pub(crate) fn deciding(all: &Map<String, Value>, key: Option<&str>) -> Option<f64> {
    let named = all.get(key.unwrap_or(REWARD));
    let only = all.values().next().filter(|_| all.len() == 1);
    named.or(only).and_then(Value::as_f64)
}

fn cropped(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let verifier = dir.path().join("verifier");
        std::fs::create_dir(&verifier).unwrap();
        for (name, text) in files {
            std::fs::write(verifier.join(name), text).unwrap();
        }
        dir
    }

    fn reward(files: &[(&str, &str)]) -> Result<f64, String> {
        let dir = folder(files);
        let path = Utf8Path::from_path(dir.path()).unwrap();
        read(path, None).map(|rewards| rewards.reward.unwrap_or(f64::NAN))
    }

    #[test]
    fn reward_is_read_from_json_before_text() {
        for (files, expect) in [
            (vec![("reward.txt", "1")], 1.0),
            (vec![("reward.txt", " 0.25\n")], 0.25),
            (vec![("reward.txt", "-1e-3")], -0.001),
            (vec![("reward.json", "0.5")], 0.5),
            (vec![("reward.json", r#"{"reward": 0.5, "other": 2}"#)], 0.5),
            (vec![("reward.json", r#"{"accuracy": 0.75}"#)], 0.75),
            (vec![("reward.txt", "1"), ("reward.json", "0")], 0.0),
        ] {
            assert_eq!(reward(&files), Ok(expect), "{files:?}");
        }
    }

    #[test]
    fn a_key_decides_among_several_rewards() {
        let dir = folder(&[("reward.json", r#"{"accuracy": 0.75, "speed": 2}"#)]);
        let path = Utf8Path::from_path(dir.path()).unwrap();
        for (key, expect) in [(Some("speed"), Some(2.0)), (None, None), (Some("x"), None)] {
            let rewards = read(path, key).unwrap();
            assert_eq!(rewards.reward, expect, "{key:?}");
            assert_eq!(rewards.all.len(), 2);
        }
    }

    #[test]
    fn invalid_reward_is_an_error() {
        for (files, expect) in [
            (vec![], "neither"),
            (vec![("reward.txt", "")], "is empty"),
            (vec![("reward.txt", " \n")], "is empty"),
            (vec![("reward.txt", "passed")], "does not contain a number"),
            (vec![("reward.txt", "1 1")], "does not contain a number"),
            (vec![("reward.txt", "nan")], "not finite"),
            (vec![("reward.txt", "inf")], "not finite"),
            (vec![("reward.json", "")], "is empty"),
            (vec![("reward.json", "NaN")], "is not JSON"),
            (vec![("reward.json", "1e999")], "is not JSON"),
            (vec![("reward.json", "true")], "neither a number nor a map"),
            (vec![("reward.json", "{}")], "has no key `reward`"),
            (vec![("reward.json", r#"{"reward": "1"}"#)], "`reward`"),
            (vec![("reward.json", r#"{"reward": true}"#)], "`reward`"),
            (vec![("reward.json", r#"{"reward": {"a": 1}}"#)], "`reward`"),
            // There is no fallback from an invalid reward.json to the text.
            (
                vec![("reward.json", "{"), ("reward.txt", "1")],
                "is not JSON",
            ),
        ] {
            let error = reward(&files).unwrap_err();
            assert!(error.contains(expect), "{files:?}: {error}");
        }
    }

    // Other platforms require privileges for links.
    #[cfg(unix)]
    #[test]
    fn link_is_not_a_reward() {
        let dir = folder(&[("elsewhere", "1")]);
        let link = dir.path().join("verifier/reward.txt");
        std::os::unix::fs::symlink("elsewhere", link).unwrap();
        let logs = Utf8Path::from_path(dir.path()).unwrap();
        let error = read(logs, None).unwrap_err();
        assert!(error.contains("not a regular file"), "{error}");
        // A file in a linked folder is not a reward either.
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("../verifier", dir.path().join("other/verifier")).unwrap();
        std::fs::write(dir.path().join("verifier/reward.json"), "1").unwrap();
        assert!(read(logs, None).is_ok());
        assert!(read(&logs.join("other"), None).is_err());
    }
}
