//! `results.json`: the judged result of one trial in a superset of youBencha's format.

use camino::Utf8Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LOG_FILE, Record, TrialStatus};
use crate::{
    outcome::{Outcome, Status},
    record::{HookRecord, Verdict, VerdictError, VerdictStatus},
};

/// One judged trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The version of the format.
    pub version: String,
    /// The test case.
    pub test_case: TestCaseResult,
    /// The times.
    pub execution: Execution,
    /// The agent.
    pub agent: AgentResult,
    /// The verdicts of the evaluators.
    pub evaluators: Vec<Verdict>,
    /// The summary.
    pub summary: Summary,
    /// The results of the hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// The paths of files, relative to the artifacts directory.
    pub artifacts: Artifacts,
}

/// The test case of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestCaseResult {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its file.
    pub config_file: String,
    /// The SHA-256 of its file.
    pub config_hash: String,
    /// The repo, as written.
    pub repo: String,
    /// The branch, as written; `HEAD` when none is.
    #[serde(deserialize_with = "known")]
    pub branch: String,
    /// The commit that was checked out, or `unknown`.
    #[serde(deserialize_with = "known")]
    pub commit: String,
    /// The reference branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_branch: Option<String>,
}

/// A text that earlier versions wrote as null when it was not known.
fn known<'de, D: serde::Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    Ok(text.unwrap_or_else(|| "unknown".to_owned()))
}

/// The times of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When the trial started.
    pub started_at: String,
    /// When it ended.
    pub completed_at: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The version of Proctor.
    pub proctor_version: String,
    /// The program and version in the place of youBencha's version.
    pub youbencha_version: String,
    /// The machine.
    pub environment: Environment,
    /// The run that it belongs to.
    pub run_id: String,
}

/// The value of `node_version`: Proctor does not run on Node.js.
pub const NO_NODE: &str = "none";

/// The program and version that files name in the place of youBencha's version.
pub fn youbencha_version(proctor_version: &str) -> String {
    format!("proctor {proctor_version}")
}

/// The machine, in youBencha's terms.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The operating system.
    pub os: String,
    /// Always `none`.
    pub node_version: String,
    /// The trial's directory.
    pub workspace_dir: String,
}

/// The agent of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentResult {
    /// `agent.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The normalised log.
    pub youbencha_log_path: String,
    /// Its status.
    pub status: Status,
    /// The outcome.
    pub outcome: Outcome,
    /// Its exit code as the log has it: −1 for a timeout and for an agent that never started.
    pub exit_code: i32,
}

/// The summary of the verdicts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The number of evaluators.
    pub total_evaluators: usize,
    /// The number of passed evaluators.
    pub passed: usize,
    /// The number of failed evaluators.
    pub failed: usize,
    /// How many reached no verdict: they had nothing to judge, or had an error.
    pub skipped: usize,
    /// How many of these had an error.
    pub errors: usize,
    /// The score, from 0 to 1; null if the trial is excluded.
    #[serde(default)]
    pub score: Option<f64>,
    /// The status of the trial: the agent's own failure makes it fail.
    pub overall_status: OverallStatus,
}

/// youBencha's names for the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverallStatus {
    /// All evaluators passed.
    Passed,
    /// The agent or an evaluator failed.
    Failed,
    /// An evaluator has an error.
    Partial,
}

impl OverallStatus {
    /// The name in files and for hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            OverallStatus::Passed => "passed",
            OverallStatus::Failed => "failed",
            OverallStatus::Partial => "partial",
        }
    }
}

/// The paths of files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Artifacts {
    /// The normalised log.
    pub agent_log: String,
    /// Reports.
    pub reports: Vec<String>,
    /// The files of the evaluators.
    pub evaluator_artifacts: Vec<String>,
}

impl Results {
    /// The results of a finished trial.
    pub fn of(
        record: &Record,
        test_case: TestCaseResult,
        exit_code: i32,
        folder: &Utf8Path,
    ) -> Results {
        let count = |status| {
            record
                .verdicts
                .iter()
                .filter(|verdict| verdict.status == status)
                .count()
        };
        let completed_at = record
            .completed_at
            .clone()
            .unwrap_or_else(|| record.started_at.clone());
        Results {
            version: "1.0.0".to_owned(),
            test_case,
            execution: Execution {
                started_at: record.started_at.clone(),
                completed_at,
                duration_ms: record.duration_ms.unwrap_or_default(),
                proctor_version: record.proctor_version.clone(),
                youbencha_version: youbencha_version(&record.proctor_version),
                environment: Environment {
                    os: record.host.os.clone(),
                    node_version: NO_NODE.to_owned(),
                    workspace_dir: folder.to_string(),
                },
                run_id: record.run_id.clone(),
            },
            agent: AgentResult {
                kind: record.agent.kind.clone(),
                youbencha_log_path: LOG_FILE.to_owned(),
                status: record.outcome.status(),
                outcome: record.outcome,
                exit_code,
            },
            evaluators: record.verdicts.iter().map(in_three_words).collect(),
            summary: Summary {
                total_evaluators: record.verdicts.len(),
                passed: count(VerdictStatus::Passed),
                failed: count(VerdictStatus::Failed),
                skipped: count(VerdictStatus::Skipped) + count(VerdictStatus::Error),
                errors: count(VerdictStatus::Error),
                score: record.score.as_ref().map(|score| score.value),
                overall_status: match record.status {
                    TrialStatus::Passed => OverallStatus::Passed,
                    TrialStatus::Failed => OverallStatus::Failed,
                    TrialStatus::Error | TrialStatus::Interrupted => OverallStatus::Partial,
                },
            },
            hooks: record.hooks.clone(),
            artifacts: Artifacts {
                agent_log: LOG_FILE.to_owned(),
                reports: Vec::new(),
                evaluator_artifacts: record
                    .verdicts
                    .iter()
                    .flat_map(|verdict| {
                        verdict
                            .artifacts
                            .iter()
                            .map(|artifact| artifact.path.clone())
                    })
                    .collect(),
            },
        }
    }
}

/// A verdict in youBencha's three words: an error is `skipped`, with the error.
fn in_three_words(verdict: &Verdict) -> Verdict {
    let mut verdict = verdict.clone();
    if verdict.status == VerdictStatus::Error {
        verdict.status = VerdictStatus::Skipped;
        let message = verdict.message.clone();
        verdict.error.get_or_insert(VerdictError { message });
    }
    verdict
}
