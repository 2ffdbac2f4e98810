//! The fingerprint of a request: its content without ids, dates, times, paths and long numbers.

use std::fmt::Write;

use proctor_model_api::Wire;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::secrets::Redactor;

/// Members that say who asks or when, never what.
const DROPPED: &[&str] = &[
    "metadata",
    "client_metadata",
    "prompt_cache_key",
    "safety_identifier",
    "user",
    "session_id",
    "previous_response_id",
];

/// Members with generated values.
const IDS: &[&str] = &[
    "id",
    "tool_use_id",
    "call_id",
    "tool_call_id",
    "signature",
    "encrypted_content",
    "thoughtSignature",
    "item_id",
];

/// The number of differences in a report.
const MOST_DIFFERENCES: usize = 20;

/// A request in the form that is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestFingerprint {
    pub(crate) fingerprint: String,
    pub(crate) wire: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// One place where two requests differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The place, as a JSON pointer.
    pub at: String,
    /// The recorded value.
    pub recorded: String,
    /// The value of the request.
    pub asked: String,
}

impl RequestFingerprint {
    pub(crate) fn new(wire: Wire, path: &str, body: &[u8], redactor: &Redactor) -> Self {
        let wire = format!("{wire:?}");
        let path = redactor.text(path);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let body = normal(body, redactor);
        let mut hash = Sha256::new();
        hash.update(format!("{wire}\n{path}\n{body}"));
        let mut fingerprint = String::new();
        for byte in hash.finalize() {
            write!(fingerprint, "{byte:02x}").expect("writing to a string cannot fail");
        }
        Self {
            fingerprint,
            wire,
            path: path.into_owned(),
            body,
        }
    }
}

fn normal(value: Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&redactor.text(&text))),
        Value::Array(items) => items
            .into_iter()
            .map(|item| normal(item, redactor))
            .collect(),
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(name, _)| !DROPPED.contains(&name.as_str()));
            let normal = kept.map(|(name, value)| {
                let made_up = value.is_string() && IDS.contains(&name.as_str());
                let value = if made_up {
                    "<id>".into()
                } else {
                    normal(value, redactor)
                };
                (name, value)
            });
            Value::Object(normal.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// A text with everything that varies replaced by what it is.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let starts_word = !(before.is_alphanumeric() || before == '_');
        let found = if starts_word {
            varying(rest, before)
        } else {
            None
        };
        let length = if let Some((length, name)) = found {
            out.push_str(name);
            length
        } else {
            out.push(first);
            first.len_utf8()
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    out
}

/// Something that varies at the start of this text: its length and its name.
fn varying(text: &str, before: char) -> Option<(usize, &'static str)> {
    let first = text.as_bytes()[0];
    if first == b'/' && before != '<' {
        return path(text).map(|length| (length, "<path>"));
    }
    if !first.is_ascii_alphanumeric() {
        return None;
    }
    let word = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    uuid(text)
        .or_else(|| id(text, word))
        .map(|length| (length, "<id>"))
        .or_else(|| date(text).map(|length| (length, "<date>")))
        .or_else(|| time(text).map(|length| (length, "<time>")))
        .or_else(|| number(text, word))
}

fn path(text: &str) -> Option<usize> {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@~".contains(byte);
    let length = text.bytes().take_while(part).count();
    // Two parts at least: a lone `/word` is more often a command than a path.
    let parts = text[..length]
        .split('/')
        .filter(|part| !part.is_empty())
        .count();
    (parts >= 2).then_some(length)
}

fn uuid(text: &str) -> Option<usize> {
    const SHAPE: &[u8] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let bytes = text.as_bytes();
    let fits = bytes.len() >= SHAPE.len()
        && SHAPE.iter().zip(bytes).all(|(shape, byte)| match shape {
            b'x' => byte.is_ascii_hexdigit(),
            other => byte == other,
        });
    fits.then_some(SHAPE.len())
}

/// Ids as providers make them: a short name, a separator, and many characters with a digit.
fn id(text: &str, word: usize) -> Option<usize> {
    const NAMES: &[&str] = &[
        "toolu", "msg", "call", "resp", "req", "fc", "rs", "ctc", "chatcmpl", "srvtoolu", "sess",
    ];
    if !NAMES.contains(&&text[..word]) || !matches!(text.as_bytes().get(word), Some(b'_' | b'-')) {
        return None;
    }
    let rest = &text.as_bytes()[word + 1..];
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_' || **byte == b'-';
    let length = rest.iter().take_while(part).count();
    (length >= 6).then_some(word + 1 + length)
}

/// How the names of months begin.
const MONTHS: &[&str] = &[
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `2026-11-16`, also with a time; `November 16, 2026`, `Nov 16 2026`.
fn date(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes
            .get(range)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    if digits(0..4) && digits(5..7) && digits(8..10) && bytes[4] == bytes[7] {
        let time = |byte: &&u8| byte.is_ascii_digit() || b"T:.+-Z".contains(byte);
        let more = bytes[10..].iter().take_while(time).count();
        return b"-/.".contains(&bytes[4]).then_some(10 + more);
    }
    if !MONTHS.iter().any(|month| text.starts_with(month)) {
        return None;
    }
    let letters = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let rest = |byte: &&u8| byte.is_ascii_digit() || b" ,:".contains(byte);
    let length = bytes[letters..].iter().take_while(rest).count();
    let has_digits = text[letters..letters + length]
        .bytes()
        .any(|byte| byte.is_ascii_digit());
    has_digits.then(|| {
        text[..letters + length]
            .trim_end_matches([' ', ',', ':'])
            .len()
    })
}

/// `12:34`, `12:34:56.789`.
fn time(text: &str) -> Option<usize> {
    let part = |byte: &u8| byte.is_ascii_digit() || *byte == b':' || *byte == b'.';
    let length = text.bytes().take_while(part).count();
    let text = text[..length].trim_end_matches(['.', ':']);
    let parts: Vec<&str> = text.split(':').collect();
    let fits = (2..=3).contains(&parts.len()) && parts.iter().all(|part| part.len() >= 2);
    (fits && parts[0].len() == 2 && !parts[0].contains('.')).then_some(text.len())
}

/// Long numbers (ports, process ids, epochs) and hashes.
fn number(text: &str, word: usize) -> Option<(usize, &'static str)> {
    let word = &text[..word];
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if digits == word.len() {
        return (digits >= 5).then_some((digits, "<number>"));
    }
    let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex && digits > 0 && word.len() >= 7).then_some((word.len(), "<hash>"))
}

/// Where two requests differ.
pub(super) fn differences(recorded: &Value, asked: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(recorded, asked, String::new(), &mut found);
    found
}

fn compare(recorded: &Value, asked: &Value, at: String, found: &mut Vec<Difference>) {
    if recorded == asked || found.len() >= MOST_DIFFERENCES {
        return;
    }
    match (recorded, asked) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let (a, b) = (a.get(name), b.get(name));
                let (a, b) = (a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null));
                compare(a, b, format!("{at}/{name}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                let (a, b) = (a.get(index), b.get(index));
                let (a, b) = (a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null));
                compare(a, b, format!("{at}/{index}"), found);
            }
        }
        _ => {
            let (recorded, asked) = around_difference(recorded, asked);
            found.push(Difference {
                at,
                recorded,
                asked,
            });
        }
    }
}

