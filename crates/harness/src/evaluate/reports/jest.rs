//! The JSON of jest (`--json`) and of vitest (`--reporter=json`).

use serde::Deserialize;

use super::{
    error::{Format, ReportError},
    tests_report::{Status, TestCase, message, milliseconds},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    test_results: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    assertion_results: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    duration: Option<f64>,
    failure_messages: Option<Vec<String>>,
    invocations: Option<u32>,
}

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let report: Report =
        serde_json::from_str(text).map_err(|error| Format::Jest.broken(error.to_string()))?;
    let mut tests = Vec::new();
    for file in report.test_results {
        let before = tests.len();
        for test in file.assertion_results {
            tests.push(case(test, &file.name)?);
        }
        let explains = tests[before..].iter().any(|it| it.status >= Status::Failed);
        // A file that could not be loaded has no tests.
        if file.status == "failed" && !explains {
            tests.push(TestCase {
                message: message(&file.message),
                file: Some(file.name.clone()),
                ..TestCase::load(file.name, Status::Error)
            });
        }
    }
    Ok(tests)
}

fn case(test: Test, file: &str) -> Result<TestCase, ReportError> {
    let status = match test.status.as_str() {
        "passed" => Status::Passed,
        "failed" => Status::Failed,
        "skipped" | "pending" | "todo" | "disabled" => Status::Skipped,
        other => return Err(Format::Jest.broken(format!("unknown test status {other:?}"))),
    };
    let mut path = test.ancestor_titles;
    path.push(test.title);
    let failures = test.failure_messages.unwrap_or_default();
    Ok(TestCase {
        group: (!file.is_empty()).then(|| file.to_owned()),
        file: (!file.is_empty()).then(|| file.to_owned()),
        duration: test.duration.and_then(milliseconds),
        message: message(&failures.join("\n")),
        reruns: test.invocations.unwrap_or(1).saturating_sub(1),
        ..TestCase::new(path.join(" > "), status)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{TestReport, samples, tests_report::Counts};
    use super::*;

    #[test]
    fn files_that_cannot_be_loaded_are_errors() {
        for sample in [samples::JEST, samples::VITEST] {
            let report = TestReport::read(sample.as_bytes()).unwrap();
            assert_eq!(report.source, Format::Jest);
            let expected = Counts {
                passed: 2,
                skipped: 2,
                failed: 2,
                errors: 1,
            };
            assert_eq!(report.counts(), expected);
            assert_eq!(report.status_of("a group > breaks"), Some(Status::Failed));
        }
    }

    #[test]
    fn missing_tests_and_unknown_statuses_are_errors() {
        let read = |text: &str| TestReport::read(text.as_bytes()).unwrap_err();
        let format = Format::Jest;
        assert_eq!(read(r#"{"testResults":[]}"#), ReportError::Empty { format });
        let odd = r#"{"testResults":[{"assertionResults":[{"title":"a","status":"fine"}]}]}"#;
        assert_eq!(read(odd), format.broken("unknown test status \"fine\""));
    }
}
