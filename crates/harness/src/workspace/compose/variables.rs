//! Variables in compose files: `$NAME`, `${NAME}` and `${NAME…}` with a default, an alternative or
//! an error; `$$` is a dollar sign.

use std::collections::{BTreeMap, BTreeSet};

use proctor_document::{Fault, Node, Span, Value};

/// Replaces variables, and collects the names of unset ones.
pub(super) struct Substitution<'a> {
    pub(super) values: &'a BTreeMap<String, String>,
    pub(super) unset: BTreeSet<String>,
    pub(super) faults: Vec<Fault>,
}

impl Substitution<'_> {
    /// Replaces the variables in all texts of a tree.
    pub(super) fn fill(&mut self, node: &mut Node) {
        match &mut node.value {
            Value::String(text) if text.contains('$') => *text = self.replace(text, node.span),
            Value::List(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, _, node)| self.fill(node)),
            _ => {}
        }
    }

    fn replace(&mut self, text: &str, span: Span) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            rest = if let Some(after) = after.strip_prefix('$') {
                filled.push('$');
                after
            } else if let Some(inside) = after.strip_prefix('{') {
                let Some(end) = closing(inside) else {
                    let message = format!("`{text}` has a variable without a closing brace");
                    self.faults.push(Fault::new(span, message));
                    return filled;
                };
                let value = self.expression(&inside[..end], span);
                filled.push_str(&value);
                &inside[end + 1..]
            } else {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                if end == 0 {
                    filled.push('$');
                } else {
                    filled.push_str(&self.value(&after[..end]));
                }
                &after[end..]
            };
        }
        filled + rest
    }

    /// The value of the text between the braces.
    fn expression(&mut self, text: &str, span: Span) -> String {
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, operation) = text.split_at(end);
        let (needs_text, operation) = match operation.strip_prefix(':') {
            Some(operation) => (true, operation),
            None => (false, operation),
        };
        let value = self.values.get(name);
        let value = value.filter(|value| !needs_text || !value.is_empty());
        let value = value.cloned();
        let word = operation.get(1..).unwrap_or_default();
        match (operation.chars().next(), value) {
            (None, _) => self.value(name),
            (Some('-'), None) | (Some('+'), Some(_)) => self.replace(word, span),
            (Some('-' | '?'), Some(value)) => value,
            (Some('+'), None) => String::new(),
            (Some('?'), None) => {
                let message = format!("the variable `{name}` is required: {word}");
                self.faults.push(Fault::new(span, message));
                String::new()
            }
            (Some(_), _) => {
                let message = format!("invalid variable `${{{text}}}`");
                self.faults.push(Fault::new(span, message));
                String::new()
            }
        }
    }

    /// The value of a variable; empty if it is unset, as in Compose.
    fn value(&mut self, name: &str) -> String {
        let value = self.values.get(name).cloned();
        value.unwrap_or_else(|| {
            self.unset.insert(name.to_owned());
            String::new()
        })
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The position of the brace that closes an expression, which may contain others.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_in_compose() {
        let values = [("A", "1"), ("EMPTY", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let values = values.into();
        for (text, expect, unset) in [
            ("$A-${A}", "1-1", ""),
            ("$$A $5", "$A ", "5"),
            ("${B}", "", "B"),
            ("${B:-x}${B-y}", "xy", ""),
            ("${EMPTY:-x}${EMPTY-y}", "x", ""),
            ("${A:+set}${B:+set}", "set", ""),
            ("${B:-${A:-z}}!", "1!", ""),
            ("${A:?needed}", "1", ""),
            ("cost: 5$", "cost: 5$", ""),
        ] {
            let mut all = Substitution {
                values: &values,
                unset: BTreeSet::new(),
                faults: Vec::new(),
            };
            assert_eq!(all.replace(text, Span::default()), expect, "{text}");
            let names: Vec<String> = all.unset.into_iter().collect();
            assert_eq!(names.join(","), unset, "{text}");
            assert!(all.faults.is_empty(), "{text}");
        }
    }

    #[test]
    fn missing_required_variables_and_braces_are_faults() {
        for text in ["${B:?needed}", "${A", "${A!b}"] {
            let values = BTreeMap::new();
            let mut all = Substitution {
                values: &values,
                unset: BTreeSet::new(),
                faults: Vec::new(),
            };
            all.replace(text, Span::default());
            assert_eq!(all.faults.len(), 1, "{text}");
        }
    }
}
