//! Results of Thunderdome itself: `runs/<time>/trials/<orchestrator>/<task>/trial-N/` with a
//! `meta.json` and a `diff.patch` each. Go writes 0 for a figure that was not measured, so a 0
//! there is unknown here.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use proctor_record::{
    fs::{LOCK_FILE, dir},
    outcome::Outcome,
    record::{META_FILE, PLAN_FILE, RECORD_FILE, TrialStatus},
    usage::{Figures, Usd},
};
use serde::Deserialize;
use serde_json::Value;

/// The patch of a trial, next to its `meta.json`.
pub const PATCH_FILE: &str = "diff.patch";

/// `meta.json` of Thunderdome, possibly changed by `rescore`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ForeignMeta {
    pub orchestrator: String,
    pub task: String,
    pub trial: u32,
    duration_s: Option<f64>,
    wall_clock_ms: Option<u64>,
    exit_reason: String,
    /// Numbers from 0 to 1, and flags.
    scores: BTreeMap<String, Value>,
    composite_score: Option<f64>,
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_creation_tokens: Option<u64>,
    total_cost_usd: Option<f64>,
    budget_exceeded: bool,
    greenfield: bool,
    /// Whether Thunderdome recorded that the agent did no work.
    no_agent_contribution: bool,
    /// Scores that could not be computed.
    pub validation_errors: Vec<String>,
    /// Why the trial could not be run.
    error: Option<String>,
    pub category: Option<String>,
    /// The status that `rescore` set.
    status: Option<TrialStatus>,
    /// Earlier judgements that `rescore` replaced.
    pub history: Vec<Value>,
}

impl ForeignMeta {
    /// Reads the `meta.json` of a trial's directory; missing values are taken from the path.
    pub fn read(folder: &Utf8Path) -> Result<ForeignMeta, String> {
        let bytes = fs::read(folder.join(META_FILE)).map_err(|error| error.to_string())?;
        let meta: ForeignMeta = serde_json::from_slice(&bytes)
            .map_err(|error| format!("invalid {META_FILE}: {error}"))?;
        let named = ForeignMeta::named_by(folder);
        let or = |own: String, other: String| if own.is_empty() { other } else { own };
        Ok(ForeignMeta {
            orchestrator: or(meta.orchestrator, named.orchestrator),
            task: or(meta.task, named.task),
            trial: if meta.trial == 0 {
                named.trial
            } else {
                meta.trial
            },
            ..meta
        })
    }

    /// The data in the path of a trial's directory: `<orchestrator>/<task>/trial-N`.
    pub fn named_by(folder: &Utf8Path) -> ForeignMeta {
        let mut names = folder.iter().rev().map(str::to_owned);
        let number = names.next().unwrap_or_default();
        let number = number.strip_prefix("trial-");
        ForeignMeta {
            trial: number.and_then(|number| number.parse().ok()).unwrap_or(1),
            task: names.next().unwrap_or_default(),
            orchestrator: names.next().unwrap_or_default(),
            ..ForeignMeta::default()
        }
    }

    /// The outcome of the trial.
    pub fn outcome(&self) -> Outcome {
        match self.exit_reason.as_str() {
            _ if self.failure().is_some() => Outcome::Sandbox,
            _ if self.budget_exceeded => Outcome::BudgetExceeded,
            "completed" => Outcome::Completed,
            "gave_up" => Outcome::GaveUp,
            "timeout" => Outcome::Timeout,
            _ => Outcome::AgentError,
        }
    }

