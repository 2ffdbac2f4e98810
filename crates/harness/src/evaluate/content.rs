//! `file` and `output`: conditions on a file of the result, or on the agent's last message.

use camino::Utf8PathBuf;
use proctor_document::Fault;
use proctor_record::{
    record::{self, VerdictStatus},
    session::{MessageKind, Role},
    transcript::Document,
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Finding, Judging};
use crate::config::EvaluatorSpec;

/// `config` of `file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    /// The file, relative to the workspace.
    path: String,
    /// Whether the file must exist. Default: true.
    exists: Option<bool>,
    /// A regular expression that must match the content.
    matches: Option<String>,
    /// A regular expression that must not match the content.
    not_matches: Option<String>,
    /// A JSON pointer, such as `/name` or `/items/0/id`, that must exist.
    json_path: Option<String>,
    /// The expected value at `json_path`.
    #[schemars(with = "Option<Value>")]
    equals: Option<Value>,
}

/// `config` of `output`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenOutput {
    /// A regular expression that must match the agent's last message.
    matches: Option<String>,
    /// A regular expression that must not match it.
    not_matches: Option<String>,
    /// A JSON pointer that must exist in the message.
    json_path: Option<String>,
    /// The expected value at `json_path`.
    #[schemars(with = "Option<Value>")]
    equals: Option<Value>,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct ContentSettings {
    what: Subject,
    matches: Option<Regex>,
    not_matches: Option<Regex>,
    json: Option<(String, Option<Value>)>,
}

#[derive(Clone, Debug)]
enum Subject {
    File { path: Utf8PathBuf, exists: bool },
    Output,
}

impl ContentSettings {
    pub(super) fn read_file(spec: &EvaluatorSpec) -> Result<ContentSettings, Fault> {
        let written: WrittenFile = spec.config.read()?;
        let path = Utf8PathBuf::from(&written.path);
        if proctor_record::platform::is_rooted(path.as_str())
            || path.components().any(|part| part.as_str() == "..")
        {
            let message = format!("`{path}` is outside of the workspace");
            return Err(spec.config.fault("path", message));
        }
        let exists = written.exists.unwrap_or(true);
        let settings = ContentSettings {
            what: Subject::File { path, exists },
            matches: pattern(spec, "matches", written.matches)?,
            not_matches: pattern(spec, "not_matches", written.not_matches)?,
            json: place(spec, written.json_path, written.equals)?,
        };
        if !exists && settings.asks() {
            let message = "`exists: false` cannot be combined with content checks";
            return Err(spec.config.fault("exists", message));
        }
        Ok(settings)
    }

    pub(super) fn read_output(spec: &EvaluatorSpec) -> Result<ContentSettings, Fault> {
        let written: WrittenOutput = spec.config.read()?;
        let settings = ContentSettings {
            what: Subject::Output,
            matches: pattern(spec, "matches", written.matches)?,
            not_matches: pattern(spec, "not_matches", written.not_matches)?,
            json: place(spec, written.json_path, written.equals)?,
        };
        if !settings.asks() {
            let message = "`output` has no condition";
            return Err(Fault::new(spec.span, message)
                .with_hint("add `matches`, `not_matches` or `json_path`"));
        }
        Ok(settings)
    }

    fn asks(&self) -> bool {
        self.matches.is_some() || self.not_matches.is_some() || self.json.is_some()
    }
}

fn pattern(spec: &EvaluatorSpec, key: &str, text: Option<String>) -> Result<Option<Regex>, Fault> {
    let Some(text) = text else {
        return Ok(None);
    };
    let read = Regex::new(&text);
    read.map(Some).map_err(|error| {
        spec.config
            .fault(key, format!("invalid regular expression: {error}"))
    })
}

fn place(
    spec: &EvaluatorSpec,
    path: Option<String>,
    equals: Option<Value>,
) -> Result<Option<(String, Option<Value>)>, Fault> {
    match (path, equals) {
        (None, Some(_)) => {
            let message = "`equals` has no effect without `json_path`";
            Err(spec.config.fault("equals", message))
        }
        (Some(path), _) if !path.is_empty() && !path.starts_with('/') => {
            let message = "a JSON pointer has the form `/key/0/key`";
            Err(spec.config.fault("json_path", message))
        }
        (path, equals) => Ok(path.map(|path| (path, equals))),
    }
}

pub(super) async fn judge(
    settings: &ContentSettings,
    judging: &Judging<'_>,
) -> Result<Finding, String> {
    let (subject, text) = match &settings.what {
        Subject::File { path, exists } => {
            let text = judging
                .workspace
                .text_of(&judging.change.tree, path)
                .await
                .map_err(|error| error.to_string())?;
            match (text, exists) {
                (None, true) => {
                    return Ok(finding(&[format!("{path} does not exist")], path.as_str()));
                }
                (None, false) => return Ok(finding(&[], path.as_str())),
                (Some(_), false) => {
                    return Ok(finding(&[format!("{path} exists")], path.as_str()));
                }
                (Some(text), true) => (path.to_string(), text),
            }
        }
        Subject::Output => ("the last message".to_owned(), last_message(judging)?),
    };
    let mut violations = Vec::new();
    if let Some(pattern) = settings.matches.as_ref().filter(|it| !it.is_match(&text)) {
        violations.push(format!("{subject} does not match `{pattern}`"));
    }
    if let Some(pattern) = settings
        .not_matches
        .as_ref()
        .filter(|it| it.is_match(&text))
    {
        violations.push(format!("{subject} matches `{pattern}`"));
    }
    if let Some((path, equals)) = &settings.json {
        violations.extend(at(&subject, &text, path, equals.as_ref()));
    }
    Ok(finding(&violations, &subject))
}

/// Checks a JSON pointer. Returns the violation.
fn at(subject: &str, text: &str, path: &str, equals: Option<&Value>) -> Option<String> {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return Some(format!("{subject} is not JSON: {error}")),
    };
    match (document.pointer(path), equals) {
        (None, _) => Some(format!("{subject} has nothing at `{path}`")),
        (Some(found), Some(wanted)) if found != wanted => {
            Some(format!("{subject} has {found} at `{path}`, not {wanted}"))
        }
        _ => None,
    }
}

/// The agent's last message.
fn last_message(judging: &Judging<'_>) -> Result<String, String> {
    let document = read_log(judging)?;
    let said = document.messages.into_iter().rev().find(|message| {
        let is_own = message.role == Role::Assistant && message.parent.is_none();
        is_own && message.kind == MessageKind::Text
    });
    said.map(|message| message.content)
        .ok_or_else(|| "there is no recorded message of the agent".to_owned())
}

/// Reads the normalised session.
pub(super) fn read_log(judging: &Judging<'_>) -> Result<Document, String> {
    let path = judging.artifacts.join(record::LOG_FILE);
    let bytes = fs_err::read(&path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| format!("cannot read {path}: {error}"))
}

fn finding(violations: &[String], subject: &str) -> Finding {
    Finding {
        status: if violations.is_empty() {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: None,
        message: if violations.is_empty() {
            format!("{subject} meets all conditions")
        } else {
            violations.join("; ")
        },
        metrics: Map::from_iter([("violations".to_owned(), json!(violations))]),
        assertions: None,
        artifacts: Vec::new(),
        restored: Vec::new(),
        tampered: Vec::new(),
    }
}
