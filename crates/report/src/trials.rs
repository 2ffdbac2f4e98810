//! The data of a trial in reports: a row of a few figures, regardless of the size of the record.
//! Tables, comparisons and saved baselines are made from sets of rows.

use camino::Utf8PathBuf;
use proctor_record::{
    outcome::Outcome,
    record::{GatewayRecord, Record, SandboxRecord, TrialStatus, score::Score},
    usage::{Usage, Usd},
};
use serde::{Deserialize, Serialize};

use crate::foreign::ForeignMeta;

/// The longest message that a row keeps, in characters.
const LONGEST_MESSAGE: usize = 300;

/// Trials of one or more runs, with the agents and tasks that they name by number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// The runs, in the order in which they were named.
    pub runs: Vec<RunRow>,
    /// The agents, by name.
    pub agents: Vec<AgentRow>,
    /// The tasks, by name.
    pub tasks: Vec<TaskRow>,
    /// The trials, by agent, task, run and number.
    pub trials: Vec<Trial>,
}

/// A run that trials come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The name of its folder.
    pub name: String,
    /// Its folder, while trials are read from it; no part of any report.
    #[serde(skip)]
    pub folder: Utf8PathBuf,
    /// Whether it was running when it was read.
    #[serde(default)]
    pub is_running: bool,
    /// Trials that were planned and have no record.
    #[serde(default)]
    pub not_run: usize,
    /// Records that could not be read, by their folders.
    #[serde(default)]
    pub unreadable: Vec<String>,
}

/// A contender, and all that was seen under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its name.
    pub name: String,
    /// The kinds of agent that it was; more than one when runs differ.
    pub kinds: Vec<String>,
    /// Its versions.
    pub versions: Vec<String>,
    /// The models that answered.
    pub models: Vec<String>,
}

/// A task, and all that was seen under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its name.
    pub name: String,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The hashes of its definition; more than one when it was changed between trials.
    pub hashes: Vec<String>,
    /// Where its trials executed.
    pub places: Vec<String>,
    /// Settings of its definition that had no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The number of its agent.
    pub agent: usize,
    /// The number of its task.
    pub task: usize,
    /// The number of its run.
    pub run: usize,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The verdict.
    pub status: TrialStatus,
    /// What became of it.
    pub outcome: Outcome,
    /// Its score; null when nothing can be said of the agent.
    pub score: Option<f64>,
    /// The cost; null if unknown.
    pub cost_usd: Option<Usd>,
    /// How long the agent worked; null when it did not.
    pub duration_ms: Option<u64>,
    /// All tokens, cached ones included; null when unknown.
    pub tokens: Option<u64>,
    /// Whether the session was cut off: cost and tokens are at least these.
    #[serde(default)]
    pub is_lower_bound: bool,
    /// Where the agent's own figures differ from the gateway's, which are the ones above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Judges of which no gateway saw a model answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified_judges: Vec<String>,
    /// The components of its score.
    pub components: Vec<Component>,
    /// Why it did not pass, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its folder, below that of its run.
    pub folder: Utf8PathBuf,
    /// Where the row was read from.
    #[serde(default, skip_serializing_if = "RowSource::is_record")]
    pub source: RowSource,
}

/// Where a row was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowSource {
    /// A record of ours.
    #[default]
    Record,
    /// The `meta.json` of a run of Thunderdome's.
    ThunderdomeMeta,
}

impl RowSource {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    fn is_record(&self) -> bool {
        *self == RowSource::Record
    }

    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            RowSource::Record => "record",
            RowSource::ThunderdomeMeta => "thunderdome_meta",
        }
    }
}

/// A part of a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Which.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// The score of a trial: `None` when nothing can be said of the agent.
pub fn score_of(record: &Record) -> Option<f64> {
    let score = scored(record)?.value;
    score.is_finite().then_some(score)
}

/// The score of the record; that of a record from before there were scores is made now.
fn scored(record: &Record) -> Option<Score> {
    let made = || Score::of(record.outcome, record.status, &record.verdicts);
    record.score.clone().or_else(made)
}

/// The components of a trial's score; a repeated evaluator has a number.
pub fn components_of(record: &Record) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    let parts = scored(record).map(|score| score.components);
    for part in parts.into_iter().flatten() {
        let Some(value) = part.value.filter(|value| value.is_finite()) else {
            continue;
        };
        let base = tame(&part.evaluator);
        let alike = |it: &&Component| {
            let rest = it.name.strip_prefix(base.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" #"))
        };
        let name = match components.iter().filter(alike).count() {
            0 => base,
            before => format!("{base} #{}", before + 1),
        };
        components.push(Component { name, value });
    }
    components
}

