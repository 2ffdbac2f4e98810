//! Variants of agents in a report: whether their treatment reached the model, and all differences of their definitions.

use std::collections::BTreeMap;

use proctor_record::record::{
    definition::changes,
    delivery::{DeliverySummary, sum_delivery},
};
use serde_json::json;

use crate::trials::{AgentRow, Trials};

/// The delivery of each part of each agent's treatment.
pub(crate) fn delivery(trials: &Trials) -> Vec<DeliverySummary> {
    let rows = trials.trials.iter();
    sum_delivery(rows.map(|trial| {
        let agent = trials.agents[trial.agent].name.as_str();
        (agent, trial.delivery.as_slice())
    }))
}

/// Parts that were not delivered, and the differences between variants.
pub(crate) fn about_treatments(
    trials: &Trials,
    delivery: &[DeliverySummary],
    notes: &mut Vec<String>,
) {
    notes.extend(delivery.iter().filter_map(DeliverySummary::warning));
    let mut groups: BTreeMap<&str, Vec<&AgentRow>> = BTreeMap::new();
    for row in &trials.agents {
        let mut runs = trials.runs.iter();
        if let Some(parent) = runs.find_map(|run| run.variants.get(&row.agent)) {
            groups.entry(parent).or_default().push(row);
        }
    }
    for (parent, rows) in groups {
        for pair in rows.windows(2) {
            let differences = differences(rows[0], pair[1]);
            notes.push(format!(
                "variants of {parent}: {} and {} differ in {differences}.",
                rows[0].name, pair[1].name
            ));
        }
    }
}

/// All differences between the definitions of two agents.
fn differences(one: &AgentRow, other: &AgentRow) -> String {
    let (Some(before), Some(after)) = (&one.definition, &other.definition) else {
        return "parts that are not on record".to_owned();
    };
    let (Some(one), Some(other)) = (&before.text, &after.text) else {
        return before.differences(after);
    };
    let mut found = changes(one, other);
    let facts = changes(&json!(before.record.found), &json!(after.record.found));
    found.extend(facts);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    if found.is_empty() {
        return "nothing".to_owned();
    }
    found.join("; ")
}
