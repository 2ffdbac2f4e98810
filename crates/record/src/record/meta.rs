//! `meta.json`: one trial in Thunderdome's format, ours a superset of it. Beside it lie the
//! patch and the artifacts.

use std::collections::BTreeMap;

use camino::Utf8Path;
use fs_err as fs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GatewayRecord, META_FILE, PATCH_FILE, Record, StoreError, TrialStatus, write_part};
use crate::{
    outcome::Outcome,
    record::score::Score,
    usage::{Usage, UsageSource, Usd},
};

/// The exit code of an agent that ran out of time, as `timeout` and Thunderdome have it.
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
    /// How long the agent ran; null when it did not.
    pub duration_s: Option<f64>,
    /// Its exit code, 124 for one that ran out of time; null when there is none.
    pub exit_code: Option<i32>,
    /// Thunderdome's word for how it ended.
    pub exit_reason: ExitReason,
    /// What became of it.
    pub outcome: Outcome,
    /// The verdict.
    pub status: TrialStatus,
    /// The scores of the evaluators, from 0 to 1, under Thunderdome's names where possible; null
    /// for evaluators with an error.
    #[serde(default)]
    pub scores: BTreeMap<String, Option<f64>>,
    /// The mean of them by their weights, also for an agent that did not complete; null when an
    /// evaluator that counts could not tell.
    #[serde(default)]
    pub composite_score: Option<f64>,
    /// Whether the money of the trial ran out.
    #[serde(default)]
    pub budget_exceeded: bool,
    /// Tokens of all four kinds; null when unknown. These figures are the agent's own, such as
    /// those of its sidecar, and the gateway's where it gives none.
    pub total_tokens: Option<u64>,
    /// The cost; null if unknown.
    pub total_cost_usd: Option<Usd>,
    /// Tokens sent, cached ones not included; null when unknown.
    pub input_tokens: Option<u64>,
    /// Tokens received; null when unknown.
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache; null when unknown.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache; null when unknown.
    pub cache_creation_tokens: Option<u64>,
    /// Turns; null when unknown.
    pub turns: Option<u64>,
    /// The tools that were used; null when unknown.
    pub tools_used: Option<Vec<String>>,
    /// How long the agent worked, by its own account, else that of its process; null when it did
    /// not run.
    pub duration_ms: Option<u64>,
    /// Where the tokens above come from; null when they are unknown.
    #[serde(default)]
    pub usage_source: Option<UsageSource>,
    /// The gateway's account, which reports and budgets use; null without a gateway.
    #[serde(default)]
    pub gateway: Option<GatewayMeta>,
    /// Where the two accounts differ by more than 1 %.
    #[serde(default)]
    pub differences: Vec<String>,
}

/// The gateway's account of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayMeta {
    /// Calls that reached a model.
    pub calls: u64,
    /// Tokens of all four kinds; null when unknown.
    pub total_tokens: Option<u64>,
    /// Their cost; null if unknown.
    pub total_cost_usd: Option<Usd>,
    /// Tokens sent, cached ones not included; null when unknown.
    pub input_tokens: Option<u64>,
    /// Tokens received; null when unknown.
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache; null when unknown.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache; null when unknown.
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

/// Thunderdome's words for how an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It was done.
    Completed,
    /// It gave up.
    GaveUp,
    /// A limit ended it.
    Timeout,
    /// Anything else.
    Crashed,
}

impl Meta {
    /// The account of a finished trial.
    pub fn of(record: &Record) -> Meta {
        let process = record.process.as_ref();
        let sidecar = record.sidecar.as_ref();
        let usage = record.usage.as_ref();
        // Thunderdome's rule for this file: the sidecar first, the gateway where there is none.
        let own = record.own_usage().or(usage);
        let tokens = own.filter(|own| own.all_tokens().is_some()).or(usage);
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
            total_tokens: tokens.and_then(Usage::all_tokens),
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

    /// Write it into the trial's folder, after the patch beside it: where it is, both are.
    pub fn write(&self, folder: &Utf8Path) -> Result<(), StoreError> {
        let written = folder.join("artifacts").join(PATCH_FILE);
        let path = folder.join("diff.patch");
        if written.exists() && !path.exists() {
            let linked = fs::hard_link(&written, &path);
            let kept = linked.or_else(|_| fs::copy(&written, &path).map(drop));
            kept.map_err(|source| StoreError { path, source })?;
        }
        // Should it be missing after a power cut, it is made again from the record.
        write_part(&folder.join(META_FILE), self)
    }
}

/// The score of each evaluator. A repeated name gets a number.
fn scores(record: &Record) -> BTreeMap<String, Option<f64>> {
    record.score.as_ref().map(meta_scores).unwrap_or_default()
}

/// The parts of a score by Thunderdome's words.
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
