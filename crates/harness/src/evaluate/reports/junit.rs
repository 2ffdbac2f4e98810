//! `JUnit` XML. There is no single definition of it: suites may be nested or missing, and runners
//! differ.

use super::{
    error::{Format, ReportError},
    tests_report::{Status, TestCase, message, seconds},
    xml::{self, Element},
};

/// Elements of a failed attempt that was followed by a rerun.
const RERUNS: [&str; 4] = ["rerunFailure", "rerunError", "flakyFailure", "flakyError"];

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let root = xml::read(text).map_err(|reason| Format::Junit.broken(reason))?;
    if !matches!(root.name.as_str(), "testsuites" | "testsuite") {
        let reason = format!("the root element is <{}>", root.name);
        return Err(Format::Junit.broken(reason));
    }
    let mut tests = Vec::new();
    // The root's name is the name of the run, not of a group.
    suite(&root, &[], &mut tests);
    Ok(tests)
}

/// Collects the tests of a suite and of nested suites. `path` has the names of the enclosing
/// groups.
fn suite(suite: &Element, path: &[&str], tests: &mut Vec<TestCase>) {
    for child in &suite.children {
        match child.name.as_str() {
            "testsuite" => {
                let mut inner = path.to_vec();
                inner.extend(child.attribute("name"));
                self::suite(child, &inner, tests);
            }
            "testcase" => tests.push(case(child, path)),
            // The set-up of the suite failed.
            "error" | "failure" => tests.push(TestCase {
                message: words(child),
                ..TestCase::load(suite.attribute("name").unwrap_or(""), Status::Error)
            }),
            _ => {}
        }
    }
}

fn case(case: &Element, path: &[&str]) -> TestCase {
    let (status, reason) = status(case);
    let name = case.attribute("name").unwrap_or("").trim();
    let class = case.attribute("classname").map(str::trim);
    let reruns = case.children.iter();
    let reruns = reruns
        .filter(|it| RERUNS.contains(&it.name.as_str()))
        .count();
    let says = reason.and_then(|reason| reason.attribute("message"));
    let is_load = matches!(says, Some("collection failure" | "collection skipped"))
        || class == Some("unittest.loader._FailedTest");
    TestCase {
        is_load,
        file: case.attribute("file").map(str::to_owned),
        group: group(class, name, path),
        duration: case.attribute("time").and_then(seconds),
        message: reason.and_then(words),
        reruns: u32::try_from(reruns).unwrap_or(u32::MAX),
        is_expected_failure: reason.and_then(|reason| reason.attribute("type"))
            == Some("pytest.xfail"),
        ..TestCase::new(name, status)
    }
}

/// The class, or the enclosing suites if the class is useless (node's is always `test`, jest's is
/// the test's own name).
fn group(class: Option<&str>, name: &str, path: &[&str]) -> Option<String> {
    let tells = |class: &&str| !class.is_empty() && *class != name && *class != "test";
    class.filter(tells).map(str::to_owned).or_else(|| {
        let path = path.join(" > ");
        (!path.is_empty() && path != name).then_some(path)
    })
}

/// The status of a test and its element. A test that is marked as skipped is skipped even if it
/// failed: node writes TODO tests like this.
fn status(case: &Element) -> (Status, Option<&Element>) {
    let ways = [
        ("skipped", Status::Skipped),
        ("error", Status::Error),
        ("failure", Status::Failed),
    ];
    for (name, status) in ways {
        if let Some(element) = case.child(name) {
            return (status, Some(element));
        }
    }
    // C++ runners mark skipped tests with an attribute.
    let not_run = ["notrun", "disabled", "skipped", "suppressed", "ignored"];
    let says = |name| case.attribute(name).map(str::to_ascii_lowercase);
    let is_not_run = |says: String| not_run.contains(&says.as_str());
    if says("status").is_some_and(is_not_run) || says("result").is_some_and(is_not_run) {
        (Status::Skipped, None)
    } else {
        (Status::Passed, None)
    }
}

fn words(element: &Element) -> Option<String> {
    let given = element.attribute("message").and_then(message);
    given.or_else(|| message(&element.text))
}

#[cfg(test)]
mod tests {
    use proctor_record::{outcome::Outcome, record::TrialStatus};

    use super::super::{samples, tests_report::Counts};
    use super::*;

    fn check(sample: &str, passed: u64, skipped: u64, failed: u64, errors: u64) -> Vec<TestCase> {
        let report = super::super::TestReport::read(sample.as_bytes()).unwrap();
        assert_eq!(report.source, Format::Junit);
        let expected = Counts {
            passed,
            skipped,
            failed,
            errors,
        };
        assert_eq!(report.counts(), expected);
        report.tests
    }

