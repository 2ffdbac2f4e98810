//! Detects the format of a report by its content.

use serde_json::Value;

use super::{error::Format, json_lines, tap};

/// The format of a test report.
pub(super) fn tests(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('<') {
        return contains_any(start, &["<testsuite", "<testcase"]).then_some(Format::Junit);
    }
    if let Ok(Value::Object(object)) = serde_json::from_str(start) {
        let is_ctrf = object
            .get("results")
            .and_then(|it| it.get("tests"))
            .is_some();
        return if object.contains_key("testResults") {
            Some(Format::Jest)
        } else if is_ctrf {
            Some(Format::Ctrf)
        } else {
            of_lines(start)
        };
    }
    of_lines(start).or_else(|| tap::is_tap(text).then_some(Format::Tap))
}

/// The format of a list of findings.
pub(super) fn findings(text: &str) -> Option<Format> {
    let start = text.trim_start();
    match serde_json::from_str(start) {
        Ok(Value::Array(_)) => Some(Format::Eslint),
        Ok(Value::Object(object)) if object.contains_key("runs") => Some(Format::Sarif),
        _ => json_lines::objects(start)
            .any(|line| line.get("reason").is_some_and(Value::is_string))
            .then_some(Format::Cargo),
    }
}

/// The format of a coverage report.
pub(super) fn coverage(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('<') {
        return start.contains("<coverage").then_some(Format::Cobertura);
    }
    if start.starts_with('{') {
        return Some(Format::Istanbul);
    }
    let is_lcov = |line: &str| line.starts_with("SF:") || line.trim() == "end_of_record";
    start.lines().any(is_lcov).then_some(Format::Lcov)
}

fn of_lines(text: &str) -> Option<Format> {
    json_lines::objects(text).find_map(|line| {
        if line.get("type").is_some() && line.get("event").is_some() {
            Some(Format::Libtest)
        } else if line.get("Action").is_some() {
            Some(Format::GoTest)
        } else {
            None
        }
    })
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}
