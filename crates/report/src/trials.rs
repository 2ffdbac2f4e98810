//! The data of a trial in reports: a row of a few figures, regardless of the size of the record.
//! Tables, comparisons and saved baselines are computed from sets of rows.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_record::{
    outcome::Outcome,
    record::{
        GatewayRecord, LONGEST_REASON, Record, SandboxRecord, TrialStatus,
        delivery::DeliveryRecord,
        score::{Score, exclusion},
    },
    text::one_line,
    usage::{Usage, Usd},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definitions::{Defined, DefinitionRow},
    foreign::ForeignMeta,
};

/// Trials of one or more runs, which refer to agents and tasks by index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// The runs, in the given order.
    pub runs: Vec<RunRow>,
    /// The agents, by name.
    pub agents: Vec<AgentRow>,
    /// The tasks, by name.
    pub tasks: Vec<TaskRow>,
    /// The trials, by agent, task, run and number.
    pub trials: Vec<Trial>,
    /// The trials that run now, in the same order. Figures leave them out.
    #[serde(skip)]
    pub active: Vec<Trial>,
}

impl Trials {
    /// The trials that have ended, then those that run now.
    pub fn all(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().chain(&self.active)
    }

    /// A trial by its number in [`Trials::all`].
    pub fn get(&self, number: usize) -> Option<&Trial> {
        let active = || self.active.get(number.checked_sub(self.trials.len())?);
        self.trials.get(number).or_else(active)
    }
}

/// A run of trials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The name of its directory.
    pub name: String,
    /// Its directory, while trials are read; not part of a report.
    #[serde(skip)]
    pub folder: Utf8PathBuf,
    /// The suite's file as given by the user, while trials are read; not part of a report.
    #[serde(skip)]
    pub suite: Option<String>,
    /// The agents that are variants, with the agents that they are variants of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, String>,
    /// The plan of its experiment, while trials are read; not part of a report.
    #[serde(skip)]
    pub experiment: Option<RegisteredPlan>,
    /// Whether it was running when it was read.
    #[serde(default)]
    pub is_running: bool,
    /// Planned trials without a record.
    #[serde(default)]
    pub not_run: usize,
    /// Unreadable records, by directory.
    #[serde(default)]
    pub unreadable: Vec<String>,
}

/// The plan of an experiment, and how its run deviates from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredPlan {
    /// The plan.
    pub document: Value,
    /// The digest of the plan before the first trial; `None` in runs of older versions.
    pub digest: Option<String>,
    /// How the run deviates from the plan; empty if it is as planned.
    pub deviations: Vec<String>,
}

/// An agent, with all data under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its name, with the digest of its definition if another agent has the same name.
    pub name: String,
    /// Its name in the records.
    #[serde(default)]
    pub agent: String,
    /// Its definition; absent if a record of it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRow>,
    /// The agent types; several if runs differ.
    pub kinds: Vec<String>,
    /// Its versions.
    pub versions: Vec<String>,
    /// The models that answered.
    pub models: Vec<String>,
}

/// A task, with all data under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its name, with the digest of its definition if another task has the same name.
    pub name: String,
    /// Its name in the records.
    #[serde(default)]
    pub task: String,
    /// Its definition, with that of its evaluators; absent if a record of it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRow>,
    /// The category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The hashes of its files; more than one when they were changed between trials.
    pub hashes: Vec<String>,
    /// The sandboxes of its trials.
    pub places: Vec<String>,
    /// Settings of its definition without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl AgentRow {
    /// The row of an agent of this name, of which nothing else is known.
    pub fn named(name: &str, definition: Option<DefinitionRow>) -> AgentRow {
        AgentRow {
            name: one_line(name),
            agent: one_line(name),
            definition,
            ..AgentRow::default()
        }
    }
}

impl TaskRow {
    /// The row of a task of this name, of which nothing else is known.
    pub fn named(name: &str, definition: Option<DefinitionRow>) -> TaskRow {
        TaskRow {
            name: one_line(name),
            task: one_line(name),
            definition,
            ..TaskRow::default()
        }
    }
}

impl Defined for AgentRow {
    fn own_name(&self) -> &str {
        // Baselines of older versions do not have it.
        if self.agent.is_empty() {
            &self.name
        } else {
            &self.agent
        }
    }

    fn definition(&self) -> Option<&DefinitionRow> {
        self.definition.as_ref()
    }

    fn set_name(&mut self, name: String) {
        self.name = name;
    }

    fn merge(&mut self, other: AgentRow) {
        add(&mut self.kinds, other.kinds);
        add(&mut self.versions, other.versions);
        add(&mut self.models, other.models);
    }
}

impl Defined for TaskRow {
    fn own_name(&self) -> &str {
        if self.task.is_empty() {
            &self.name
        } else {
            &self.task
        }
    }

    fn definition(&self) -> Option<&DefinitionRow> {
        self.definition.as_ref()
    }

    fn set_name(&mut self, name: String) {
        self.name = name;
    }

    fn merge(&mut self, other: TaskRow) {
        add(&mut self.hashes, other.hashes);
        add(&mut self.places, other.places);
        add(&mut self.notes, other.notes);
    }
}

