//! The criteria of a judge, with weights and anchors, as a map or a list.

use std::collections::BTreeMap;

use proctor_document::{Fault, Node, Value};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

/// One criterion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Criterion {
    /// Its id in the answer.
    pub(super) id: String,
    /// The condition.
    pub(super) text: String,
    /// The weight.
    pub(super) weight: f64,
    /// The meaning of scores, lowest first. Without anchors 0 means not at all and 1 means fully.
    pub(super) anchors: Vec<(f64, String)>,
}

/// A criterion as a map.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Criterion")]
struct CriterionAsWritten {
    /// Its id, in a list.
    id: Option<String>,
    /// The condition; `criterion` in Thunderdome's format.
    #[serde(alias = "criterion")]
    description: String,
    /// The weight. Default 1.
    weight: Option<f64>,
    /// The meaning of scores: `{0: …, 0.5: …, 1: …}`. The lowest and the highest define the scale.
    #[serde(default)]
    anchors: BTreeMap<String, String>,
}

impl Criterion {
    /// The lowest and the highest score.
    pub(super) fn scale(&self) -> (f64, f64) {
        match (self.anchors.first(), self.anchors.last()) {
            (Some((low, _)), Some((high, _))) => (*low, *high),
            _ => (0.0, 1.0),
        }
    }

    /// A score relative to its scale, from 0 to 1.
    pub(super) fn share(&self, score: f64) -> f64 {
        let (low, high) = self.scale();
        (score - low) / (high - low)
    }
}

/// The criteria under `criteria` or `assertions`.
pub(super) fn read(config: &Node) -> Result<Vec<Criterion>, Fault> {
    let (key, node) = match (config.get("criteria"), config.get("assertions")) {
        (Some(_), Some(_)) => {
            let message = "`criteria` and `assertions` cannot be combined";
            return Err(config
                .fault("assertions", message)
                .with_hint("remove one of them"));
        }
        (Some(node), None) => ("criteria", node),
        (None, Some(node)) => ("assertions", node),
        (None, None) => {
            let message = "missing key `criteria`";
            let hint =
                "describe the conditions, such as `criteria: {tested: The change has tests}`";
            return Err(Fault::new(config.span, message).with_hint(hint));
        }
    };
    let criteria: Vec<Criterion> = match &node.value {
        Value::Map(entries) => entries
            .iter()
            .map(|(_, id, item)| criterion(item, Some(id), 0))
            .collect::<Result<_, _>>()?,
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| criterion(item, None, at + 1))
            .collect::<Result<_, _>>()?,
        other => {
            let message = format!("expected a map or a list, found {other}");
            return Err(config.fault(key, message));
        }
    };
    if criteria.is_empty() {
        return Err(config.fault(key, format!("`{key}` is empty")));
    }
    for (at, one) in criteria.iter().enumerate() {
        if criteria[..at].iter().any(|other| other.id == one.id) {
            let message = format!("duplicate criterion `{}`", one.id);
            return Err(config.fault(key, message));
        }
    }
    if criteria
        .iter()
        .map(|criterion| criterion.weight)
        .sum::<f64>()
        <= 0.0
    {
        return Err(config.fault(key, "no criterion has a weight above 0"));
    }
    Ok(criteria)
}

fn criterion(item: &Node, id: Option<&str>, number: usize) -> Result<Criterion, Fault> {
    let written = match &item.value {
        Value::String(text) => CriterionAsWritten {
            id: None,
            description: text.clone(),
            weight: None,
            anchors: BTreeMap::new(),
        },
        _ => item.read()?,
    };
    if let (Some(_), Some(_)) = (id, &written.id) {
        let message = "`id` has no effect here: the key is the id";
        return Err(Fault::new(item.key_span_of("id"), message));
    }
    if written.description.trim().is_empty() {
        return Err(Fault::new(item.span, "a criterion is empty"));
    }
    let weight = written.weight.unwrap_or(1.0);
    if !(weight >= 0.0 && weight.is_finite()) {
        return Err(item.fault("weight", "`weight` must be at least 0"));
    }
    let id = id.map(str::to_owned).or(written.id);
    Ok(Criterion {
        id: id.unwrap_or_else(|| format!("criterion-{number}")),
        text: written.description,
        weight,
        anchors: anchors(&written.anchors, item)?,
    })
}