fn unverified_judges(record: &Record) -> Vec<String> {
    let verdicts = record.verdicts.iter();
    let unverified = verdicts.filter(|it| it.metrics.get("unverified") == Some(&true.into()));
    unverified.map(|it| tame(&it.evaluator)).collect()
}

impl Trial {
    /// The row of a record, not yet numbered.
    pub fn of(record: &Record, folder: Utf8PathBuf) -> Trial {
        // Records of older versions have the agent's own figures here, and the gateway's beside.
        let counted = record.gateway.as_ref().and_then(GatewayRecord::usage);
        let usage = Usage::settled(record.own_usage(), counted);
        let usage = usage.as_ref();
        Trial {
            agent: 0,
            task: 0,
            run: 0,
            trial: record.trial,
            status: record.status,
            outcome: record.outcome,
            score: score_of(record),
            cost_usd: usage.and_then(|usage| usage.total.cost_usd),
            duration_ms: record.agent_ms(),
            tokens: usage.and_then(Usage::all_tokens),
            is_lower_bound: usage.is_some_and(|usage| usage.lower_bound),
            differences: record
                .gateway
                .iter()
                .flat_map(|gateway| gateway.differences.iter().cloned())
                .collect(),
            unverified_judges: unverified_judges(record),
            components: components_of(record),
            message: message(record),
            folder,
            source: RowSource::Record,
        }
    }

    /// The row of a `meta.json` that Thunderdome wrote, not yet numbered.
    pub fn of_foreign(meta: &ForeignMeta, folder: Utf8PathBuf) -> Trial {
        let component = |(name, value): (String, f64)| Component {
            name: tame(&name),
            value,
        };
        let message = tame(&meta.message());
        Trial {
            agent: 0,
            task: 0,
            run: 0,
            trial: meta.trial,
            status: meta.status(),
            outcome: meta.outcome(),
            score: meta.score(),
            cost_usd: meta.cost_usd(),
            duration_ms: meta.duration_ms(),
            tokens: meta.tokens(),
            is_lower_bound: false,
            differences: Vec::new(),
            unverified_judges: Vec::new(),
            components: meta.components().into_iter().map(component).collect(),
            message: message.chars().take(LONGEST_MESSAGE).collect(),
            folder,
            source: RowSource::ThunderdomeMeta,
        }
    }
}

impl Trial {
    /// Why it has no score, in a word or two; empty when it has one.
    pub fn exclusion(&self) -> &'static str {
        match self.status {
            _ if self.score.is_some() => "",
            TrialStatus::Interrupted => "interrupted",
            TrialStatus::Error if self.outcome.is_infrastructure() => self.outcome.as_str(),
            TrialStatus::Error => "evaluator error",
            TrialStatus::Passed | TrialStatus::Failed => "no evaluator counts",
        }
    }
}

/// Why a trial did not pass: its first verdict that is none, else its first error.
fn message(record: &Record) -> String {
    use proctor_record::record::VerdictStatus::{Error, Failed};
    if record.status == TrialStatus::Passed {
        return String::new();
    }
    let verdicts = record.verdicts.iter();
    let verdict = verdicts
        .filter(|verdict| matches!(verdict.status, Failed | Error))
        .map(|verdict| format!("{}: {}", verdict.evaluator, verdict.message));
    let errors = record.errors.iter().map(|error| error.message.clone());
    let first = if record.outcome == Outcome::Completed {
        verdict.chain(errors).next()
    } else {
        errors.chain(verdict).next()
    };
    let text = first.unwrap_or_else(|| format!("the outcome is {}", record.outcome.as_str()));
    tame(&text).chars().take(LONGEST_MESSAGE).collect()
}

/// A text on one line and without control characters.
pub fn tame(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").replace(is_direction, "")
}

/// Characters that turn the order of what is read around.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Where a trial executed, in a few words.
pub(super) fn place_of(record: &Record) -> String {
    match &record.sandbox {
        SandboxRecord::Local => "local".to_owned(),
        SandboxRecord::Docker(container) => format!("container, network {}", container.network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_wrote_is_one_harmless_line() {
        assert_eq!(tame("a\n\x1b[31mb\tc\u{202e}d  "), "a [31mb cd");
    }
}
