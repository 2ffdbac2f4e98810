//! The type of a YAML scalar: the core schema of YAML 1.2, so that `yes`, `1_000` and `12:30` are
//! text, unless there is a tag.

use serde_saphyr::granit_parser::{ScalarStyle, Tag};

use crate::node::Value;

/// Resolves a scalar.
pub(crate) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match tag {
        Some(tag) => tagged(text, tag),
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(Value::String(text.to_owned())),
    }
}

fn tagged(text: &str, tag: &Tag) -> Result<Value, String> {
    let name = tag.original();
    if name == "!" {
        return Ok(Value::String(text.to_owned()));
    }
    let value = match (tag.core_suffix(), plain(text)) {
        (Some("str"), _) => Value::String(text.to_owned()),
        (Some("null"), value @ Value::Null)
        | (Some("bool"), value @ Value::Bool(_))
        | (Some("int"), value @ Value::Int(_))
        | (Some("float"), value @ Value::Float(_)) => value,
        (Some("float"), Value::Int(whole)) => Value::Float(whole as f64),
        (Some("null" | "bool" | "int" | "float"), _) => {
            return Err(format!("{text:?} does not match the tag `{name}`"));
        }
        _ => return Err(format!("unsupported tag `{name}`")),
    };
    Ok(value)
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    whole(text)
        .map(Value::Int)
        .or_else(|| float(text).map(Value::Float))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn whole(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    text.parse().ok()
}

fn radix(digits: &str, radix: u32) -> Option<i64> {
    let unsigned = digits.chars().all(|c| c.is_digit(radix));
    unsigned.then(|| i64::from_str_radix(digits, radix).ok())?
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let negative = text.starts_with('-');
        return Some(if negative {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        });
    }
    // Rust also parses `inf`, `nan` and `infinity`, which are text in YAML.
    let starts = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let numeric = unsigned
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+'));
    (starts & numeric).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Value) {
        assert_eq!(&plain(text), expected, "{text}");
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        check("", &Value::Null);
        check("~", &Value::Null);
        check("True", &Value::Bool(true));
        check("12", &Value::Int(12));
        check("-0", &Value::Int(0));
        check("+7", &Value::Int(7));
        check("0o17", &Value::Int(15));
        check("0xfF", &Value::Int(255));
        check("1.5", &Value::Float(1.5));
        check("1e3", &Value::Float(1000.0));
        check(".5", &Value::Float(0.5));
        check("-.inf", &Value::Float(f64::NEG_INFINITY));
        check("99999999999999999999", &Value::Float(1e20));
    }

    #[test]
    fn words_of_older_yaml_are_text() {
        for text in [
            "yes", "off", "1_000", "12:30", "nan", "inf", "0x", "0o8", "1.2.3", "e5", ".",
        ] {
            check(text, &Value::String(text.to_owned()));
        }
    }
}
