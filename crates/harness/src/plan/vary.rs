//! `vary`: what may differ between the variants of a suite. A comparison of agents that differ in anything else would
//! not say what made the difference.

use std::collections::BTreeMap;

use proctor_document::{ConfigError, Fault};
use proctor_record::record::definition::{DefinitionChange, changes};
use serde_json::{Value, json};

use super::{ResolvedSuite, TrialPlan};
use crate::config::VARIED_KEYS;

/// Fails if variants differ in anything that `vary` does not list.
pub(super) fn check(suite: &ResolvedSuite, pairs: &[TrialPlan]) -> Result<(), ConfigError> {
    let Some((vary, span)) = &suite.vary else {
        return Ok(());
    };
    let groups = groups(suite, pairs);
    let mut faults = Vec::new();
    let allowed: Vec<String> = vary.iter().map(|entry| pointer(entry)).collect();
    for group in groups {
        let Some(((first, one), others)) = group.split_first() else {
            continue;
        };
        for (name, other) in others {
            let more = not_allowed(one, other, &allowed);
            if !more.is_empty() {
                let more: Vec<String> = more.iter().map(ToString::to_string).collect();
                let message = format!(
                    "`{first}` and `{name}` differ in more than `vary` allows: {}",
                    more.join("; ")
                );
                let hint = "make them equal, or add what differs to `vary`";
                faults.push(Fault::new(*span, message).with_hint(hint));
            }
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(suite.source.error(faults))
    }
}

/// The agents that are compared with each other: the variants of an agent; without any variants, all agents with a
/// prompt.
fn groups<'a>(suite: &'a ResolvedSuite, pairs: &'a [TrialPlan]) -> Vec<Vec<(&'a str, &'a Value)>> {
    let has_variants = suite.agents.iter().any(|it| it.variant_of.is_some());
    let mut groups: BTreeMap<&str, Vec<(&str, &Value)>> = BTreeMap::new();
    for agent in &suite.agents {
        let mut pairs = pairs.iter();
        let Some(pair) = pairs.find(|pair| pair.name == agent.name) else {
            continue;
        };
        let group = match &agent.variant_of {
            Some(parent) => parent.as_str(),
            None if !has_variants && pair.agent.prompt().is_some() => "",
            None => continue,
        };
        if let Some(definitions) = &pair.definitions {
            let member = (agent.name.as_str(), &definitions.agent.text);
            groups.entry(group).or_default().push(member);
        }
    }
    groups.into_values().collect()
}

/// The JSON pointer of an entry of `vary`: a pointer, a key of agents, or an option of `config`.
fn pointer(entry: &str) -> String {
    if entry.starts_with('/') {
        entry.trim_end_matches('/').to_owned()
    } else if VARIED_KEYS.contains(&entry) {
        format!("/{entry}")
    } else {
        format!("/config/{entry}")
    }
}

/// The differences that no pointer covers.
fn not_allowed(one: &Value, other: &Value, allowed: &[String]) -> Vec<DefinitionChange> {
    let is_covered = |pointer: &str| {
        let covers = |it: &String| {
            let rest = pointer.strip_prefix(it.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        allowed.iter().any(covers)
    };
    let mut found = Vec::new();
    for change in changes(one, other) {
        let leads_to = |it: &&String| it.starts_with(&format!("{}/", change.pointer));
        match (&change.before, &change.after) {
            _ if is_covered(&change.pointer) => {}
            // A whole object of which some entries may differ.
            (None, Some(Value::Object(_))) | (Some(Value::Object(_)), None)
                if allowed.iter().any(|it| leads_to(&it)) =>
            {
                let empty = json!({});
                let sides = [&change.before, &change.after].map(|it| it.as_ref().unwrap_or(&empty));
                for mut inner in changes(sides[0], sides[1]) {
                    inner.pointer = format!("{}{}", change.pointer, inner.pointer);
                    if !is_covered(&inner.pointer) {
                        found.push(inner);
                    }
                }
            }
            _ => found.push(change),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(vary: &[&str], one: &Value, other: &Value, expected: &[&str]) {
        let allowed: Vec<String> = vary.iter().map(|it| pointer(it)).collect();
        let found = not_allowed(one, other, &allowed);
        let found: Vec<&str> = found.iter().map(|it| it.pointer.as_str()).collect();
        assert_eq!(found, expected, "{vary:?}");
    }

    #[test]
    fn difference_that_is_not_listed_is_found() {
        let one = &json!({"model": "a", "config": {"x": 1, "y": 1}, "files": {"A": 1}});
        let other = &json!({"model": "b", "config": {"x": 2, "y": 1}});
        check(&["model", "x", "files"], one, other, &[]);
        check(&["model", "/config", "/files/A"], one, other, &[]);
        check(&["files"], one, other, &["/config/x", "/model"]);
        check(
            &["model", "/files/B"],
            one,
            other,
            &["/config/x", "/files/A"],
        );
        check(
            &["/mod"],
            one,
            &json!({"model": "a"}),
            &["/config", "/files"],
        );
    }
}
