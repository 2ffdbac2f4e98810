//! The tests of a report with their results.

use std::{collections::BTreeMap, time::Duration};

use proctor_record::platform;
use serde::{Deserialize, Serialize};

use super::{
    ctrf, detect,
    error::{Format, ReportError},
    go_test, jest, junit, libtest, tap,
};

/// The maximum length of messages: a report may contain megabytes of output.
const MESSAGE_CHARS: usize = 2_000;

/// The report of a test runner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestReport {
    /// The format.
    pub source: Format,
    /// The tests, in the order of the report. Never empty.
    pub tests: Vec<TestCase>,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestCase {
    /// The name in the report. Names of groups within a file come first, separated by ` > `.
    pub name: String,
    /// The class, file, package or binary that it belongs to.
    pub group: Option<String>,
    /// The status.
    pub status: Status,
    /// How long it took.
    pub duration: Option<Duration>,
    /// Why it did not pass.
    pub message: Option<String>,
    /// The number of reruns or failed attempts before this status.
    pub reruns: u32,
    /// The file that defines it, if the report contains it.
    pub file: Option<String>,
    /// Whether this is a file, package or set-up step that could not be loaded, rather than a test.
    pub is_load: bool,
    /// Whether it is marked as failing, and failed.
    pub is_expected_failure: bool,
}

/// The status of a test, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It passed.
    Passed,
    /// It did not run, or does not count yet. Skipped is not passed.
    Skipped,
    /// It failed.
    Failed,
    /// It did not run to completion.
    Error,
}

/// The number of tests by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passed.
    pub passed: u64,
    /// Skipped.
    pub skipped: u64,
    /// Failed.
    pub failed: u64,
    /// Not completed.
    pub errors: u64,
}

impl Counts {
    /// The sum. It saturates, because the numbers are untrusted.
    pub fn total(self) -> u64 {
        let ran = self.passed.saturating_add(self.failed);
        ran.saturating_add(self.skipped).saturating_add(self.errors)
    }
}

impl TestReport {
    /// Reads a machine-readable report. Its format is detected from its content.
    pub fn read(content: &[u8]) -> Result<TestReport, ReportError> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim_start_matches('\u{feff}');
        match detect::tests(text) {
            Some(format) => TestReport::read_as(format, text),
            None => Err(ReportError::unknown(text)),
        }
    }

    fn read_as(source: Format, text: &str) -> Result<TestReport, ReportError> {
        let mut tests = match source {
            Format::Junit => junit::read(text),
            Format::Tap => tap::read(text),
            Format::Libtest => libtest::read(text),
            Format::GoTest => go_test::read(text),
            Format::Jest => jest::read(text),
            Format::Ctrf => ctrf::read(text),
            _ => Err(ReportError::unknown(text)),
        }?;
        if tests.is_empty() {
            return Err(ReportError::Empty { format: source });
        }
        for test in &mut tests {
            test.is_load |= is_set_up(&test.name);
        }
        Ok(TestReport { source, tests })
    }

    /// The same with files relative to a folder, so that names are the same in every copy.
    #[must_use]
    pub fn relative_to(mut self, folder: &str) -> TestReport {
        let folder = platform::slashed(folder);
        let folder = format!("{}/", folder.trim_end_matches('/'));
        let below = |text: &str| {
            let slashed = platform::slashed(text);
            slashed.strip_prefix(&folder).map(str::to_owned)
        };
        for test in &mut self.tests {
            if let Some(inner) = test.group.as_deref().and_then(below) {
                test.group = Some(inner);
            }
            if let Some(inner) = below(&test.name) {
                test.name = inner;
            }
            if let Some(inner) = test.file.as_deref().and_then(below) {
                test.file = Some(inner);
            }
        }
        self
    }

    /// The number of tests by status.
    pub fn counts(&self) -> Counts {
        let count = |status| {
            let tests = self.tests.iter().filter(|test| test.status == status);
            tests.count() as u64
        };
        Counts {
            passed: count(Status::Passed),
            skipped: count(Status::Skipped),
            failed: count(Status::Failed),
            errors: count(Status::Error),
        }
    }

    /// Full names that occur more than once, with their number.
    pub fn duplicates(&self) -> BTreeMap<String, usize> {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for test in &self.tests {
            *times.entry(test.full_name()).or_default() += 1;
        }
        times.retain(|_, times| *times > 1);
        times
    }

    /// The worst status of all tests with this name; `None` if there are none. Groups are optional,
    /// and can be paths, modules or pytest node ids.
    pub fn status_of(&self, name: &str) -> Option<Status> {
        let wanted = name_key(name);
        let named = self.tests.iter().filter(|test| test.is_called(&wanted));
        named.map(TestCase::named_status).max()
    }
}

impl TestCase {
    pub(super) fn new(name: impl Into<String>, status: Status) -> TestCase {
        TestCase {
            name: name.into(),
            group: None,
            status,
            duration: None,
            message: None,
            reruns: 0,
            file: None,
            is_load: false,
            is_expected_failure: false,
        }
    }

