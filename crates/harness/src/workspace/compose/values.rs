//! Values of compose files in their several notations.

use std::{collections::BTreeMap, time::Duration};

use proctor_document::{Node, Value};

/// A scalar as text; `None` for lists, maps and nothing.
pub(super) fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::String(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// A list of scalars, or one scalar.
pub(super) fn texts(node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::List(items) => items.iter().map(text).collect(),
        Value::Null => Some(Vec::new()),
        _ => text(node).map(|one| vec![one]),
    }
}

/// A command: a list, or a line that is split like a shell does.
pub(super) fn command(node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::String(line) => shell_words::split(line).ok(),
        _ => texts(node),
    }
}

/// A map, or a list of `NAME=value`. Names without a value are left out: they would be variables of
/// this machine.
pub(super) fn pairs(node: &Node) -> Option<BTreeMap<String, String>> {
    match &node.value {
        Value::Null => Some(BTreeMap::new()),
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .filter(|(_, _, node)| node.value != Value::Null);
            entries
                .map(|(_, key, node)| Some((key.clone(), text(node)?)))
                .collect()
        }
        Value::List(items) => {
            let mut found = BTreeMap::new();
            for item in items {
                let line = text(item)?;
                if let Some((name, value)) = line.split_once('=') {
                    found.insert(name.to_owned(), value.to_owned());
                }
            }
            Some(found)
        }
        _ => None,
    }
}

/// The lines of an environment file.
pub(super) fn env_file(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|line| line.strip_prefix("export ").unwrap_or(line));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), unquoted(value.trim()).to_owned()))
        .collect()
}

fn unquoted(value: &str) -> &str {
    let quotes = ['"', '\''];
    let inside = quotes.iter().find_map(|quote| {
        let value = value.strip_prefix(*quote)?;
        value.strip_suffix(*quote)
    });
    // Without quotes a comment may follow.
    inside.unwrap_or_else(|| value.split(" #").next().unwrap_or(value).trim_end())
}

/// A duration such as `1m30s` or `500ms`.
pub(super) fn duration(node: &Node) -> Option<Duration> {
    let text = text(node)?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut rest = text.as_str();
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// A size in bytes such as `512m`, `1gb` or `64`.
pub(super) fn bytes(node: &Node) -> Option<u64> {
    let text = text(node)?.to_ascii_lowercase();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_shl(shift);
    }
    let number: f64 = number.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are positive and far smaller than 2^53"
    )]
    let bytes = (number * 2f64.powi(shift.cast_signed())) as u64;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proctor_document::Span;

    use super::*;

    fn node(text: &str) -> Node {
        Node {
            span: Span::default(),
            value: Value::String(text.to_owned()),
        }
    }

    #[test]
    fn durations_and_sizes_are_read() {
        for (text, expect) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("2", Some(2_000)),
            ("1.5s", Some(1_500)),
            ("soon", None),
            ("5x", None),
        ] {
            assert_eq!(
                duration(&node(text)),
                expect.map(Duration::from_millis),
                "{text}"
            );
        }
        for (text, expect) in [
            ("512m", Some(512 << 20)),
            ("1G", Some(1 << 30)),
            ("2gb", Some(2 << 30)),
            ("64", Some(64)),
            ("0.5g", Some(1 << 29)),
            ("much", None),
        ] {
            assert_eq!(bytes(&node(text)), expect, "{text}");
        }
    }

    #[test]
    fn environment_files_have_comments_and_quotes() {
        let read = env_file("# no\nA=1\n\nexport B=\"x y\" \nC='#'\nD=z # why\nbad\n");
        let expect = [("A", "1"), ("B", "x y"), ("C", "#"), ("D", "z")];
        let expect = expect.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(read, expect.into());
    }
}