/// Adds new values, in order.
fn add(seen: &mut Vec<String>, values: Vec<String>) {
    for value in values {
        if let Err(place) = seen.binary_search(&value) {
            seen.insert(place, value);
        }
    }
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The index of its agent.
    pub agent: usize,
    /// The index of its task.
    pub task: usize,
    /// The index of its run.
    pub run: usize,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The status.
    pub status: TrialStatus,
    /// The outcome.
    pub outcome: Outcome,
    /// The score; null if the trial is excluded.
    pub score: Option<f64>,
    /// The cost; null if unknown.
    pub cost_usd: Option<Usd>,
    /// The duration of the agent; null if it did not run.
    pub duration_ms: Option<u64>,
    /// Input plus output, without cached input; null when unknown.
    pub tokens: Option<u64>,
    /// Input that was read from or written to the prompt cache; null when unknown.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    /// Whether the session was interrupted: cost and tokens are lower bounds.
    #[serde(default)]
    pub is_lower_bound: bool,
    /// Differences between the agent's own figures and the gateway's, which are used above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Judges without a model call through the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified_judges: Vec<String>,
    /// The parts of the agent's treatment, and whether they reached the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivery: Vec<DeliveryRecord>,
    /// The components of its score.
    pub components: Vec<Component>,
    /// The rewards of a Harbor task that has several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rewards: BTreeMap<String, f64>,
    /// Why it did not pass, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its directory, relative to its run.
    pub folder: Utf8PathBuf,
    /// The source of the row.
    #[serde(default, skip_serializing_if = "RowSource::is_record")]
    pub source: RowSource,
}

/// The source of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowSource {
    /// A record.
    #[default]
    Record,
    /// The `meta.json` of a Thunderdome run.
    ThunderdomeMeta,
}

impl RowSource {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_record(&self) -> bool {
        *self == RowSource::Record
    }

    /// The name in files.
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
    /// The name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// The score of a trial; `None` if the trial is excluded.
pub fn score_of(record: &Record) -> Option<f64> {
    let score = scored(record)?.value;
    score.is_finite().then_some(score)
}

/// The score of the record; computed for records of older versions.
fn scored(record: &Record) -> Option<Score> {
    let made = || Score::of(record.outcome, record.status, &record.verdicts);
    record.score.clone().or_else(made)
}

/// The components of a trial's score; a repeated evaluator gets a number.
pub fn components_of(record: &Record) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    let parts = scored(record).map(|score| score.components);
    for part in parts.into_iter().flatten() {
        let Some(value) = part.value.filter(|value| value.is_finite()) else {
            continue;
        };
        let base = one_line(&part.evaluator);
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

/// The rewards of a Harbor task by key; empty if there is only the one that is the score.
fn rewards_of(record: &Record) -> BTreeMap<String, f64> {
    let verdict = record.verdicts.iter().find(|it| it.is_reward());
    let rewards = verdict.and_then(|it| it.metrics.get("rewards")?.as_object());
    let rewards = rewards.filter(|rewards| rewards.len() > 1).into_iter();
    let is_void = verdict.is_some_and(|it| it.metrics.contains_key("tampered"));
    let value = |(name, value): (&String, &Value)| {
        let value = value.as_f64().filter(|value| value.is_finite())?;
        Some((one_line(name), if is_void { 0.0 } else { value }))
    };
    rewards.flatten().filter_map(value).collect()
}

fn unverified_judges(record: &Record) -> Vec<String> {
    let verdicts = record.verdicts.iter();
    let unverified = verdicts.filter(|it| it.metrics.get("unverified") == Some(&true.into()));
    unverified.map(|it| one_line(&it.evaluator)).collect()
}

impl Trial {
    /// The row of a record, without indices.
    pub fn of(record: &Record, folder: Utf8PathBuf) -> Trial {
        // Records of older versions have the agent's own figures here, and the gateway's separately.
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
            tokens: usage.and_then(Usage::tokens),
            cached_tokens: usage.and_then(Usage::cached_tokens),
            is_lower_bound: usage.is_some_and(|usage| usage.lower_bound),
            differences: record
                .gateway
                .iter()
                .flat_map(|gateway| gateway.differences.iter().cloned())
                .collect(),
            unverified_judges: unverified_judges(record),
            delivery: record.delivery.clone(),
            components: components_of(record),
            rewards: rewards_of(record),
            message: record.reason().unwrap_or_default(),
            folder,
            source: RowSource::Record,
        }
    }

    /// The row of Thunderdome's `meta.json`, without indices.
    pub fn of_foreign(meta: &ForeignMeta, folder: Utf8PathBuf) -> Trial {
        let component = |(name, value): (String, f64)| Component {
            name: one_line(&name),
            value,
        };
        let message = one_line(&meta.message());
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
            cached_tokens: meta.cached_tokens(),
            is_lower_bound: false,
            differences: Vec::new(),
            unverified_judges: Vec::new(),
            delivery: Vec::new(),
            components: meta.components().into_iter().map(component).collect(),
            rewards: BTreeMap::new(),
            message: message.chars().take(LONGEST_REASON).collect(),
            folder,
            source: RowSource::ThunderdomeMeta,
        }
    }
}

impl Trial {
    /// Why it is excluded, in a few words; empty if it has a score.
    pub fn exclusion(&self) -> &'static str {
        match self.score {
            Some(_) => "",
            None => exclusion(self.status, self.outcome),
        }
    }
}

/// The sandbox of a trial, in a few words.
pub(super) fn place_of(record: &Record) -> String {
    match &record.sandbox {
        SandboxRecord::Local => "local".to_owned(),
        SandboxRecord::Docker(container) => format!("container, network {}", container.network),
    }
}
