//! `meta.json`: one trial in a superset of Thunderdome's format. The patch and the artifacts are
//! next to it.

use std::collections::BTreeMap;

use camino::Utf8Path;
use fs_err as fs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GatewayRecord, META_FILE, PATCH_FILE, Record, StoreError, TrialStatus, write_part};
use crate::{
    outcome::Outcome,
    record::score::Score,
    usage::{Figures, Usage, UsageSource, Usd},
};

/// The exit code of a timed-out agent, as in `timeout` and Thunderdome.
const TIMEOUT_CODE: i32 = 124;

/// One trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Meta {
    /// The agent.
    pub orchestrator: String,
    /// The task.
    pub task: String,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The duration of the agent; null if it did not run.
    pub duration_s: Option<f64>,
    /// The exit code, 124 for a timeout; null if there is none.
    pub exit_code: Option<i32>,
    /// Thunderdome's name for how it ended.
    pub exit_reason: ExitReason,
    /// The outcome.
    pub outcome: Outcome,
    /// The status.
    pub status: TrialStatus,
    /// The scores of the evaluators, from 0 to 1, with Thunderdome's names if possible; null for
    /// evaluators with an error.
    #[serde(default)]
    pub scores: BTreeMap<String, Option<f64>>,
    /// The weighted mean of the scores, also for an agent that did not complete; null if an
    /// evaluator with a weight has an error.
    #[serde(default)]
    pub composite_score: Option<f64>,
    /// Whether the trial's budget was exhausted.
    #[serde(default)]
    pub budget_exceeded: bool,
    /// Tokens of all four kinds; null if unknown. These figures are the agent's own, such as those
    /// of its sidecar, or else the gateway's.
    pub total_tokens: Option<u64>,
    /// The cost; null if unknown.
    pub total_cost_usd: Option<Usd>,
    /// Input tokens, without cached ones; null if unknown.
    pub input_tokens: Option<u64>,
    /// Output tokens; null if unknown.
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache; null if unknown.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache; null if unknown.
    pub cache_creation_tokens: Option<u64>,
    /// The number of turns; null if unknown.
    pub turns: Option<u64>,
    /// The used tools; null if unknown.
    pub tools_used: Option<Vec<String>>,
    /// The agent's own duration, else that of its process; null if it did not run.
    pub duration_ms: Option<u64>,
    /// The source of the tokens above; null if they are unknown.
    #[serde(default)]
    pub usage_source: Option<UsageSource>,
    /// The gateway's account, which reports and budgets use; null without a gateway.
    #[serde(default)]
    pub gateway: Option<GatewayMeta>,
    /// Differences of more than 1 % between the two accounts.
    #[serde(default)]
    pub differences: Vec<String>,
}

/// The gateway's account of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayMeta {
    /// Calls that reached a model.
    pub calls: u64,
    /// Tokens of all four kinds; null if unknown.
    pub total_tokens: Option<u64>,
    /// Their cost; null if unknown.
    pub total_cost_usd: Option<Usd>,
    /// Input tokens, without cached ones; null if unknown.
    pub input_tokens: Option<u64>,
    /// Output tokens; null if unknown.
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache; null if unknown.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache; null if unknown.
    pub cache_creation_tokens: Option<u64>,
}

impl From<&GatewayRecord> for GatewayMeta {
    fn from(record: &GatewayRecord) -> GatewayMeta {
        let total = &record.total;
        GatewayMeta {
            calls: record.calls,
            total_tokens: total.all_tokens(),
            total_cost_usd: total.cost_usd,
            input_tokens: total.input_tokens,
            output_tokens: total.output_tokens,
            cache_read_tokens: total.cache_read_tokens,
            cache_creation_tokens: total.cache_creation_tokens,
        }
    }
}

/// Thunderdome's names for how an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It completed.
    Completed,
    /// It gave up.
    GaveUp,
    /// A limit ended it.
    Timeout,
    /// Any other end.
    Crashed,
}

