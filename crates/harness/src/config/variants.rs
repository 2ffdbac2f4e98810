//! Variants of a suite's agents: each inherits the agent's section and overrides single keys.

use proctor_document::{Fault, Node, Span, Value};

use super::suite::SuiteAgent;

/// The key of the list.
const KEY: &str = "variants";
/// Keys whose entries are overridden one by one.
const MERGED: [&str; 3] = ["config", "files", "retry"];

/// Keys of agents that variants can differ in, as in their definitions.
pub(crate) const VARIED_KEYS: [&str; 13] = [
    "type",
    "model",
    "version",
    "agent_name",
    "config",
    "files",
    "skills",
    "prompt_prefix",
    "prompt_suffix",
    "prompt_template",
    "ref",
    "retry",
    "loop",
];

/// Adds a fault for each entry of `vary` that names nothing.
pub(super) fn check_vary(
    vary: &[String],
    span: Span,
    agents: &[SuiteAgent],
    faults: &mut Vec<Fault>,
) {
    for entry in vary {
        let is_option = |agent: &SuiteAgent| agent.spec.config.get(entry).is_some();
        let is_known = entry.starts_with('/') || VARIED_KEYS.contains(&entry.as_str());
        if !is_known && !agents.iter().any(is_option) {
            let message = format!("unknown entry `{entry}` of `vary`");
            let names = VARIED_KEYS.join(", ");
            let hint = format!("write a JSON pointer, an option of `config`, or one of: {names}");
            faults.push(Fault::new(span, message).with_hint(hint));
        }
    }
}

/// The sections of an agent: one for each variant, or its own. The second part is the agent's name if it has variants.
pub(super) fn expand(item: &Node) -> Result<(Vec<Node>, Option<String>), Fault> {
    let mut base = item.clone();
    let Some((span, _, list)) = base.remove(KEY) else {
        return Ok((vec![base], None));
    };
    let variants = match list.value {
        Value::List(variants) if !variants.is_empty() => variants,
        Value::List(_) => return Err(Fault::new(span, "`variants` is empty")),
        other => {
            let message = format!("expected a list of variants, found {other}");
            return Err(Fault::new(span, message));
        }
    };
    let name = base.remove("name").map(|(_, _, name)| name);
    let name = name.as_ref().or_else(|| base.get("type"));
    let name = name.and_then(Node::as_str).unwrap_or("auto").to_owned();
    let sections = variants.into_iter().map(|variant| {
        if !matches!(variant.value, Value::Map(_)) {
            let message = format!("expected a map, found {}", variant.value);
            return Err(Fault::new(variant.span, message));
        }
        if variant.get("name").is_none() {
            let fault = Fault::new(variant.span, "a variant requires a `name`");
            return Err(fault.with_hint("it becomes the agent's name in results"));
        }
        if variant.get(KEY).is_some() {
            let message = "a variant cannot have `variants`";
            return Err(Fault::new(variant.key_span_of(KEY), message));
        }
        Ok(merged(&base, variant))
    });
    Ok((sections.collect::<Result<_, _>>()?, Some(name)))
}

/// `base` with the keys of `variant`.
fn merged(base: &Node, variant: Node) -> Node {
    let mut merged = base.clone();
    merged.span = variant.span;
    let Value::Map(own) = variant.value else {
        return merged;
    };
    for (span, key, node) in own {
        let is_merged = MERGED.contains(&key.as_str());
        let value = match merged.get(&key) {
            Some(inherited) if is_merged && both_maps(inherited, &node) => {
                self::merged(inherited, node)
            }
            _ => node,
        };
        merged.remove(&key);
        if let Value::Map(entries) = &mut merged.value {
            entries.push((span, key, value));
        }
    }
    merged
}

fn both_maps(one: &Node, other: &Node) -> bool {
    matches!((&one.value, &other.value), (Value::Map(_), Value::Map(_)))
}
