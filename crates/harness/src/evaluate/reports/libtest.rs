//! The JSON lines of Rust's test harness (`--format json`) and of cargo-nextest.

use std::collections::BTreeSet;

use proctor_record::text::counted;
use serde::Deserialize;

use super::{
    error::{Format, ReportError},
    json_lines,
    tests_report::{Status, TestCase, message, seconds},
};

#[derive(Deserialize)]
struct LibtestEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    event: String,
    #[serde(default)]
    name: String,
    exec_time: Option<serde_json::Number>,
    stdout: Option<String>,
    message: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let mut tests = Vec::new();
    let mut running = BTreeSet::new();
    let (mut started, mut ended) = (0, 0);
    for line in json_lines::read::<LibtestEvent>(text, Format::Libtest)? {
        match (line.kind.as_str(), line.event.as_str()) {
            ("suite", "started") => started += 1,
            ("suite", _) => ended += 1,
            ("test", "started") => {
                running.insert(line.name);
            }
            ("test", event) => {
                if let Some(status) = status(event) {
                    running.remove(&line.name);
                    tests.push(case(line, status));
                }
            }
            _ => {}
        }
    }
    if started != ended {
        let reason = format!("{} started, {ended} ended", counted(started, "suite"));
        return Err(Format::Libtest.broken(reason));
    }
    tests.extend(running.into_iter().map(|name| TestCase {
        message: Some("the test started and never ended".to_owned()),
        ..split(&name, Status::Error)
    }));
    Ok(tests)
}

/// The status of a test after an event; `None` if it has not ended.
fn status(event: &str) -> Option<Status> {
    match event {
        "ok" => Some(Status::Passed),
        "ignored" => Some(Status::Skipped),
        "failed" => Some(Status::Failed),
        // A slow test, which ends with another event.
        "timeout" => None,
        _ => Some(Status::Error),
    }
}

fn case(line: LibtestEvent, status: Status) -> TestCase {
    let words = line.message.as_deref().or(line.stdout.as_deref());
    TestCase {
        duration: line.exec_time.and_then(|it| seconds(&it.to_string())),
        message: match status {
            Status::Passed => None,
            _ => words.and_then(message),
        },
        ..split(&line.name, status)
    }
}

/// Splits a name. nextest writes the binary before the test (`package::binary$module::test`) and
/// the attempt after it (`#2`).
fn split(name: &str, status: Status) -> TestCase {
    let numbered = name
        .rsplit_once('#')
        .and_then(|(name, attempt)| Some((name, attempt.parse::<u32>().ok()?)));
    let (name, attempt) = numbered.unwrap_or((name, 1));
    let (group, name) = match name.split_once('$') {
        Some((group, name)) => (Some(group.to_owned()), name),
        None => (None, name),
    };
    TestCase {
        group,
        reruns: attempt.saturating_sub(1),
        ..TestCase::new(name, status)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{samples, tests_report::Counts};
    use super::*;

    fn check(text: &str, expected: [u64; 4]) -> Vec<TestCase> {
        let report = super::super::TestReport::read(text.as_bytes()).unwrap();
        assert_eq!(report.source, Format::Libtest);
        let [passed, skipped, failed, errors] = expected;
        let expected = Counts {
            passed,
            skipped,
            failed,
            errors,
        };
        assert_eq!(report.counts(), expected);
        report.tests
    }

    #[test]
    fn the_harness_of_rust() {
        let tests = check(samples::LIBTEST, [3, 1, 1, 0]);
        let failed = tests.iter().find(|it| it.name == "tests::fails").unwrap();
        assert!(failed.message.as_deref().unwrap().contains("left == right"));
    }

    #[test]
    fn nextest() {
        let tests = check(samples::NEXTEST, [2, 1, 1, 0]);
        let full: Vec<String> = tests.iter().map(TestCase::full_name).collect();
        assert!(
            full.contains(&"sample::sample::tests::fails".to_owned()),
            "{full:?}"
        );
    }

    #[test]
    fn incomplete_run_is_an_error() {
        let cut: Vec<&str> = samples::LIBTEST.lines().take(5).collect();
        let error = super::super::TestReport::read(cut.join("\n").as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid Libtest report: 1 suite started, 0 ended"
        );
    }

    #[test]
    fn test_that_never_ended_is_an_error() {
        let text = r#"{"type":"suite","event":"started"}
            {"type":"test","event":"started","name":"a"}
            {"type":"test","event":"timeout","name":"a"}
            {"type":"suite","event":"failed"}"#;
        check(text, [0, 0, 0, 1]);
    }

    #[test]
    fn damage_is_reported() {
        let text = format!("{}\n{{\"type\":\"test\",\"ev", samples::LIBTEST);
        assert!(super::super::TestReport::read(text.as_bytes()).is_err());
    }

    #[test]
    fn attempts_are_counted() {
        let text = r#"{"type":"suite","event":"started"}
            {"type":"test","event":"ok","name":"p::b$m::a#3"}
            {"type":"suite","event":"ok"}"#;
        let tests = check(text, [1, 0, 0, 0]);
        assert_eq!((tests[0].name.as_str(), tests[0].reruns), ("m::a", 2));
    }
}
