//! Searches the sessions of a run for a text.

use camino::Utf8Path;
use memchr::memmem::Finder;
use proctor_record::{
    fs::beneath::UntrustedDir,
    parallel_map::parallel_map,
    record::{EVENTS_FILE, LOG_FILE, PATCH_FILE, RECORD_FILE},
    text::one_line,
};
use serde::Serialize;
use serde_json::Value;

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

/// The part of a trial that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Messages, tool calls, results, verdicts and errors.
    All,
    /// The names of tools.
    Tool,
    /// The files that tools used or that were changed.
    Path,
    /// Errors of the agent, failed tool calls and verdicts.
    Error,
}

impl Scope {
    /// The scope and the text of a query such as `tool:bash`.
    fn of(query: &str) -> (Scope, &str) {
        let scopes = [
            ("tool:", Scope::Tool),
            ("path:", Scope::Path),
            ("error:", Scope::Error),
        ];
        let mut found = scopes
            .iter()
            .filter_map(|(name, scope)| Some((*scope, query.strip_prefix(name)?.trim_start())));
        found.next().unwrap_or((Scope::All, query))
    }
}

/// Searches all trials. Letters of ASCII are found in both cases.
pub(crate) fn search(pages: &RunPages, query: &str) -> Found {
    let (scope, text) = Scope::of(query.trim());
    let text = json_text(text).to_ascii_lowercase();
    if text.is_empty() {
        return Found::default();
    }
    let finder = Finder::new(text.as_bytes());
    let numbers: Vec<usize> = (0..pages.trials.all().count()).collect();
    let hits = parallel_map(&numbers, |number| {
        let artifacts = pages.artifacts(*number)?;
        let text = in_trial(&artifacts, scope, &finder)?;
        Some(Hit {
            folder: pages.trials.get(*number)?.folder.to_string(),
            text,
        })
    });
    let mut hits: Vec<Hit> = hits.into_iter().flatten().collect();
    let more = hits.len().saturating_sub(MOST_HITS);
    hits.truncate(MOST_HITS);
    Found { hits, more }
}

/// The first hit in a trial.
fn in_trial(artifacts: &Utf8Path, scope: Scope, finder: &Finder<'_>) -> Option<String> {
    let in_events = |key| in_tools(artifacts, key, finder);
    match scope {
        Scope::All => [LOG_FILE, EVENTS_FILE, RECORD_FILE]
            .iter()
            .find_map(|file| in_file(artifacts, file, finder)),
        Scope::Tool => in_events("tool"),
        Scope::Path => in_events("target").or_else(|| in_patch(artifacts, finder)),
        Scope::Error => in_record(artifacts, finder).or_else(|| in_results(artifacts, finder)),
    }
}

/// The first use of a tool whose name or target has the text.
fn in_tools(artifacts: &Utf8Path, key: &str, finder: &Finder<'_>) -> Option<String> {
    let (events, _) = read(artifacts, EVENTS_FILE, finder)?;
    let mut lines = events.split(|it| *it == b'\n');
    lines.find_map(|line| {
        finder.find(&line.to_ascii_lowercase())?;
        let event: Value = serde_json::from_slice(line).ok()?;
        let is_tool = event["event"] == "tool";
        is_tool.then(|| hit_in(event[key].as_str()?, finder))??;
        let target = event["target"].as_str().unwrap_or_default();
        let target = &target[..target.floor_char_boundary(4 * AROUND)];
        Some(one_line(&format!("{} {target}", event["tool"].as_str()?)))
    })
}

/// The text around a hit in a value.
fn hit_in(text: &str, finder: &Finder<'_>) -> Option<String> {
    let text = json_text(text);
    let at = finder.find(text.to_ascii_lowercase().as_bytes())?;
    Some(around(&text, at, finder.needle().len()))
}

/// The first changed file with the text.
fn in_patch(artifacts: &Utf8Path, finder: &Finder<'_>) -> Option<String> {
    let (patch, _) = read(artifacts, PATCH_FILE, finder)?;
    let mut files = patch
        .split(|it| *it == b'\n')
        .filter_map(|line| line.strip_prefix(b"diff --git "));
    files.find_map(|file| hit_in(&String::from_utf8_lossy(file), finder))
}

