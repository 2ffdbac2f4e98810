//! Parses a TOML file into a tree of `Node`s, so that faults have positions as in YAML.

use toml::de::{DeTable, DeValue};

use crate::{
    fault::Fault,
    node::{Node, Value},
    span::Span,
};

/// Parses a TOML document.
pub(crate) fn parse(text: &str) -> Result<Node, Vec<Fault>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let fault = |error: toml::de::Error| {
            let span = error.span().unwrap_or_default();
            Fault::new(span_of(&span), error.message().to_owned())
        };
        return Err(errors.into_iter().map(fault).collect());
    }
    let span = span_of(&root.span());
    Ok(Node {
        span,
        value: table(root.get_ref()),
    })
}

fn span_of(range: &std::ops::Range<usize>) -> Span {
    Span {
        start: range.start,
        end: range.end,
    }
}

fn table(entries: &DeTable<'_>) -> Value {
    let mut entries: Vec<(Span, String, Node)> = entries
        .iter()
        .map(|(key, value)| {
            let node = Node {
                span: span_of(&value.span()),
                value: node_value(value.get_ref()),
            };
            (span_of(&key.span()), key.get_ref().to_string(), node)
        })
        .collect();
    entries.sort_by_key(|(span, _, _)| span.start);
    Value::Map(entries)
}

fn node_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Int),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| Value::String(number.as_str().to_owned()), Value::Float),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Node {
                    span: span_of(&item.span()),
                    value: node_value(item.get_ref()),
                })
                .collect(),
        ),
        DeValue::Table(entries) => table(entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_positions() {
        let text = "a = 1\n[t]\nb = \"x\" # c\n[[l]]\nn = 0x10\n[[l]]\nf = 1.5\n";
        let root = parse(text).unwrap();
        let b = root.get("t").and_then(|t| t.get("b")).unwrap();
        assert_eq!(&text[b.span.start..b.span.end], "\"x\"");
        assert_eq!(b.as_str(), Some("x"));
        let Value::List(items) = &root.get("l").unwrap().value else {
            panic!("a list of tables");
        };
        assert_eq!(items[0].get("n").unwrap().value, Value::Int(16));
        assert_eq!(items[1].get("f").unwrap().value, Value::Float(1.5));
    }

    #[test]
    fn invalid_toml_is_reported_with_its_position() {
        let faults = parse("a = 1\na = 2\nb = \n").unwrap_err();
        assert!(faults.len() >= 2, "{faults:?}");
        assert!(
            faults.iter().all(|fault| fault.span.start > 0),
            "{faults:?}"
        );
    }
}