    /// Why the trial is excluded, if it is.
    pub fn failure(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|error| !error.is_empty());
        match error {
            Some(error) => Some(error.clone()),
            None if self.no_agent_contribution => {
                Some("Thunderdome found no contribution of the agent".to_owned())
            }
            None => None,
        }
    }

    /// The status. Thunderdome has none, so a trial passed if the agent completed and all tests
    /// passed, or the hidden ones if there are any.
    pub fn status(&self) -> TrialStatus {
        let outcome = self.outcome();
        if outcome.is_infrastructure() {
            return TrialStatus::Error;
        }
        if let Some(status) = self.status {
            return status;
        }
        let scores = self.components();
        let named = |name: &str| scores.iter().find(|(key, _)| key == name).map(|it| it.1);
        let plain = named("tests").filter(|_| !self.greenfield);
        let tests = named("hidden_tests").or(plain);
        if outcome == Outcome::Completed && tests.is_some_and(|score| score >= 1.0) {
            TrialStatus::Passed
        } else {
            TrialStatus::Failed
        }
    }

    /// The composite score; `None` if the trial is excluded.
    pub fn score(&self) -> Option<f64> {
        let score = self.composite_score.filter(|score| score.is_finite());
        score.filter(|_| self.status() != TrialStatus::Error)
    }

    /// The components of the score.
    pub fn components(&self) -> Vec<(String, f64)> {
        let mut parts = ["hidden_tests", "agent_tests"].into_iter();
        let is_new = self.greenfield || parts.any(|part| self.scores.contains_key(part));
        let number = |(name, value): (&String, &Value)| {
            let value = value.as_f64().filter(|value| value.is_finite())?;
            // A new project has no component `tests`: its 0 means missing.
            let is_idle = is_new && name == "tests" && value == 0.0;
            (!is_idle).then(|| (name.clone(), value))
        };
        self.scores.iter().filter_map(number).collect()
    }

    /// The cost; `None` if it was not measured.
    pub fn cost_usd(&self) -> Option<Usd> {
        let cost = self.total_cost_usd.filter(|cost| *cost > 0.0);
        cost.and_then(Usd::from_dollars)
    }

    /// Input plus output, or the total where there is no more; `None` when they were not counted.
    pub fn tokens(&self) -> Option<u64> {
        let both = self.figures().tokens().or(self.total_tokens);
        both.filter(|tokens| *tokens > 0)
    }

    /// Cached input; `None` when it was not counted.
    pub fn cached_tokens(&self) -> Option<u64> {
        self.figures().cached_tokens().filter(|tokens| *tokens > 0)
    }

    fn figures(&self) -> Figures {
        Figures {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_creation_tokens: self.cache_creation_tokens,
            ..Figures::default()
        }
    }

    /// The duration of the agent.
    pub fn duration_ms(&self) -> Option<u64> {
        let seconds = self.duration_s.map(Duration::try_from_secs_f64);
        let by_seconds = seconds.and_then(Result::ok).map(|time| time.as_millis());
        let by_seconds = by_seconds.and_then(|ms| u64::try_from(ms).ok());
        self.wall_clock_ms.filter(|ms| *ms > 0).or(by_seconds)
    }

    /// Why it did not pass, in one line.
    pub fn message(&self) -> String {
        if self.status() == TrialStatus::Passed {
            return String::new();
        }
        if let Some(failure) = self.failure() {
            return failure;
        }
        match self.validation_errors.first() {
            Some(error) => error.clone(),
            None if self.outcome() == Outcome::Completed => "not all tests passed".to_owned(),
            None => format!("the outcome is {}", self.outcome().as_str()),
        }
    }
}

/// Whether a trial's directory is Thunderdome's: it has a `meta.json` and no record of ours.
pub fn is_trial(folder: &Utf8Path) -> bool {
    let record = folder.join("artifacts").join(RECORD_FILE);
    folder.join(META_FILE).is_file() && !record.exists()
}

/// The directories of the trials of a Thunderdome run; empty for any other directory.
pub fn trial_folders(run: &Utf8Path) -> Vec<Utf8PathBuf> {
    if run.join(PLAN_FILE).exists() || run.join(LOCK_FILE).exists() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for orchestrator in dir::subdirs(&run.join("trials")) {
        for task in dir::subdirs(&orchestrator) {
            let mut trials: Vec<(u32, Utf8PathBuf)> = dir::subdirs(&task)
                .into_iter()
                .filter_map(|folder| {
                    let number = folder.file_name()?.strip_prefix("trial-")?.parse().ok()?;
                    is_trial(&folder).then_some((number, folder))
                })
                .collect();
            trials.sort();
            found.extend(trials.into_iter().map(|(_, folder)| folder));
        }
    }
    found
}