    /// A file or package that could not be loaded and has no tests.
    pub(super) fn load(name: impl Into<String>, status: Status) -> TestCase {
        TestCase {
            is_load: true,
            ..TestCase::new(name, status)
        }
    }

    /// The name with its group.
    pub fn full_name(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}::{}", self.name),
            None => self.name.clone(),
        }
    }

    fn is_called(&self, wanted: &str) -> bool {
        let is_same = |name: &str| {
            let own = name_key(name);
            // Names that were read from printed lines end at the first space of a parameter.
            let is_cut = wanted.contains('[') && !wanted.ends_with(']');
            own == wanted || (is_cut && own.split_whitespace().next() == Some(wanted))
        };
        is_same(&self.name) || is_same(&self.full_name())
    }

    /// The status of a test that is counted by its name: a failure that its author expects passes.
    fn named_status(&self) -> Status {
        match self.status {
            Status::Skipped if self.is_expected_failure => Status::Passed,
            status => status,
        }
    }
}

/// Whether an entry is a set-up or tear-down step, which runners report only if it fails.
fn is_set_up(name: &str) -> bool {
    let last = name.rsplit(" > ").next().unwrap_or(name);
    let is_hook = |when: &str| last.contains(&format!("\"{when} all\" hook"));
    let of_bats = ["setup_file", "setup_suite", "bats-gather-tests"];
    let is_of_bats = |step: &str| last == step || last == format!("{step} failed");
    let of_jest = "Test suite failed to run";
    is_hook("before") || is_hook("after") || of_bats.into_iter().any(is_of_bats) || last == of_jest
}

/// The same key for all spellings of a test's name.
pub(crate) fn name_key(name: &str) -> String {
    let dotted = name.trim().replace(".py::", ".");
    dotted.replace("::", ".").replace('/', ".")
}

/// Parses seconds, with optional commas between thousands.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().replace(',', "").parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Milliseconds as a number.
pub(super) fn milliseconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1000.0).ok()
}

/// A trimmed message of limited length; `None` if it is empty.
pub(super) fn message(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.chars().take(MESSAGE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tests: &[(&str, &str, Status)]) -> TestReport {
        let case = |(group, name, status): &(&str, &str, Status)| TestCase {
            group: Some((*group).to_owned()),
            ..TestCase::new(*name, *status)
        };
        TestReport {
            source: Format::Junit,
            tests: tests.iter().map(case).collect(),
        }
    }

    #[test]
    fn cut_names_and_expected_failures_are_found_by_name() {
        let text = "<testsuite><testcase classname='t.test_a' name='f[a b]'/><testcase classname='t.test_a' name='f[a c]'><failure/></testcase><testcase classname='t.test_a' name='x'><skipped type='pytest.xfail' message='known'/></testcase><testcase classname='t.test_a' name='s'><skipped type='pytest.skip'/></testcase></testsuite>";
        let report = TestReport::read(text.as_bytes()).unwrap();
        for (name, status) in [
            ("t/test_a.py::f[a b]", Some(Status::Passed)),
            // The worst of all that it may mean.
            ("t/test_a.py::f[a", Some(Status::Failed)),
            ("t/test_a.py::f", None),
            ("t/test_a.py::x", Some(Status::Passed)),
            ("t/test_a.py::s", Some(Status::Skipped)),
        ] {
            assert_eq!(report.status_of(name), status, "{name}");
        }
    }

    #[test]
    fn duplicate_names_have_the_worst_status() {
        let report = report(&[
            ("a", "x", Status::Passed),
            ("a", "x", Status::Failed),
            ("b", "x", Status::Skipped),
        ]);
        assert_eq!(
            report.duplicates(),
            BTreeMap::from([("a::x".to_owned(), 2)])
        );
        assert_eq!(report.status_of("a::x"), Some(Status::Failed));
        assert_eq!(report.status_of("b.x"), Some(Status::Skipped));
        assert_eq!(report.status_of("y"), None);
    }

    #[test]
    fn names_do_not_contain_the_path_of_the_copy() {
        let report = report(&[("/tmp/copy/src/a.test.js", "adds", Status::Passed)]);
        let report = report.relative_to("/tmp/copy");
        assert_eq!(report.tests[0].full_name(), "src/a.test.js::adds");
        assert_eq!(
            report.status_of("src/a.test.js::adds"),
            Some(Status::Passed)
        );
    }

    #[test]
    fn node_ids_of_pytest_are_found() {
        let report = report(&[("tests.test_a.TestX", "test_y[1]", Status::Passed)]);
        let status = report.status_of("tests/test_a.py::TestX::test_y[1]");
        assert_eq!(status, Some(Status::Passed));
    }

    #[test]
    fn error_shows_the_start_of_an_unknown_report() {
        let error = TestReport::read(b"  All 12 tests passed!\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown report format: it starts with \"All 12 tests passed!\\n\""
        );
        assert!(TestReport::read(b"").is_err());
    }
}
