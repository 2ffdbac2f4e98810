//! Definitions of agents and tasks in reports. Trials of different definitions are rows of their own, with names of
//! their own, so that no figure is ever made of both.

use std::collections::{BTreeMap, BTreeSet};

use proctor_record::record::definition::{DefinitionRecord, changes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The fewest digits of a digest in a name.
const SHORTEST: usize = 6;
/// Differences beyond these are counted only.
const MOST_DIFFERENCES: usize = 4;

/// The definition of an agent or a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionRow {
    /// Its digest, and the parts of it.
    #[serde(flatten)]
    pub record: DefinitionRecord,
    /// The planned definition; null when the run's plan is not there.
    pub text: Option<Value>,
}

impl DefinitionRow {
    /// The definition of an agent. The plan of its run has the texts.
    pub fn of_agent(record: &DefinitionRecord, texts: &BTreeMap<String, Value>) -> DefinitionRow {
        DefinitionRow {
            record: record.clone(),
            text: texts.get(&record.planned).cloned(),
        }
    }

    /// The definition of a task, with that of the evaluators that judged it.
    pub fn of_task(
        record: &DefinitionRecord,
        evaluators: Option<&str>,
        texts: &BTreeMap<String, Value>,
    ) -> DefinitionRow {
        let planned = format!("{}+{}", record.planned, evaluators.unwrap_or("unknown"));
        let mut whole = DefinitionRecord::new(&planned);
        for (name, value) in &record.found {
            whole.find(name, value);
        }
        let judging = evaluators.and_then(|digest| texts.get(digest));
        let both = texts.get(&record.planned).zip(judging);
        DefinitionRow {
            record: whole,
            text: both.map(|(task, judging)| json!({"task": task, "judging": judging})),
        }
    }

    /// The differences between two definitions, in words; empty if there is none.
    pub fn differences(&self, other: &DefinitionRow) -> String {
        if self.record.digest == other.record.digest {
            return String::new();
        }
        let is_same_plan = self.record.planned == other.record.planned;
        let known = self.text.is_some() && other.text.is_some();
        if !is_same_plan && !known {
            return "a part that is not on record: a run's plan.json is missing".to_owned();
        }
        let whole = |row: &DefinitionRow| json!({"plan": row.text, "found": row.record.found});
        let mut found = changes(&whole(self), &whole(other));
        if is_same_plan {
            found.retain(|change| !change.pointer.starts_with("/plan"));
        }
        let mut shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        if shown.len() > MOST_DIFFERENCES {
            let more = shown.len() - MOST_DIFFERENCES;
            shown.truncate(MOST_DIFFERENCES);
            shown.push(format!("and {more} more"));
        }
        shown.join("; ")
    }
}

/// A row with a definition: an agent or a task.
pub(crate) trait Defined {
    /// The name in the records.
    fn own_name(&self) -> &str;
    /// The definition; `None` if the record has none.
    fn definition(&self) -> Option<&DefinitionRow>;
    /// Set the unique name in reports.
    fn set_name(&mut self, name: String);
    /// Take over what was seen in another row of the same definition.
    fn merge(&mut self, other: Self);
}

/// Rows by name and definition.
pub(crate) struct Rows<Row> {
    rows: Vec<Row>,
    numbers: BTreeMap<(String, Option<String>), usize>,
}

impl<Row> Default for Rows<Row> {
    fn default() -> Rows<Row> {
        Rows {
            rows: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }
}

impl<Row: Defined> Rows<Row> {
    /// Add what was seen in a record; the number of its row.
    pub(crate) fn add(&mut self, row: Row) -> usize {
        let digest = row.definition().map(|it| it.record.digest.clone());
        let key = (row.own_name().to_owned(), digest);
        if let Some(number) = self.numbers.get(&key) {
            self.rows[*number].merge(row);
            return *number;
        }
        self.numbers.insert(key, self.rows.len());
        self.rows.push(row);
        self.rows.len() - 1
    }

