//! Common Test Report Format: JSON.

use serde::Deserialize;
use serde_json::Value;

use super::{
    error::{Format, ReportError},
    tests_report::{Status, TestCase, message, milliseconds},
};

#[derive(Deserialize)]
struct Report {
    results: Results,
}

#[derive(Deserialize)]
struct Results {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    name: String,
    status: String,
    raw_status: Option<String>,
    duration: Option<f64>,
    message: Option<String>,
    retries: Option<u32>,
    /// A name, or since 1.0 a list of names.
    suite: Option<Value>,
    file_path: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let report: Report =
        serde_json::from_str(text).map_err(|error| Format::Ctrf.broken(error.to_string()))?;
    report.results.tests.into_iter().map(case).collect()
}

fn case(test: Test) -> Result<TestCase, ReportError> {
    let is_todo = test.raw_status.as_deref() == Some("todo");
    let status = match test.status.as_str() {
        "passed" => Status::Passed,
        "failed" => Status::Failed,
        "skipped" | "pending" => Status::Skipped,
        "other" if is_todo => Status::Skipped,
        "other" => Status::Error,
        other => return Err(Format::Ctrf.broken(format!("unknown test status {other:?}"))),
    };
    Ok(TestCase {
        group: group(test.suite).or(test.file_path.clone()),
        file: test.file_path,
        duration: test.duration.and_then(milliseconds),
        message: test.message.as_deref().and_then(message),
        reruns: test.retries.unwrap_or(0),
        ..TestCase::new(test.name, status)
    })
}

fn group(suite: Option<Value>) -> Option<String> {
    match suite? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            Some(names.join(" > "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TestReport, samples, tests_report::Counts};
    use super::*;

    #[test]
    fn pending_tests_are_skipped() {
        let report = TestReport::read(samples::CTRF.as_bytes()).unwrap();
        assert_eq!(report.source, Format::Ctrf);
        let expected = Counts {
            passed: 2,
            skipped: 2,
            failed: 2,
            errors: 0,
        };
        assert_eq!(report.counts(), expected);
    }

    #[test]
    fn retries_and_lists_of_suites_are_read() {
        let text = r#"{"results":{"tests":[
            {"name":"a","status":"passed","retries":2,"suite":["x","y"]},
            {"name":"b","status":"other"}]}}"#;
        let report = TestReport::read(text.as_bytes()).unwrap();
        assert_eq!(report.tests[0].reruns, 2);
        assert_eq!(report.tests[0].full_name(), "x > y::a");
        assert_eq!(report.tests[1].status, Status::Error);
    }
}