    fn find<'a>(tests: &'a [TestCase], name: &str) -> &'a TestCase {
        tests.iter().find(|test| test.full_name() == name).unwrap()
    }

    #[test]
    fn pytest() {
        let tests = check(samples::PYTEST_JUNIT, 2, 2, 1, 1);
        let failed = find(&tests, "test_sample::test_numbers[2]");
        assert_eq!(failed.message.as_deref(), Some("assert 2 < 2"));
        assert!(failed.duration.is_some());
        let broken = find(&tests, "test_sample::test_setup");
        assert_eq!(broken.status, Status::Error);
    }

    #[test]
    fn node_with_nested_suites_and_todo() {
        let tests = check(samples::NODE_JUNIT, 2, 2, 2, 0);
        assert_eq!(find(&tests, "a group::breaks").status, Status::Failed);
        assert_eq!(find(&tests, "some day").status, Status::Skipped);
    }

    #[test]
    fn vitest_files_that_cannot_be_loaded_are_errors() {
        let tests = check(samples::VITEST_JUNIT, 2, 2, 3, 0);
        assert_eq!(find(&tests, "broken.spec.mjs").status, Status::Failed);
        assert_eq!(
            find(&tests, "sample.spec.mjs::a group > works").status,
            Status::Passed
        );
    }

    #[test]
    fn jest_junit_and_mocha_and_nextest() {
        // jest-junit writes TODO tests as passed.
        check(samples::JEST_JUNIT, 3, 1, 2, 0);
        let tests = check(samples::MOCHA_XUNIT, 2, 1, 1, 0);
        assert_eq!(find(&tests, "a group::works").status, Status::Passed);
        let tests = check(samples::NEXTEST_JUNIT, 2, 0, 1, 0);
        assert_eq!(find(&tests, "sample::tests::fails").status, Status::Failed);
    }

    #[test]
    fn surefire_with_reruns() {
        let tests = check(samples::SUREFIRE, 2, 1, 0, 1);
        assert_eq!(find(&tests, "com.example.SampleTest::flaky").reruns, 2);
        let adds = find(&tests, "com.example.SampleTest::adds");
        assert_eq!(adds.duration.map(|it| it.as_millis()), Some(1_234_500));
    }

    #[test]
    fn empty_and_truncated_reports_are_errors() {
        let read = |text: &str| super::super::TestReport::read(text.as_bytes());
        let empty = read("<testsuites tests='0'></testsuites>");
        let format = Format::Junit;
        assert_eq!(empty, Err(ReportError::Empty { format }));
        let cut = read("<testsuite><testcase name='a'/>").unwrap_err();
        assert_eq!(
            cut.to_string(),
            "invalid Junit report: the document ends within <testsuite>"
        );
    }

    #[test]
    fn failed_set_up_of_a_suite_is_an_error() {
        let text = "<testsuite name='s'><error message='no'/><testcase name='a' result='suppressed'/></testsuite>";
        let tests = check(text, 0, 1, 0, 1);
        assert_eq!(tests[0].message.as_deref(), Some("no"));
    }

    #[test]
    fn junit_report_of_a_run_can_be_read() {
        let trial = |number, status| proctor_report::Trial {
            agent: 0,
            task: 0,
            run: 0,
            trial: number,
            status,
            outcome: Outcome::Completed,
            score: None,
            cost_usd: None,
            duration_ms: Some(1500),
            tokens: None,
            cached_tokens: None,
            is_lower_bound: false,
            differences: Vec::new(),
            unverified_judges: Vec::new(),
            delivery: Vec::new(),
            components: Vec::new(),
            rewards: std::collections::BTreeMap::new(),
            message: "3 of 4 passed <&\"']]>".to_owned(),
            folder: "trials/a/t/trial-1".into(),
            source: proctor_report::RowSource::Record,
        };
        let trials = proctor_report::Trials {
            runs: vec![proctor_report::RunRow::default()],
            agents: vec![proctor_report::AgentRow::default()],
            tasks: vec![proctor_report::TaskRow::default()],
            trials: vec![
                trial(1, TrialStatus::Passed),
                trial(2, TrialStatus::Failed),
                trial(3, TrialStatus::Error),
            ],
            active: Vec::new(),
        };
        check(&proctor_report::junit(&trials), 1, 0, 1, 1);
    }
}