/// Two values from shortly before they begin to differ.
fn around_difference(recorded: &Value, asked: &Value) -> (String, String) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (a, b) = (text(recorded), text(asked));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let cut = |text: &str| {
        text.chars()
            .skip(same.saturating_sub(20))
            .take(80)
            .collect()
    };
    (cut(&a), cut(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asking(body: &Value) -> RequestFingerprint {
        let body = body.to_string();
        RequestFingerprint::new(
            Wire::Anthropic,
            "/v1/messages",
            body.as_bytes(),
            &Redactor::default(),
        )
    }

    #[test]
    fn variation_between_runs_is_ignored() {
        let run = |id: &str, folder: &str, day: &str, port: u16| {
            json!({
                "model": "m",
                "metadata": {"user_id": id},
                "system": format!("cwd: {folder}/ws, today is {day}T10:00:00Z, gateway 127.0.0.1:{port}"),
                "messages": [
                    {"role": "user", "content": format!("commit {id} on Nov 16, 2026 at 10:20")},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": format!("toolu_{id}"), "name": "Bash"}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("toolu_{id}"), "content": "ok"}]},
                ],
            })
        };
        let one = asking(&run("0a1b2c3d4e", "/tmp/x1", "2026-11-16", 40001));
        let two = asking(&run("ff00112233", "/home/me/y", "2027-01-02", 51234));
        assert_eq!(one, two, "{}\n{}", one.body, two.body);
    }

    #[test]
    fn different_content_is_reported() {
        let one = asking(&json!({"model": "m", "messages": [{"content": "please write a poem"}]}));
        let two = asking(&json!({"model": "m", "messages": [{"content": "please write a play"}]}));
        assert_ne!(one.fingerprint, two.fingerprint);
        let found = differences(&one.body, &two.body);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].at, "/messages/0/content");
        assert!(found[0].recorded.ends_with("poem") && found[0].asked.ends_with("play"));
    }

    #[test]
    fn each_kind_of_variation_has_a_placeholder() {
        let cases = [
            ("see /tmp/a/b.rs now", "see <path> now"),
            ("run /help or a/b", "run /help or a/b"),
            ("id 123e4567-e89b-12d3-a456-426614174000.", "id <id>."),
            ("call_abc123XYZ!", "<id>!"),
            ("call_me", "call_me"),
            ("2026-11-16 and 12:30:05", "<date> and <time>"),
            ("November 16, 2026: ok", "<date>: ok"),
            ("HEAD is 271d776", "HEAD is <hash>"),
            ("port 41234, 200 lines", "port <number>, 200 lines"),
            ("version 2.1.197", "version 2.1.197"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected);
        }
    }
}