/// Whether a directory is a Thunderdome run.
pub fn is_run(folder: &Utf8Path) -> bool {
    folder.join("trials").is_dir() && !trial_folders(folder).is_empty()
}

/// The runs of a Thunderdome results directory, the oldest first.
pub fn runs(results: &Utf8Path) -> Vec<Utf8PathBuf> {
    let found = dir::subdirs(&results.join("runs"));
    found.into_iter().filter(|run| is_run(run)).collect()
}

/// The start time of a Thunderdome run, from its name.
pub fn started_at(name: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y-%m-%dT%H-%M-%S", name).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(value: Value) -> ForeignMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn zero_in_a_go_file_is_unknown() {
        let meta = meta(json!({
            "exit_reason": "completed", "scores": {"tests": 1, "static_analysis": 0.5},
            "composite_score": 0.85, "total_tokens": 0, "total_cost_usd": 0, "duration_s": 26,
        }));
        assert_eq!(meta.tokens(), None);
        assert_eq!(meta.cost_usd(), None);
        assert_eq!(meta.duration_ms(), Some(26_000));
        assert_eq!(meta.score(), Some(0.85));
        assert_eq!(meta.status(), TrialStatus::Passed);
    }

    #[test]
    fn exit_reasons_are_outcomes_and_harness_failures_are_excluded() {
        for (more, outcome, status) in [
            (
                json!({"exit_reason": "gave_up"}),
                Outcome::GaveUp,
                TrialStatus::Failed,
            ),
            (
                json!({"exit_reason": "timeout"}),
                Outcome::Timeout,
                TrialStatus::Failed,
            ),
            (
                json!({"exit_reason": "crashed"}),
                Outcome::AgentError,
                TrialStatus::Failed,
            ),
            (
                json!({"exit_reason": "completed", "budget_exceeded": true}),
                Outcome::BudgetExceeded,
                TrialStatus::Failed,
            ),
            (
                json!({"exit_reason": "crashed", "error": "no such image"}),
                Outcome::Sandbox,
                TrialStatus::Error,
            ),
            (
                json!({"exit_reason": "crashed", "no_agent_contribution": true}),
                Outcome::Sandbox,
                TrialStatus::Error,
            ),
        ] {
            let mut value = json!({"composite_score": 0.3, "scores": {"tests": 1}});
            let object = value.as_object_mut().unwrap();
            object.extend(more.as_object().unwrap().clone());
            let meta = meta(value);
            assert_eq!((meta.outcome(), meta.status()), (outcome, status), "{more}");
            let score = (status != TrialStatus::Error).then_some(0.3);
            assert_eq!(meta.score(), score, "{more}");
        }
    }

    #[test]
    fn new_project_passes_by_its_hidden_tests() {
        let scores = json!({"tests": 0, "agent_tests": 1, "coverage_measured": true});
        let new = meta(json!({"exit_reason": "completed", "greenfield": true, "scores": scores}));
        assert_eq!(new.status(), TrialStatus::Failed);
        assert_eq!(new.components(), [("agent_tests".to_owned(), 1.0)]);
        let scores = json!({"tests": 0.5, "hidden_tests": 1});
        let old = meta(json!({"exit_reason": "completed", "scores": scores}));
        assert_eq!(old.status(), TrialStatus::Passed);
    }

    #[test]
    fn name_of_a_run_is_its_time() {
        let at = started_at("2026-02-12T15-25-21").unwrap();
        assert_eq!(at.to_string(), "2026-02-12T15:25:21Z");
        assert_eq!(started_at("latest"), None);
    }
}
