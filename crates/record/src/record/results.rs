//! `results.json`: the judged result of one trial in youBencha's format, ours a superset of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LOG_FILE, Record, TrialStatus};
use crate::{
    outcome::{Outcome, Status},
    record::{HookRecord, Verdict, VerdictStatus},
};

/// One judged trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The version of the format.
    pub version: String,
    /// What was asked.
    pub test_case: TestCaseResult,
    /// When and how long.
    pub execution: Execution,
    /// The agent's own part.
    pub agent: AgentResult,
    /// What the evaluators said.
    pub evaluators: Vec<Verdict>,
    /// The whole.
    pub summary: Summary,
    /// What the hooks of the test case did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// Where things are, below the artifacts folder.
    pub artifacts: Artifacts,
}

/// What was asked.
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
    /// The branch, as written.
    pub branch: Option<String>,
    /// The commit that was checked out.
    pub commit: Option<String>,
    /// The reference branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_branch: Option<String>,
}

/// When and how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When the trial started.
    pub started_at: String,
    /// When it ended.
    pub completed_at: String,
    /// How long it took.
    pub duration_ms: u64,
    /// The version of Proctor.
    pub proctor_version: String,
    /// The run that it belongs to.
    pub run_id: String,
}

/// The agent's own part.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentResult {
    /// `agent.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The normalised log.
    pub youbencha_log_path: String,
    /// Its status.
    pub status: Status,
    /// What became of it.
    pub outcome: Outcome,
    /// Its exit code as the log has it: −1 for a timeout.
    pub exit_code: Option<i32>,
}

/// The whole.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many evaluators there are.
    pub total_evaluators: usize,
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many had nothing to judge.
    pub skipped: usize,
    /// How many broke.
    pub errors: usize,
    /// What the work is worth, from 0 to 1; null when nothing can be said of it.
    #[serde(default)]
    pub score: Option<f64>,
    /// The verdict on the trial: the agent's own failure makes it fail.
    pub overall_status: OverallStatus,
}

/// youBencha's words for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverallStatus {
    /// All is well.
    Passed,
    /// The agent or an evaluator failed.
    Failed,
    /// Something could not be judged.
    Partial,
}

impl OverallStatus {
    /// The word used in files and for hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            OverallStatus::Passed => "passed",
            OverallStatus::Failed => "failed",
            OverallStatus::Partial => "partial",
        }
    }
}

/// Where things are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Artifacts {
    /// The normalised log.
    pub agent_log: String,
    /// Reports.
    pub reports: Vec<String>,
    /// What the evaluators left.
    pub evaluator_artifacts: Vec<String>,
}

impl Results {
    /// The results of a finished trial.
    pub fn of(record: &Record, test_case: TestCaseResult, exit_code: Option<i32>) -> Results {
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
                run_id: record.run_id.clone(),
            },
            agent: AgentResult {
                kind: record.agent.kind.clone(),
                youbencha_log_path: LOG_FILE.to_owned(),
                status: record.outcome.status(),
                outcome: record.outcome,
                exit_code,
            },
            evaluators: record.verdicts.clone(),
            summary: Summary {
                total_evaluators: record.verdicts.len(),
                passed: count(VerdictStatus::Passed),
                failed: count(VerdictStatus::Failed),
                skipped: count(VerdictStatus::Skipped),
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