/// An error of the agent, or the message of a verdict that did not pass.
fn in_record(artifacts: &Utf8Path, finder: &Finder<'_>) -> Option<String> {
    let (record, _) = read(artifacts, RECORD_FILE, finder)?;
    let record: Value = serde_json::from_slice(&record).ok()?;
    let list = |name: &str| record[name].as_array().into_iter().flatten();
    let is_bad = |it: &&Value| it["status"] == "failed" || it["status"] == "error";
    let mut messages = list("errors").chain(list("verdicts").filter(is_bad));
    messages.find_map(|it| hit_in(it["message"].as_str()?, finder))
}

/// The result of a tool call that failed.
fn in_results(artifacts: &Utf8Path, finder: &Finder<'_>) -> Option<String> {
    let (log, _) = read(artifacts, LOG_FILE, finder)?;
    let log: Value = serde_json::from_slice(&log).ok()?;
    let mut calls = log["tool_calls"].as_array()?.iter();
    calls.find_map(|it| {
        let is_failed = it["is_error"] == true;
        is_failed.then(|| hit_in(it["result"].as_str()?, finder))?
    })
}

/// A file that has the text somewhere, with the place of the first hit.
fn read(artifacts: &Utf8Path, file: &str, finder: &Finder<'_>) -> Option<(Vec<u8>, usize)> {
    let files = UntrustedDir::new(artifacts.to_owned());
    let bytes = files.read(file, LARGEST).ok()?;
    let at = finder.find(&bytes.to_ascii_lowercase())?;
    Some((bytes, at))
}

/// The text as it is written inside of JSON.
fn json_text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The first hit with the text around it.
fn in_file(artifacts: &Utf8Path, file: &str, finder: &Finder<'_>) -> Option<String> {
    let (bytes, at) = read(artifacts, file, finder)?;
    let text = String::from_utf8_lossy(&bytes);
    Some(around(&text, at, finder.needle().len()))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn text_around_a_hit_ends_with_its_string() {
        let text = r#"{"role":"user","content":"Say \"hi\"\nand factorial twice","more":1}"#;
        let at = text.find("factorial").unwrap();
        assert_eq!(around(text, at, 9), r#"Say "hi" and factorial twice"#);
        assert_eq!(around("ääfactorialää", 4, 9), "ääfactorialää");
    }

    #[test]
    fn tools_paths_and_errors_are_searched_apart() {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Utf8Path::from_path(dir.path()).unwrap();
        let write = |name: &str, text: String| std::fs::write(artifacts.join(name), text).unwrap();
        let event = |tool, target| json!({"t": 1, "event": "tool", "tool": tool, "target": target});
        let said = json!({"t": 0, "event": "said", "text": "Edit src/parse.rs: timeout"});
        let events = [
            said,
            event("Edit", "src/parse.rs"),
            event("Bash", "make \"all\""),
        ];
        let events = events.map(|it| format!("{it}\n")).concat();
        write(EVENTS_FILE, events);
        let record = json!({"errors": [{"message": "429: rate limit"}], "verdicts": [
            {"status": "passed", "message": "all is well"}, {"status": "failed", "message": "1 of 2 tests failed"},
        ]});
        write(RECORD_FILE, record.to_string());
        let log = json!({"messages": [{"content": "I said lint"}], "tool_calls": [
            {"result": "fine output", "is_error": false}, {"result": "No such file", "is_error": true},
        ]});
        write(LOG_FILE, log.to_string());
        write(
            PATCH_FILE,
            "diff --git a/docs/new.md b/docs/new.md\n+timeout\n".to_owned(),
        );
        let rows = [
            ("tool:edit", Some("Edit src/parse.rs")),
            ("tool:parse", None),
            ("path:PARSE", Some("Edit src/parse.rs")),
            ("path:make \"all\"", Some("Bash make \"all\"")),
            ("path: docs/", Some("a/docs/new.md b/docs/new.md")),
            ("path:timeout", None),
            ("error:rate", Some("429: rate limit")),
            ("error:tests failed", Some("1 of 2 tests failed")),
            ("error:well", None),
            ("error:no such", Some("No such file")),
            ("error:fine", None),
            ("lint", Some("I said lint")),
            ("rate limit", Some("429: rate limit")),
            ("nothing", None),
        ];
        for (query, expected) in rows {
            let (scope, text) = Scope::of(query);
            let text = json_text(text).to_ascii_lowercase();
            let found = in_trial(artifacts, scope, &Finder::new(text.as_bytes()));
            assert_eq!(found.as_deref(), expected, "{query}");
        }
    }
}
