//! The JSON lines of `go test -json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    error::{Format, ReportError},
    json_lines,
    tests_report::{Status, TestCase, message, seconds},
};

/// The maximum output that is kept for a message.
const OUTPUT_BYTES: usize = 8_000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoTestEvent {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    elapsed: Option<serde_json::Number>,
    #[serde(default)]
    output: String,
}

/// The state of a test, or, without a name, of a package.
#[derive(Default)]
struct Progress {
    status: Option<Status>,
    elapsed: Option<serde_json::Number>,
    output: String,
}

type Known = BTreeMap<(String, Option<String>), Progress>;

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let mut known = Known::new();
    for line in json_lines::read::<GoTestEvent>(text, Format::GoTest)? {
        // Compiler output, before a package is known.
        if line.package.is_empty() {
            continue;
        }
        let progress = known.entry((line.package, line.test)).or_default();
        match line.action.as_str() {
            "pass" | "bench" => progress.end(Status::Passed, line.elapsed),
            "fail" => progress.end(Status::Failed, line.elapsed),
            "skip" => progress.end(Status::Skipped, line.elapsed),
            "output" if progress.output.len() < OUTPUT_BYTES => {
                progress.output.push_str(&line.output);
            }
            _ => {}
        }
    }
    for package in text.lines().filter_map(unbuilt) {
        let key = (package.to_owned(), None);
        known.entry(key).or_default().end(Status::Failed, None);
    }
    let tests = known.keys().filter(|key| counts(&known, key));
    Ok(tests.map(|key| case(key, &known[key])).collect())
}

/// The package in a line that older versions print among the JSON: `FAIL TAB package [build
/// failed]`.
pub(super) fn unbuilt(line: &str) -> Option<&str> {
    let (package, reason) = line.strip_prefix("FAIL\t")?.trim_end().split_once(' ')?;
    matches!(reason, "[build failed]" | "[setup failed]").then_some(package)
}

impl Progress {
    fn end(&mut self, status: Status, elapsed: Option<serde_json::Number>) {
        // A repeated test (-count=2) has its worst status.
        self.status = self.status.max(Some(status));
        self.elapsed = elapsed;
    }

    /// A test that never ended is an error.
    fn status(&self) -> Status {
        self.status.unwrap_or(Status::Error)
    }
}

/// Whether an entry counts as a test: a test without subtests, and a failed test or package without
/// a failed entry in it.
fn counts(known: &Known, key: &(String, Option<String>)) -> bool {
    let name = key.1.as_deref().unwrap_or("");
    // Keys are sorted, so subtests follow their parent.
    let mut inner = known
        .range(key.clone()..)
        .skip(1)
        .map_while(|((package, test), progress)| {
            let rest = test.as_deref()?.strip_prefix(name)?;
            (*package == key.0).then_some((rest, progress))
        })
        .filter(|(rest, _)| name.is_empty() || rest.starts_with('/'))
        .peekable();
    let is_leaf = key.1.is_some() && inner.peek().is_none();
    let failed = known[key].status() >= Status::Failed;
    is_leaf || (failed && inner.all(|(_, it)| it.status() < Status::Failed))
}

fn case((package, test): &(String, Option<String>), progress: &Progress) -> TestCase {
    let status = match test {
        Some(_) => progress.status(),
        // The package itself: it did not build, panicked, or timed out.
        None => Status::Error,
    };
    let elapsed = progress.elapsed.as_ref();
    TestCase {
        is_load: test.is_none(),
        group: test.is_some().then(|| package.clone()),
        duration: elapsed.and_then(|it| seconds(&it.to_string())),
        message: match status {
            Status::Passed => None,
            _ => message(&progress.output),
        },
        ..TestCase::new(test.as_ref().unwrap_or(package), status)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TestReport, samples};
    use super::*;

    fn statuses(text: &str) -> Vec<(String, Status)> {
        let report = TestReport::read(text.as_bytes()).unwrap();
        assert_eq!(report.source, Format::GoTest);
        let tests = report.tests.iter();
        tests.map(|it| (it.name.clone(), it.status)).collect()
    }

    fn named(expected: &[(&str, Status)]) -> Vec<(String, Status)> {
        let owned = expected
            .iter()
            .map(|(name, status)| ((*name).to_owned(), *status));
        owned.collect()
    }

    #[test]
    fn parents_are_not_counted_and_failed_builds_are_errors() {
        let expected = named(&[
            ("example.com/broken", Status::Error),
            ("TestAdds", Status::Passed),
            ("TestGroup/breaks", Status::Failed),
            ("TestGroup/works", Status::Passed),
            ("TestSkipped", Status::Skipped),
        ]);
        assert_eq!(statuses(samples::GO), expected);
    }

    #[test]
    fn running_test_of_a_crashed_package_is_an_error() {
        let text = r#"{"Action":"run","Package":"p","Test":"TestA"}
            {"Action":"pass","Package":"p","Test":"TestA"}
            {"Action":"run","Package":"p","Test":"TestB"}
            {"Action":"fail","Package":"p"}"#;
        let expected = named(&[("TestA", Status::Passed), ("TestB", Status::Error)]);
        assert_eq!(statuses(text), expected);
    }

    #[test]
    fn package_without_tests_has_no_result() {
        let text = r#"{"Action":"start","Package":"p"}
            {"Action":"skip","Package":"p"}"#;
        let format = Format::GoTest;
        let read = TestReport::read(text.as_bytes());
        assert_eq!(read, Err(ReportError::Empty { format }));
    }
}
