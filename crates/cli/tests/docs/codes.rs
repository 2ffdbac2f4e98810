//! Troubleshooting names every outcome and every error code of a trial.

use std::collections::BTreeSet;

use camino::Utf8Path;
use proctor_record::outcome::Outcome;

use crate::{read, root};

/// Where the code of an error stands: the text before its literal, without spaces.
const BEFORE: [&str; 7] = [
    "code:",
    "LogError::new(",
    "gave_up(",
    "NOT_READY:&str=",
    "=>(",
    "concat!($code,",
    "unwrap_or(",
];

/// The codes in a source file.
fn codes(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let parts: Vec<&str> = text.split('"').collect();
    let pairs = parts.windows(2).filter(|pair| is_code(pair[1]));
    let codes = pairs.filter(|pair| {
        let before: String = pair[0].split_whitespace().collect();
        let is_outcome = before.rsplit_once("Outcome::").is_some_and(|(_, rest)| {
            rest.ends_with(',') && rest[..rest.len() - 1].chars().all(char::is_alphanumeric)
        });
        is_outcome || BEFORE.iter().any(|end| before.ends_with(end))
    });
    codes
        .map(|pair| pair[1].trim_start_matches('_').to_owned())
        .collect()
}

fn is_code(text: &str) -> bool {
    text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn sources(folder: &Utf8Path, found: &mut BTreeSet<String>) {
    for entry in folder.read_dir_utf8().unwrap() {
        let path = entry.unwrap().into_path();
        if matches!(path.file_name(), Some("tests" | "tests.rs")) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension() == Some("rs") {
            found.extend(codes(&read(&path)));
        }
    }
}

#[test]
fn troubleshooting_names_every_outcome_and_error_code() {
    let page = read(&root().join("docs/troubleshooting.md"));
    for outcome in Outcome::ALL {
        let row = format!("\n| `{}`", outcome.as_str());
        assert!(page.contains(&row), "{}", outcome.as_str());
    }
    let mut found = BTreeSet::new();
    for folder in ["agents/src", "harness/src/trial"] {
        sources(&root().join("crates").join(folder), &mut found);
    }
    // Prefixes of the agents' codes.
    let prefixes = [
        "ADAPTER", "AIDER", "CLAUDE", "CODEX", "COMMAND", "COPILOT", "GEMINI", "MINI", "OPENCODE",
        "QWEN",
    ];
    found.retain(|code| !prefixes.contains(&code.as_str()));
    assert!(found.len() > 40, "{found:?}");
    let is_named = |code: &&String| {
        let short = prefixes
            .iter()
            .find_map(|it| code.strip_prefix(&format!("{it}_")));
        let suffix = short.unwrap_or(code.as_str());
        page.contains(&format!("`{code}`")) || page.contains(&format!("`…_{suffix}`"))
    };
    let missing: Vec<&String> = found.iter().filter(|code| !is_named(code)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}
