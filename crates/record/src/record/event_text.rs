//! Texts of events: the target of a tool call, and lines that are safe to show.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::Text;

/// The longest text that a progress line shows, in characters.
const SHOWN_CHARS: usize = 100;

/// The arguments that usually contain a tool's target. Other arguments (often a whole file) are
/// skipped.
#[derive(Deserialize)]
struct Telling<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    path: Option<&'a RawValue>,
    notebook_path: Option<&'a RawValue>,
    command: Option<&'a RawValue>,
    pattern: Option<&'a RawValue>,
    url: Option<&'a RawValue>,
    query: Option<&'a RawValue>,
    description: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
}

/// The target of a tool: the first of the usual arguments.
pub(super) fn target(arguments: Text<'_>) -> Option<String> {
    match arguments {
        Text::Json(raw) => {
            let reported: Telling<'_> = serde_json::from_str(raw).ok()?;
            let in_order = [
                reported.file_path,
                reported.path,
                reported.notebook_path,
                reported.command,
                reported.pattern,
                reported.url,
                reported.query,
                reported.description,
                reported.prompt,
            ];
            let mut texts = in_order.into_iter().flatten();
            let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
            texts.find_map(text).map(|text| first_line(&text))
        }
        other => Some(first_line(&plain(other)?)),
    }
}

/// The text of a message, unescaped.
pub(super) fn plain(text: Text<'_>) -> Option<String> {
    match text {
        Text::Plain(text) => Some(text.to_owned()),
        Text::JsonString(raw) => serde_json::from_str(raw).ok(),
        Text::Json(raw) => Some(raw.to_owned()),
    }
}

/// The first line that is not empty, cut to the length of a progress line. Control characters of an agent must not
/// reach the terminal.
pub fn first_line(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let shown: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_CHARS)
        .collect();
    if line.chars().count() > SHOWN_CHARS {
        format!("{shown}…")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_of_a_tool_call_is_its_file() {
        let raw = r#"{"content": "x", "file_path": "/w/a.rs"}"#;
        assert_eq!(target(Text::Json(raw)).unwrap(), "/w/a.rs");
    }

    #[test]
    fn shown_text_has_one_line_and_no_escapes() {
        assert_eq!(first_line("\n  \x1b[31mred\x1b[0m\nsecond"), "[31mred[0m");
        assert_eq!(
            first_line(&"x".repeat(300)).chars().count(),
            SHOWN_CHARS + 1
        );
    }
}