impl Meta {
    /// The data of a finished trial.
    pub fn of(record: &Record) -> Meta {
        let process = record.process.as_ref();
        let sidecar = record.sidecar.as_ref();
        let usage = record.usage.as_ref();
        // Thunderdome's rule for this file: the sidecar, or else the gateway.
        let own = record.own_usage().or(usage);
        let tokens = own.filter(|own| own.tokens().is_some()).or(usage);
        let total = tokens.map(|usage| &usage.total);
        let cost = |usage: Option<&Usage>| usage.and_then(|usage| usage.total.cost_usd);
        Meta {
            orchestrator: record.agent.name.clone(),
            task: record.task.name.clone(),
            trial: record.trial,
            duration_s: record.agent_ms().map(|ms| ms as f64 / 1000.0),
            exit_code: match record.outcome {
                Outcome::Timeout => Some(TIMEOUT_CODE),
                _ => process.and_then(|process| process.exit_code),
            },
            exit_reason: match record.outcome {
                Outcome::Completed => ExitReason::Completed,
                Outcome::GaveUp => ExitReason::GaveUp,
                Outcome::Timeout => ExitReason::Timeout,
                _ => ExitReason::Crashed,
            },
            outcome: record.outcome,
            status: record.status,
            scores: scores(record),
            // The score of the evaluators, regardless of the agent's outcome.
            composite_score: record.score.as_ref().and_then(|score| score.judged),
            budget_exceeded: record.outcome == Outcome::BudgetExceeded,
            total_tokens: total.and_then(Figures::all_tokens),
            total_cost_usd: cost(own).or_else(|| cost(usage)),
            input_tokens: total.and_then(|total| total.input_tokens),
            output_tokens: total.and_then(|total| total.output_tokens),
            cache_read_tokens: total.and_then(|total| total.cache_read_tokens),
            cache_creation_tokens: total.and_then(|total| total.cache_creation_tokens),
            turns: record.turns,
            tools_used: sidecar
                .and_then(|sidecar| sidecar.tools_used.clone())
                .or_else(|| record.tools_used.clone()),
            duration_ms: sidecar
                .and_then(|sidecar| sidecar.duration_ms)
                .or(record.session_ms)
                .or_else(|| record.agent_ms()),
            usage_source: tokens.map(|usage| usage.source),
            gateway: record.gateway.as_ref().map(GatewayMeta::from),
            differences: record
                .gateway
                .iter()
                .flat_map(|gateway| gateway.differences.iter().cloned())
                .collect(),
        }
    }

    /// Writes the file into the trial's directory, after the patch: if it exists, both do.
    pub fn write(&self, folder: &Utf8Path) -> Result<(), StoreError> {
        let written = folder.join("artifacts").join(PATCH_FILE);
        let path = folder.join("diff.patch");
        if written.exists() && !path.exists() {
            let linked = fs::hard_link(&written, &path);
            let kept = linked.or_else(|_| fs::copy(&written, &path).map(drop));
            kept.map_err(|source| StoreError { path, source })?;
        }
        // If it is lost in a power cut, it is written again from the record.
        write_part(&folder.join(META_FILE), self)
    }
}

/// The score of each evaluator. A repeated name gets a number.
fn scores(record: &Record) -> BTreeMap<String, Option<f64>> {
    record.score.as_ref().map(meta_scores).unwrap_or_default()
}

/// The parts of a score with Thunderdome's names.
pub fn meta_scores(score: &Score) -> BTreeMap<String, Option<f64>> {
    let mut all = BTreeMap::new();
    let components = score.components.iter();
    for component in components.filter(|component| component.weight > 0.0) {
        let word = match component.evaluator.as_str() {
            "test_cmd" => "tests",
            "lint_cmd" | "lint" => "static_analysis",
            "build_cmd" => "build",
            other => other,
        };
        let mut name = word.to_owned();
        let mut number = 1;
        while all.contains_key(&name) {
            number += 1;
            name = format!("{word}-{number}");
        }
        all.insert(name, component.value);
    }
    all
}