fn anchors(written: &BTreeMap<String, String>, item: &Node) -> Result<Vec<(f64, String)>, Fault> {
    let mut anchors = Vec::new();
    for (score, text) in written {
        let number = score.parse::<f64>().ok().filter(|score| score.is_finite());
        let Some(number) = number else {
            let message = format!("invalid score `{score}`");
            return Err(item.fault("anchors", message));
        };
        anchors.push((number, text.clone()));
    }
    anchors.sort_by(|one, other| one.0.total_cmp(&other.0));
    anchors.dedup_by(|one, other| one.0.total_cmp(&other.0).is_eq());
    match anchors.len() {
        1 => Err(item.fault("anchors", "`anchors` requires at least two scores")),
        _ => Ok(anchors),
    }
}

/// The criteria as recorded in the verdict.
pub(super) fn asked(criteria: &[Criterion]) -> Map<String, Json> {
    let entry = |one: &Criterion| {
        let anchors: Vec<Json> = one
            .anchors
            .iter()
            .map(|(score, text)| json!({ "score": score, "means": text }))
            .collect();
        let mut entry = Map::new();
        entry.insert("description".to_owned(), json!(one.text));
        entry.insert("weight".to_owned(), json!(one.weight));
        if !anchors.is_empty() {
            entry.insert("anchors".to_owned(), json!(anchors));
        }
        (one.id.clone(), Json::Object(entry))
    };
    criteria.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    fn ids(yaml: &str) -> Result<Vec<String>, String> {
        let read = read(&parse_yaml(yaml).unwrap()).map_err(|fault| fault.message)?;
        Ok(read.into_iter().map(|one| one.id).collect())
    }

    #[test]
    fn criteria_can_be_a_map_or_a_list() {
        let map = "criteria: {a: It works, b: {description: It is tested, weight: 2}}";
        assert_eq!(ids(map).unwrap(), ["a", "b"]);
        let list = "assertions: [It works, {id: tested, description: It is tested}]";
        assert_eq!(ids(list).unwrap(), ["criterion-1", "tested"]);
    }

    #[test]
    fn thunderdome_criteria_keep_their_weights() {
        let yaml = "criteria: [{criterion: It works, weight: 3}, {criterion: It is short}]";
        let read = read(&parse_yaml(yaml).unwrap()).unwrap();
        let weights: Vec<_> = read
            .iter()
            .map(|it| (it.text.as_str(), it.weight))
            .collect();
        assert_eq!(weights, [("It works", 3.0), ("It is short", 1.0)]);
    }

    #[test]
    fn anchors_define_the_scale() {
        let yaml = "criteria: {a: {description: x, anchors: {5: all, 1: none, 3: some}}}";
        let read = read(&parse_yaml(yaml).unwrap()).unwrap();
        assert_eq!(read[0].scale(), (1.0, 5.0));
        assert!((read[0].share(3.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn empty_and_duplicate_criteria_are_refused() {
        for (yaml, message) in [
            ("{}", "missing key `criteria`"),
            ("criteria: []", "`criteria` is empty"),
            (
                "{criteria: [x], assertions: [y]}",
                "`criteria` and `assertions` cannot be combined",
            ),
            (
                "criteria: [{id: a, description: x}, {id: a, description: y}]",
                "duplicate criterion `a`",
            ),
            (
                "criteria: {a: {description: x, weight: 0}}",
                "no criterion has a weight above 0",
            ),
            (
                "criteria: {a: {description: x, anchors: {1: y}}}",
                "`anchors` requires at least two scores",
            ),
            ("criteria: {a: {descripton: x}}", "unknown key `descripton`"),
            ("criteria: {a: \" \"}", "a criterion is empty"),
        ] {
            assert_eq!(ids(yaml).unwrap_err(), message, "{yaml}");
        }
    }
}