    /// The rows by name and digest, each with a name of its own, and the new number of each row. `scored` are the rows
    /// with a score: one without may have ended before all facts of its definition were known, and belongs to the
    /// row that has them.
    pub(crate) fn finish(self, scored: &BTreeSet<usize>) -> (Vec<Row>, Vec<usize>) {
        let order: Vec<usize> = self.numbers.into_values().collect();
        let targets: Vec<usize> = (0..self.rows.len())
            .map(|number| {
                if scored.contains(&number) {
                    number
                } else {
                    complete(number, &order, &self.rows).unwrap_or(number)
                }
            })
            .collect();
        let mut rows: Vec<Option<Row>> = self.rows.into_iter().map(Some).collect();
        let mut sorted = Vec::new();
        let mut numbers = vec![0; rows.len()];
        for number in order.iter().copied().filter(|it| targets[*it] == *it) {
            numbers[number] = sorted.len();
            sorted.extend(rows[number].take());
        }
        for number in order.into_iter().filter(|it| targets[*it] != *it) {
            numbers[number] = numbers[targets[number]];
            if let Some(row) = rows[number].take() {
                sorted[numbers[number]].merge(row);
            }
        }
        name_apart(&mut sorted);
        (sorted, numbers)
    }
}

/// The row that has all facts of the definition of another one.
fn complete<Row: Defined>(number: usize, order: &[usize], rows: &[Row]) -> Option<usize> {
    let own = &rows[number].definition()?.record;
    let facts = |other: usize| {
        rows[other]
            .definition()
            .map_or(0, |it| it.record.found.len())
    };
    let has_all = |other: &usize| {
        let definition = rows[*other].definition();
        rows[*other].own_name() == rows[number].own_name()
            && definition.is_some_and(|it| own.is_part_of(&it.record))
    };
    let all = order.iter().copied().filter(has_all);
    // The first of those that know most.
    all.rev().max_by_key(|other| facts(*other))
}

/// Give rows that share a name names of their own.
fn name_apart<Row: Defined>(rows: &mut [Row]) {
    let mut used: BTreeSet<String> = rows.iter().map(|it| it.own_name().to_owned()).collect();
    for group in rows.chunk_by_mut(|one, other| one.own_name() == other.own_name()) {
        if group.len() == 1 {
            continue;
        }
        for row in group {
            let name = apart(row, &used);
            used.insert(name.clone());
            row.set_name(name);
        }
    }
}

fn apart<Row: Defined>(row: &Row, used: &BTreeSet<String>) -> String {
    let name = row.own_name();
    let Some(definition) = row.definition() else {
        return format!("{name} (definition unknown)");
    };
    let digest = &definition.record.digest;
    let label = |length: usize| {
        let short = digest.get(..length).unwrap_or(digest);
        format!("{name} (definition {short})")
    };
    let mut lengths = SHORTEST..digest.len();
    let length = lengths.find(|length| !used.contains(&label(*length)));
    label(length.unwrap_or(digest.len()))
}

/// The keys of tasks by which two sets of trials are paired: equal if the tasks have the same name and definition.
/// A task without a digest is paired by its name, which cannot be checked.
pub(crate) fn shared_keys<Row: Defined>(
    ones: &[Row],
    others: &[Row],
) -> (Vec<String>, Vec<String>) {
    let named = |rows: &[Row], name: &str| rows.iter().filter(|it| it.own_name() == name).count();
    let lacks = |rows: &[Row], name: &str| {
        let mut own = rows.iter().filter(|it| it.own_name() == name);
        own.any(|it| it.definition().is_none())
    };
    let key = |row: &Row| {
        let name = row.own_name();
        let is_unknown = lacks(ones, name) || lacks(others, name);
        let is_single = named(ones, name) <= 1 && named(others, name) <= 1;
        match row.definition() {
            _ if is_unknown && is_single => name.to_owned(),
            Some(definition) => format!("{name}\n{}", definition.record.digest),
            None => format!("{name}\n"),
        }
    };
    let all = |rows: &[Row]| rows.iter().map(key).collect();
    (all(ones), all(others))
}
