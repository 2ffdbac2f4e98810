//! Evaluators: the ways of judging what an agent did. Each gives a verdict; a verdict that
//! could not be reached is an `error`, never a number.

mod command;
mod git_diff;
pub mod reports;

pub(crate) use git_diff::Size;

use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{EvaluatorSpec, Fault},
    host::Host,
    workspace::{Change, Workspace},
};

/// One way of judging, ready to judge.
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// The name in the test case.
    pub name: String,
    kind: Kind,
}

/// The closed set of ways to judge.
#[derive(Clone, Debug)]
enum Kind {
    GitDiff(git_diff::Settings),
    Command(command::Settings),
}

/// The names of all evaluators and what each is for.
pub const EVALUATORS: [(&str, &str); 2] = [
    (
        "git-diff",
        "measures the change and checks its size and spread",
    ),
    (
        "command",
        "runs a command in a clean copy of the result; its exit code decides",
    ),
];

/// What an evaluator says.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Which evaluator.
    pub evaluator: String,
    /// What it found.
    pub status: VerdictStatus,
    /// What it measured.
    pub metrics: Map<String, Value>,
    /// The finding in one line.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done.
    pub timestamp: String,
    /// What was asserted, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertions: Option<Map<String, Value>>,
    /// Files that it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Why no verdict was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VerdictError>,
}

/// What an evaluator found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictStatus {
    /// All is as it should be.
    Passed,
    /// Something is not.
    Failed,
    /// There was nothing to judge.
    Skipped,
    /// The evaluator itself failed: no verdict.
    Error,
}

/// A file that an evaluator left in the artifacts folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What kind of file.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path below the artifacts folder.
    pub path: String,
    /// What it shows.
    pub description: String,
}

/// Why no verdict was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictError {
    /// What went wrong.
    pub message: String,
}

/// What evaluators work on.
#[derive(Debug)]
pub struct Judging<'a> {
    /// The workspace and its baseline.
    pub workspace: &'a Workspace,
    /// What the agent changed.
    pub change: &'a Change,
    /// Where evaluators leave files.
    pub artifacts: &'a Utf8Path,
    /// Where clean copies are made.
    pub scratch: &'a Utf8Path,
    /// The machine.
    pub host: &'a Host,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
}

/// A verdict before it has a name and a time.
struct Finding {
    status: VerdictStatus,
    message: String,
    metrics: Map<String, Value>,
    assertions: Option<Map<String, Value>>,
    artifacts: Vec<Artifact>,
}

impl Evaluator {
    /// Read one entry of `evaluators`.
    pub fn configure(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Evaluator, Fault> {
        let kind = match spec.name.as_str() {
            "git-diff" => Kind::GitDiff(spec.config.read()?),
            "command" => Kind::Command(command::Settings::read(spec, folder)?),
            _ => return Err(spec.unknown(&EVALUATORS.map(|(name, _)| name))),
        };
        Ok(Evaluator {
            name: spec.name.clone(),
            kind,
        })
    }

    /// Judge. What goes wrong on the way is a verdict too.
    pub async fn judge(&self, judging: &Judging<'_>, number: usize) -> Verdict {
        let started = Instant::now();
        let found = match &self.kind {
            Kind::GitDiff(settings) => git_diff::judge(settings, judging).await,
            Kind::Command(settings) => command::judge(settings, judging, number).await,
        };
        let mut verdict = match found {
            Ok(finding) => self.verdict(finding),
            Err(message) => self.without_finding(VerdictStatus::Error, &message),
        };
        verdict.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        verdict
    }

    /// The verdict of an evaluator that had nothing to judge.
    pub fn skipped(&self, why: &str) -> Verdict {
        self.without_finding(VerdictStatus::Skipped, why)
    }

    fn verdict(&self, finding: Finding) -> Verdict {
        Verdict {
            evaluator: self.name.clone(),
            status: finding.status,
            metrics: finding.metrics,
            message: finding.message,
            duration_ms: 0,
            timestamp: jiff::Timestamp::now().to_string(),
            assertions: finding.assertions,
            artifacts: finding.artifacts,
            error: None,
        }
    }

    fn without_finding(&self, status: VerdictStatus, message: &str) -> Verdict {
        let mut verdict = self.verdict(Finding {
            status,
            message: message.to_owned(),
            metrics: Map::new(),
            assertions: None,
            artifacts: Vec::new(),
        });
        verdict.error = (status == VerdictStatus::Error).then(|| VerdictError {
            message: message.to_owned(),
        });
        verdict
    }
}

/// Where the clean copy for the evaluator with this number goes.
fn copy_folder(judging: &Judging<'_>, number: usize) -> Utf8PathBuf {
    judging.scratch.join(format!("judge-{number}"))
}
