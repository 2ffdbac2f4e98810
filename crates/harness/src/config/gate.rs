//! The `gate` section of a suite: the rules that a run must keep.

use std::collections::BTreeMap;

use proctor_document::{Fault, Node, Value};
use proctor_report::{OnUndecided, Rule};
use schemars::JsonSchema;
use serde::Deserialize;

use super::either::Either;

/// The rules of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateSettings {
    /// The rules.
    pub rules: Vec<Rule>,
    /// The name of the saved baseline.
    pub baseline: Option<String>,
    /// How undecided rules count.
    pub undecided: Option<OnUndecided>,
}

/// A rule, such as `passed >= 80%`. In YAML, `every task: pass^3` is a map.
pub(super) type RuleAsWritten = Either<String, BTreeMap<String, String>>;

/// `gate`, when it is a map.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GateAsWritten {
    /// The rules, such as `passed >= 80%`.
    #[schemars(with = "Vec<RuleAsWritten>", length(min = 1))]
    rules: Node,
    /// The saved baseline that rules about changes compare with.
    baseline: Option<String>,
    /// How undecided rules count; the exit code is 4 by default.
    undecided: Option<UndecidedAsWritten>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum UndecidedAsWritten {
    /// As if they held.
    Pass,
    /// As if they were broken.
    Fail,
}

impl GateSettings {
    /// Reads the section; invalid rules are faults.
    pub(super) fn read(node: &Node, faults: &mut Vec<Fault>) -> Option<GateSettings> {
        if let Value::List(_) = node.value {
            return Some(GateSettings {
                rules: rules(node, faults),
                ..GateSettings::default()
            });
        }
        let written: GateAsWritten = node.read_collecting(faults)?;
        Some(GateSettings {
            rules: rules(&written.rules, faults),
            baseline: written.baseline,
            undecided: written.undecided.map(|it| match it {
                UndecidedAsWritten::Pass => OnUndecided::Pass,
                UndecidedAsWritten::Fail => OnUndecided::Fail,
            }),
        })
    }
}

fn rules(node: &Node, faults: &mut Vec<Fault>) -> Vec<Rule> {
    let items = match &node.value {
        Value::List(items) if !items.is_empty() => items.as_slice(),
        _ => {
            let fault = Fault::new(node.span, "`gate` needs a list of rules");
            faults.push(fault.with_hint("write a list such as [passed >= 80%]"));
            &[]
        }
    };
    let mut rules = Vec::new();
    for item in items {
        match text(item).map(|text| text.parse::<Rule>()) {
            Some(Ok(rule)) => rules.push(rule),
            Some(Err(error)) => {
                let message = format!("column {} of the rule: {}", error.column, error.why);
                faults.push(Fault::new(item.span, message).with_hint(error.hint));
            }
            None => {
                let fault = Fault::new(item.span, "a rule must be text");
                faults.push(fault.with_hint("write a rule such as `passed >= 80%`"));
            }
        }
    }
    rules
}

/// The text of a rule. `every task: pass^3` is a map with one entry.
fn text(item: &Node) -> Option<String> {
    match &item.value {
        Value::String(text) => Some(text.clone()),
        Value::Map(entries) => match entries.as_slice() {
            [(_, key, value)] => Some(format!("{key}: {}", value.as_str()?)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    #[test]
    fn rules_are_read_from_a_list_or_a_map() {
        let mut faults = Vec::new();
        let list = parse_yaml("- passed >= 80%\n- every task: pass^3\n").unwrap();
        let list = GateSettings::read(&list, &mut faults).unwrap();
        let texts: Vec<&str> = list.rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(texts, ["passed >= 80%", "every task: pass^3"]);
        let map = parse_yaml("{rules: [score >= 0.5], baseline: main, undecided: fail}").unwrap();
        let map = GateSettings::read(&map, &mut faults).unwrap();
        assert_eq!(map.baseline.as_deref(), Some("main"));
        assert_eq!(map.undecided, Some(OnUndecided::Fail));
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn invalid_rules_are_faults_at_their_position() {
        let text = "[pased >= 80%, 3, {a: b, c: d}]";
        let node = parse_yaml(text).unwrap();
        let mut faults = Vec::new();
        GateSettings::read(&node, &mut faults);
        let messages: Vec<&str> = faults.iter().map(|it| it.message.as_str()).collect();
        let not_text = "a rule must be text";
        assert_eq!(
            messages,
            ["column 1 of the rule: unknown metric", not_text, not_text]
        );
        assert!(faults.iter().all(|fault| fault.hint.is_some()));
        let mut faults = Vec::new();
        GateSettings::read(&parse_yaml("[]").unwrap(), &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
