//! The reward that a Harbor verifier leaves: `reward.json` or `reward.txt`. A missing or
//! empty one, or one that is not a number, is an error and never a 0.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use camino::Utf8Path;
use serde_json::{Map, Value};

use crate::fs::beneath::UntrustedDir;

/// A reward file larger than this is none.
const MAX_BYTES: u64 = 1 << 20;
/// The name of the reward that decides.
const REWARD: &str = "reward";

/// The rewards that a verifier left.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewards {
    /// The one that decides.
    pub reward: f64,
    /// All of them, as written.
    pub all: Map<String, Value>,
}

/// Read the reward in the folder `verifier` of `logs` (Harbor's `/logs`). `reward.json` wins.
pub fn read(logs: &Utf8Path) -> Result<Rewards, String> {
    let logs = UntrustedDir::new(logs);
    for (name, parse) in [
        (
            "reward.json",
            from_json as fn(&str) -> Result<Rewards, String>,
        ),
        ("reward.txt", from_text),
    ] {
        if let Some(text) = text_of(&logs, name).map_err(|error| format!("{name} {error}"))? {
            return parse(&text).map_err(|problem| format!("{name} {problem}"));
        }
    }
    Err("neither reward.json nor reward.txt was written".to_owned())
}

/// The text of a regular file; `None` when there is nothing. The tests ran the agent's code: a link may lead anywhere.
fn text_of(logs: &UntrustedDir, name: &str) -> Result<Option<String>, String> {
    let path = Path::new("verifier").join(name);
    match logs.metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
        Ok(about) if !about.is_file() => return Err("is not a regular file".to_owned()),
        Ok(about) if about.len() > MAX_BYTES => return Err("is larger than 1 MiB".to_owned()),
        Ok(_) => {}
    }
    let bytes = logs.read(path, MAX_BYTES);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    match text {
        Ok(text) if text.trim().is_empty() => Err("is empty".to_owned()),
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn from_text(text: &str) -> Result<Rewards, String> {
    let reward: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("holds no number but {:?}", cropped(text)))?;
    let value = serde_json::Number::from_f64(reward).ok_or("holds a number that is not finite")?;
    Ok(Rewards {
        reward,
        all: Map::from_iter([(REWARD.to_owned(), Value::Number(value))]),
    })
}

fn from_json(text: &str) -> Result<Rewards, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let all = match value {
        Value::Number(number) => Map::from_iter([(REWARD.to_owned(), Value::Number(number))]),
        Value::Object(all) => all,
        _ => return Err("holds neither a number nor a map of numbers".to_owned()),
    };
    for (name, value) in &all {
        if !value.as_f64().is_some_and(f64::is_finite) {
            return Err(format!("has no finite number under `{name}`"));
        }
    }
    let deciding = match (all.get(REWARD), all.len()) {
        (Some(reward), _) => Some(reward),
        (None, 1) => all.values().next(),
        (None, _) => None,
    };
    match deciding.and_then(Value::as_f64) {
        Some(reward) => Ok(Rewards { reward, all }),
        None => Err("has no key `reward`".to_owned()),
    }
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
        read(path).map(|rewards| rewards.reward)
    }

    #[test]
    fn a_reward_is_a_number_in_either_file_and_json_wins() {
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
    fn an_invalid_reward_is_an_error_and_never_a_number() {
        for (files, expect) in [
            (vec![], "neither"),
            (vec![("reward.txt", "")], "is empty"),
            (vec![("reward.txt", " \n")], "is empty"),
            (vec![("reward.txt", "passed")], "holds no number"),
            (vec![("reward.txt", "1 1")], "holds no number"),
            (vec![("reward.txt", "nan")], "not finite"),
            (vec![("reward.txt", "inf")], "not finite"),
            (vec![("reward.json", "")], "is empty"),
            (vec![("reward.json", "NaN")], "is not JSON"),
            (vec![("reward.json", "1e999")], "is not JSON"),
            (vec![("reward.json", "true")], "neither a number nor a map"),
            (vec![("reward.json", "{}")], "has no key `reward`"),
            (vec![("reward.json", r#"{"a": 1, "b": 1}"#)], "has no key"),
            (vec![("reward.json", r#"{"reward": "1"}"#)], "`reward`"),
            (vec![("reward.json", r#"{"reward": true}"#)], "`reward`"),
            (vec![("reward.json", r#"{"reward": {"a": 1}}"#)], "`reward`"),
            // A broken reward.json does not fall back to the text.
            (
                vec![("reward.json", "{"), ("reward.txt", "1")],
                "is not JSON",
            ),
        ] {
            let error = reward(&files).unwrap_err();
            assert!(error.contains(expect), "{files:?}: {error}");
        }
    }

    // Elsewhere links need rights.
    #[cfg(unix)]
    #[test]
    fn a_link_is_not_a_reward() {
        let dir = folder(&[("elsewhere", "1")]);
        let link = dir.path().join("verifier/reward.txt");
        std::os::unix::fs::symlink("elsewhere", link).unwrap();
        let logs = Utf8Path::from_path(dir.path()).unwrap();
        let error = read(logs).unwrap_err();
        assert!(error.contains("not a regular file"), "{error}");
        // Nor is the file in a folder behind a link.
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("../verifier", dir.path().join("other/verifier")).unwrap();
        std::fs::write(dir.path().join("verifier/reward.json"), "1").unwrap();
        assert!(read(logs).is_ok());
        assert!(read(&logs.join("other")).is_err());
    }
}
