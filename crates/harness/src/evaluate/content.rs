//! `file` and `output`: what must hold of a file that the agent left, or of the last thing it said.

use camino::Utf8PathBuf;
use proctor_document::Fault;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Finding, Judging, VerdictStatus};
use crate::{
    config::EvaluatorSpec,
    record,
    session::{MessageKind, Role},
    transcript::Document,
};

/// `config` of `file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    /// The file, below the workspace.
    path: String,
    /// Whether it must be there. Default yes.
    exists: Option<bool>,
    /// A regular expression that must match somewhere in it.
    matches: Option<String>,
    /// A regular expression that must match nowhere in it.
    not_matches: Option<String>,
    /// A place in a JSON file, such as `/name` or `/items/0/id`, that must be there.
    json_path: Option<String>,
    /// The expected value at `json_path`.
    #[schemars(with = "Option<Value>")]
    equals: Option<Value>,
}

/// `config` of `output`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenOutput {
    /// A regular expression that must match in the last thing that the agent said.
    matches: Option<String>,
    /// A regular expression that must not.
    not_matches: Option<String>,
    /// A place in it, when it is JSON, that must be there.
    json_path: Option<String>,
    /// The expected value at `json_path`.
    #[schemars(with = "Option<Value>")]
    equals: Option<Value>,
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    what: What,
    matches: Option<Regex>,
    not_matches: Option<Regex>,
    json: Option<(String, Option<Value>)>,
}

#[derive(Clone, Debug)]
enum What {
    File { path: Utf8PathBuf, exists: bool },
    Output,
}

impl Settings {
    pub(super) fn read_file(spec: &EvaluatorSpec) -> Result<Settings, Fault> {
        let written: WrittenFile = spec.config.read()?;
        let path = Utf8PathBuf::from(&written.path);
        if crate::platform::is_rooted(path.as_str())
            || path.components().any(|part| part.as_str() == "..")
        {
            let message = format!("`{path}` leaves the workspace");
            return Err(spec.config.fault("path", message));
        }
        let exists = written.exists.unwrap_or(true);
        let settings = Settings {
            what: What::File { path, exists },
            matches: pattern(spec, "matches", written.matches)?,
            not_matches: pattern(spec, "not_matches", written.not_matches)?,
            json: place(spec, written.json_path, written.equals)?,
        };
        if !exists && settings.asks() {
            let message = "what is not there has no content: keep `exists: false` or the rest";
            return Err(spec.config.fault("exists", message));
        }
        Ok(settings)
    }

    pub(super) fn read_output(spec: &EvaluatorSpec) -> Result<Settings, Fault> {
        let written: WrittenOutput = spec.config.read()?;
        let settings = Settings {
            what: What::Output,
            matches: pattern(spec, "matches", written.matches)?,
            not_matches: pattern(spec, "not_matches", written.not_matches)?,
            json: place(spec, written.json_path, written.equals)?,
        };
        if !settings.asks() {
            let message = "`output` asserts nothing";
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
            .fault(key, format!("this is no pattern: {error}"))
    })
}

fn place(
    spec: &EvaluatorSpec,
    path: Option<String>,
    equals: Option<Value>,
) -> Result<Option<(String, Option<Value>)>, Fault> {
    match (path, equals) {
        (None, Some(_)) => {
            let message = "`equals` says nothing without `json_path`";
            Err(spec.config.fault("equals", message))
        }
        (Some(path), _) if !path.is_empty() && !path.starts_with('/') => {
            let message = "a place in JSON is written as `/key/0/key`";
            Err(spec.config.fault("json_path", message))
        }
        (path, equals) => Ok(path.map(|path| (path, equals))),
    }
}

pub(super) async fn judge(settings: &Settings, judging: &Judging<'_>) -> Result<Finding, String> {
    let (subject, text) = match &settings.what {
        What::File { path, exists } => {
            let text = judging
                .workspace
                .text_of(&judging.change.tree, path)
                .await
                .map_err(|error| error.to_string())?;
            match (text, exists) {
                (None, true) => {
                    return Ok(finding(&[format!("{path} is not there")], path.as_str()));
                }
                (None, false) => return Ok(finding(&[], path.as_str())),
                (Some(_), false) => {
                    return Ok(finding(&[format!("{path} is there")], path.as_str()));
                }
                (Some(text), true) => (path.to_string(), text),
            }
        }
        What::Output => ("the last message".to_owned(), last_message(judging)?),
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

/// Faults of a JSON pointer.
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

/// The last thing that the agent itself said.
fn last_message(judging: &Judging<'_>) -> Result<String, String> {
    let document = read_log(judging)?;
    let said = document.messages.into_iter().rev().find(|message| {
        let is_own = message.role == Role::Assistant && message.parent.is_none();
        is_own && message.kind == MessageKind::Text
    });
    said.map(|message| message.content)
        .ok_or_else(|| "the agent said nothing that is on record".to_owned())
}

/// The normalised session.
pub(super) fn read_log(judging: &Judging<'_>) -> Result<Document, String> {
    let path = judging.artifacts.join(record::LOG_FILE);
    let bytes = fs_err::read(&path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{path} cannot be read: {error}"))
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
            format!("{subject} is as it should be")
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
