//! Searches the sessions of a run for a text.

use camino::Utf8Path;
use memchr::memmem::Finder;
use proctor_record::{
    fs::beneath::UntrustedDir,
    parallel_map::parallel_map,
    record::{EVENTS_FILE, LOG_FILE},
    text::one_line,
};
use serde::Serialize;

use crate::library::RunPages;

/// The trials that are listed.
const MOST_HITS: usize = 50;
/// The part of a file that is searched.
const LARGEST: u64 = 32 << 20;
/// The text around a hit, in bytes.
const AROUND: usize = 60;

/// The trials with a text.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    hits: Vec<Hit>,
    /// The number of other trials with the text.
    more: usize,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Hit {
    /// The directory of the trial.
    folder: String,
    text: String,
}

/// Searches all trials. Letters of ASCII are found in both cases.
pub(crate) fn search(pages: &RunPages, text: &str) -> Found {
    let text = json_text(text).to_ascii_lowercase();
    if text.is_empty() {
        return Found::default();
    }
    let finder = Finder::new(text.as_bytes());
    let numbers: Vec<usize> = (0..pages.trials.trials.len()).collect();
    let hits = parallel_map(&numbers, |number| {
        let artifacts = pages.artifacts(*number)?;
        let text = [LOG_FILE, EVENTS_FILE]
            .iter()
            .find_map(|file| in_file(&artifacts, file, &finder))?;
        Some(Hit {
            folder: pages.trials.trials[*number].folder.to_string(),
            text,
        })
    });
    let mut hits: Vec<Hit> = hits.into_iter().flatten().collect();
    let more = hits.len().saturating_sub(MOST_HITS);
    hits.truncate(MOST_HITS);
    Found { hits, more }
}

/// The text as it is written inside of JSON.
fn json_text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The first hit with the text around it.
fn in_file(artifacts: &Utf8Path, file: &str, finder: &Finder<'_>) -> Option<String> {
    let bytes = UntrustedDir::new(artifacts.to_owned())
        .read(file, LARGEST)
        .ok()?;
    let at = finder.find(&bytes.to_ascii_lowercase())?;
    Some(around(
        &String::from_utf8_lossy(&bytes),
        at,
        finder.needle().len(),
    ))
}

/// The text around a hit, within the string of JSON that has it.
fn around(text: &str, at: usize, length: usize) -> String {
    // Positions differ only behind bytes that are not UTF-8.
    let middle = text.floor_char_boundary(at);
    let end = text.floor_char_boundary(at + length);
    let before = &text[text.floor_char_boundary(middle.saturating_sub(AROUND))..middle];
    let after = &text[end..text.floor_char_boundary(end + AROUND)];
    let is_end = |text: &str, quote: usize| !text[..quote].ends_with('\\');
    let first = before.rmatch_indices('"').find(|it| is_end(before, it.0));
    let last = after.match_indices('"').find(|it| is_end(after, it.0));
    let shown = [
        &before[first.map_or(0, |it| it.0 + 1)..],
        &text[middle..end],
        &after[..last.map_or(after.len(), |it| it.0)],
    ];
    one_line(&shown.concat().replace("\\n", " ").replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_around_a_hit_ends_with_its_string() {
        let text = r#"{"role":"user","content":"Say \"hi\"\nand factorial twice","more":1}"#;
        let at = text.find("factorial").unwrap();
        assert_eq!(around(text, at, 9), r#"Say "hi" and factorial twice"#);
        assert_eq!(around("ääfactorialää", 4, 9), "ääfactorialää");
    }
}
