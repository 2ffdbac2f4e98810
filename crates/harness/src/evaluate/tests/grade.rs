//! The score of test results. Skipped and missing tests are not passed. A report without failures
//! whose command failed scores 0.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Results, TestsSettings,
    expected::{Expected, Others},
    trace::Origin,
};
use crate::evaluate::reports::{Counts, Format, Status, TestCase, TestReport};

/// The graded results of one or more runs of the tests.
pub(super) struct Grade {
    tests: Vec<Judged>,
    source: String,
    /// The format of the report; `None` for a summary.
    format: Option<Format>,
    counts: Counts,
    /// The number of names that occur more than once in the report.
    duplicates: usize,
    /// The exit code of a failed command whose report has no failure.
    contradiction: Option<i32>,
    /// The exit code of a command that failed.
    failing: Option<i32>,
    /// The number of reruns.
    reruns: u32,
    /// The expected number of tests, if missing tests have no names.
    short_of: Option<u64>,
}

/// One entry of the report, or a missing test.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    name: String,
    /// Whether it is part of the score. Tests that the work added are not.
    counts: bool,
    /// The status; `None` if the test is missing.
    status: Option<Status>,
    weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// The number of reruns before this status.
    reruns: u32,
    #[serde(skip)]
    is_load: bool,
    #[serde(skip)]
    group: Option<String>,
    #[serde(skip)]
    origin: Origin,
}

impl Judged {
    /// An expected test that did not run.
    fn missing(name: &str, settings: &TestsSettings) -> Judged {
        Judged {
            name: name.to_owned(),
            counts: true,
            status: None,
            weight: weight_of(settings, name),
            message: None,
            duration_ms: None,
            reruns: 0,
            is_load: false,
            group: None,
            origin: Origin::Unknown,
        }
    }

    /// The sort key, worst first: missing, then by status.
    fn badness(&self) -> (bool, Option<Status>) {
        (self.status.is_none(), self.status)
    }

    fn is_passed(&self) -> bool {
        self.status == Some(Status::Passed)
    }
}

/// The result as numbers.
pub(super) struct Graded {
    pub(super) score: f64,
    pub(super) passed: usize,
    pub(super) total: usize,
}

impl Grade {
    pub(super) fn of(settings: &TestsSettings, results: &Results, code: Option<i32>) -> Grade {
        let failing = code.filter(|code| *code != 0);
        match results {
            Results::Report(report, origins) => {
                let counts = report.counts();
                let all_well = counts.failed == 0 && counts.errors == 0;
                Grade {
                    tests: judged(settings, report, origins),
                    format: Some(report.source),
                    source: word(report.source),
                    counts,
                    duplicates: report.duplicates().len(),
                    contradiction: failing.filter(|_| all_well),
                    failing,
                    reruns: 0,
                    short_of: None,
                }
            }
            Results::Text(summary) => {
                let counts = summary.counts;
                let all_well = counts.failed == 0 && counts.errors == 0;
                Grade {
                    tests: Vec::new(),
                    format: None,
                    source: "text".to_owned(),
                    counts,
                    duplicates: 0,
                    contradiction: failing.filter(|_| all_well),
                    failing,
                    reruns: 0,
                    short_of: None,
                }
            }
        }
    }

    /// Whether any test passed, so that the expected tests matter.
    pub(super) fn has_passes(&self) -> bool {
        self.tests.iter().any(Judged::is_passed) || self.graded().score > 0.0
    }

    /// Whether expected tests are missing.
    pub(super) fn misses(&self, expected: &Expected) -> bool {
        let mut names = BTreeMap::new();
        for test in &self.tests {
            *names.entry(test.name.as_str()).or_default() += 1;
        }
        expected.misses(&names, self.counts)
    }

    /// Counts the expected tests, and others if they belong to the task. A missing expected test
    /// counts as not passed.
    pub(super) fn expect(&mut self, expected: &Expected, settings: &TestsSettings) {
        if self.tests.is_empty() || (expected.names.is_empty() && expected.total > 0) {
            let is_short = self.counts.total() < expected.total;
            self.short_of = is_short.then_some(expected.total);
            return;
        }
        if expected.others == Others::Count {
            return;
        }
        // If the work added tests of the same name, the worst results count as the task's.
        self.tests
            .sort_by_key(|test| std::cmp::Reverse(test.badness()));
        let mut left = expected.names.clone();
        for test in &mut self.tests {
            let left = left.get_mut(&test.name);
            let is_expected = left.as_deref().is_some_and(|left| *left > 0);
            if let (Some(left), true) = (left, is_expected) {
                *left -= 1;
            }
            test.counts = is_expected;
        }
        if expected.others == Others::ByOrigin {
            self.count_by_origin(expected, settings);
        }
        let may_be_missing = |name: &str| settings.may_skip.is_match(name);
        let missing = left.iter().filter(|(name, _)| !may_be_missing(name));
        for (name, count) in missing {
            let all = std::iter::repeat_with(|| Judged::missing(name, settings));
            self.tests.extend(all.take(*count));
        }
        self.tests.sort_by(|one, other| one.name.cmp(&other.name));
        // A failed command must have a failed test of the task. Otherwise its report is not trusted.
        if !self
            .tests
            .iter()
            .any(|test| test.counts && !test.is_passed())
        {
            self.contradiction = self.contradiction.or(self.failing);
        }
    }

    /// Counts tests that are not expected by name because the untouched task cannot load them.
    fn count_by_origin(&mut self, expected: &Expected, settings: &TestsSettings) {
        let is_expected = |test: &Judged| expected.names.contains_key(&test.name);
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        for test in self.tests.iter_mut().filter(|test| !is_expected(test)) {
            test.counts = match test.origin {
                // The work prevented the tests of a file that could not be loaded before.
                _ if test.is_load && test.status < Some(Status::Failed) => {
                    let is_new = !expected.idle.contains(&test.name);
                    test.status = test.status.filter(|_| !is_new);
                    is_new
                }
                Origin::Work => false,
                _ if test.is_load => true,
                Origin::Task {
                    definitions: Some(most),
                } => {
                    let short = short_name(&test.name).to_owned();
                    let seen = by_name.entry(short).or_default();
                    *seen += 1;
                    *seen <= most
                }
                Origin::Task { definitions: None } => true,
                // The work may have added it, so it can only reduce the score.
                Origin::Unknown => !test.is_passed(),
            };
        }
        if !self.tests.iter().any(|test| test.counts) {
            let unknown = self.tests.iter_mut();
            let unknown = unknown.filter(|test| test.origin == Origin::Unknown && !test.is_load);
            unknown.for_each(|test| test.counts = true);
        }
        let silent: BTreeSet<&String> = expected
            .broken
            .iter()
            .filter(|name| self.is_silent(name))
            .collect();
        self.tests.extend(
            silent
                .into_iter()
                .map(|name| Judged::missing(name, settings)),
        );
    }

    /// Whether the report has no entry of a file, module or package, in formats that name them.
    fn is_silent(&self, name: &str) -> bool {
        let is_named = match self.format {
            Some(Format::Jest) => true,
            // A package, not a file of an unreadable package.
            Some(Format::GoTest) => Utf8Path::new(name).extension() != Some("go"),
            // A Python module, not a Node file.
            Some(Format::Junit) => !name.contains('/'),
            _ => false,
        };
        let is_of = |group: &str| {
            let rest = group.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
        };
        let is_reported = |test: &Judged| {
            test.group.as_deref().is_some_and(is_of) || (test.is_load && test.name.ends_with(name))
        };
        is_named && !self.tests.iter().any(is_reported)
    }

    /// Whether the maximum score is reached.
    pub(super) fn is_full(&self) -> bool {
        self.graded().score >= 1.0
    }

    /// Merges another run of the same tests: a test that passes once has passed.
    pub(super) fn merge(&mut self, other: Grade) {
        self.reruns += 1;
        if self.contradiction.is_some() || (self.tests.is_empty() && other.tests.is_empty()) {
            let reruns = self.reruns;
            *self = Grade { reruns, ..other };
            return;
        }
        for test in self.tests.iter_mut().filter(|test| !test.is_passed()) {
            let same = other.tests.iter().find(|again| again.name == test.name);
            test.reruns += 1;
            if same.is_some_and(Judged::is_passed) {
                test.status = Some(Status::Passed);
            }
        }
    }

    pub(super) fn graded(&self) -> Graded {
        if self.source == "text" {
            // A summary has no names and is easily forged, so it scores 0 or 1.
            let counts = self.counts;
            let is_sound = self.contradiction.is_none() && self.short_of.is_none();
            let is_good = is_sound && counts.passed == counts.total();
            return Graded {
                score: if is_good { 1.0 } else { 0.0 },
                passed: usize::try_from(counts.passed).unwrap_or(usize::MAX),
                total: usize::try_from(counts.total()).unwrap_or(usize::MAX),
            };
        }
        let counted = self.tests.iter().filter(|test| test.counts);
        let passed = counted.clone().filter(|test| test.is_passed());
        let total: f64 = counted.clone().map(|test| test.weight).sum();
        // The sum of no values is -0.
        let won = passed.clone().map(|test| test.weight).sum::<f64>() + 0.0;
        let score = match (self.contradiction, total > 0.0) {
            (None, true) if self.short_of.is_none() => won / total,
            _ => 0.0,
        };
        Graded {
            score,
            passed: passed.count(),
            total: counted.count(),
        }
    }

    /// Remarks in addition to the numbers.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let named = |wanted: &dyn Fn(&Judged) -> bool| {
            let names = self.tests.iter().filter(|test| test.counts && wanted(test));
            names.map(|test| test.name.as_str()).collect::<Vec<_>>()
        };
        let mut tell = |names: Vec<&str>, what: &str| {
            if let [first, more @ ..] = names.as_slice() {
                let more = match more.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                remarks.push(format!("{what}: {first}{more}"));
            }
        };
        let is = |status| move |test: &Judged| test.status == Some(status);
        tell(named(&is(Status::Failed)), "failed");
        tell(named(&is(Status::Error)), "broke");
        tell(named(&is(Status::Skipped)), "skipped, which is not passed");
        tell(named(&|test| test.status.is_none()), "missing");
        tell(
            named(&|test| test.is_passed() && test.reruns > 0),
            "passed only in a rerun",
        );
        if let Some(code) = self.contradiction {
            let message =
                format!("the report has no failed test of the task, but the exit code is {code}");
            remarks.push(message);
        }
        if let Some(before) = self.short_of {
            remarks.push(format!("{before} tests are expected"));
        }
        let (counted, others) = self.shares();
        if counted == 0 && others > 0 {
            remarks.push("no test of the task ran".to_owned());
        }
        if others > 0 {
            remarks.push(format!(
                "{others} tests that do not belong to the task are not counted"
            ));
        }
        if self.source == "text" {
            remarks.push("read from a summary, not from a report".to_owned());
        }
        remarks
    }

    /// The numbers of tests that count and that do not.
    fn shares(&self) -> (usize, usize) {
        let counted = self.tests.iter().filter(|test| test.counts).count();
        (counted, self.tests.len() - counted)
    }

    pub(super) fn metrics(&self) -> Map<String, Value> {
        let (counted, others) = self.shares();
        let reruns: u32 = self.tests.iter().map(|test| test.reruns).sum();
        let flaky = self
            .tests
            .iter()
            .filter(|test| test.is_passed() && test.reruns > 0)
            .count();
        let metrics = json!({
            "source": self.source,
            "is_fallback": self.source == "text",
            "tests": self.counts,
            "counted": counted,
            "not_counted": others,
            "reruns": reruns,
            "flaky": flaky,
            "duplicate_names": self.duplicates,
        });
        match metrics {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The results as a JSON document.
    pub(super) fn document(&self) -> Value {
        json!({
            "source": self.source,
            "counts": self.counts,
            "reruns": self.reruns,
            "tests": self.tests,
        })
    }
}

fn weight_of(settings: &TestsSettings, name: &str) -> f64 {
    let mut patterns = settings.weights.iter();
    let of_pattern = patterns.find(|(glob, _)| glob.is_match(name));
    of_pattern.map_or(1.0, |(_, weight)| *weight)
}

/// The name of a test in code, without its groups.
fn short_name(name: &str) -> &str {
    let inner = name.rsplit("::").next().unwrap_or(name);
    inner.rsplit(" > ").next().unwrap_or(inner)
}

/// The entries of a report, limited to selected tests if there is a selection.
fn judged(settings: &TestsSettings, report: &TestReport, origins: &[Origin]) -> Vec<Judged> {
    if !settings.wanted.is_empty() {
        let wanted = settings.wanted.iter();
        let judged = wanted.map(|name| Judged {
            status: report.status_of(name),
            ..Judged::missing(name, settings)
        });
        return judged.collect();
    }
    let may_be_skipped = |test: &TestCase| {
        test.status == Status::Skipped && settings.may_skip.is_match(test.full_name())
    };
    let milliseconds =
        |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let tests = report.tests.iter().zip(origins);
    tests
        .filter(|(test, _)| !may_be_skipped(test))
        .map(|(test, origin)| Judged {
            status: Some(test.status),
            message: test.message.clone(),
            duration_ms: test.duration.map(milliseconds),
            reruns: test.reruns,
            is_load: test.is_load,
            group: test.group.clone(),
            origin: *origin,
            ..Judged::missing(&test.full_name(), settings)
        })
        .collect()
}

/// The name of a format in files.
fn word(format: crate::evaluate::reports::Format) -> String {
    let word = serde_json::to_value(format).ok();
    word.and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::Unread, *};

    const OWN: Origin = Origin::Task { definitions: None };

    fn test(name: &str, status: Status, origin: Origin) -> (TestCase, Origin) {
        let report = format!("<testsuite><testcase name='{name}'/></testsuite>");
        let mut case = TestReport::read(report.as_bytes()).unwrap().tests.remove(0);
        case.status = status;
        (case, origin)
    }

    fn load(name: &str, status: Status) -> (TestCase, Origin) {
        let (mut case, origin) = test(name, status, OWN);
        case.is_load = true;
        (case, origin)
    }

    fn names(names: &[(&str, usize)]) -> BTreeMap<String, usize> {
        let names = names.iter();
        names
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    fn expected(expect: &[(&str, usize)], others: Others) -> Expected {
        Expected {
            names: names(expect),
            others,
            ..Expected::default()
        }
    }

    /// The score and the number of counted tests, given the expected tests.
    fn graded(
        source: Format,
        entries: Vec<(TestCase, Origin)>,
        expected: &Expected,
    ) -> (f64, usize) {
        let settings = TestsSettings::of_line("true", Duration::from_secs(1), Unread::Nothing);
        let (tests, origins) = entries.into_iter().unzip();
        let results = Results::Report(TestReport { source, tests }, origins);
        let mut grade = Grade::of(&settings, &results, Some(0));
        grade.expect(expected, &settings);
        (grade.graded().score, grade.graded().total)
    }

    #[track_caller]
    fn check(entries: Vec<(TestCase, Origin)>, expected: &Expected, score: f64, counted: usize) {
        let found = graded(Format::Junit, entries, expected);
        assert!((found.0 - score).abs() < 1e-9, "{found:?}");
        assert_eq!(found.1, counted);
    }

    use Status::{Failed, Passed, Skipped};

    #[test]
    fn only_expected_tests_count_and_missing_ones_did_not_pass() {
        let only = expected(&[("one", 1), ("two", 1)], Others::DoNotCount);
        let more = (0..198).map(|n| test(&format!("more {n}"), Passed, Origin::Work));
        let half = [test("one", Passed, OWN), test("two", Failed, OWN)];
        check(
            half.iter().cloned().chain(more.clone()).collect(),
            &only,
            0.5,
            2,
        );
        check(vec![test("one", Passed, OWN)], &only, 0.5, 2);
        check(more.collect(), &only, 0.0, 2);
        let own_failure = test("of the agent", Failed, Origin::Work);
        let all = vec![
            test("one", Passed, OWN),
            test("two", Passed, OWN),
            own_failure,
        ];
        check(all, &only, 1.0, 2);
    }

    #[test]
    fn worst_results_of_a_shared_name_count() {
        let only = expected(&[("one", 2)], Others::DoNotCount);
        let entries = [Passed, Passed, Failed, Passed].map(|it| test("one", it, Origin::Unknown));
        check(entries.to_vec(), &only, 0.5, 2);
        check(vec![test("one", Passed, OWN)], &only, 0.5, 2);
    }

    #[test]
    fn tests_without_expected_names_count_by_origin() {
        let by_origin = expected(&[], Others::ByOrigin);
        let defined_once = Origin::Task {
            definitions: Some(1),
        };
        let entries = vec![
            test("one", Failed, defined_once),
            // A test of the work has the same name in code.
            test("tests::one", Passed, defined_once),
            test("two", Passed, OWN),
            test("more", Passed, Origin::Work),
            test("of unknown origin", Passed, Origin::Unknown),
        ];
        check(entries, &by_origin, 0.5, 2);
        let failing = vec![
            test("two", Passed, OWN),
            test("dynamic", Failed, Origin::Unknown),
        ];
        check(failing, &by_origin, 0.5, 2);
        let dynamic = vec![
            test("a", Passed, Origin::Unknown),
            test("b", Passed, Origin::Unknown),
        ];
        check(dynamic, &by_origin, 1.0, 2);
        check(vec![test("more", Passed, Origin::Work)], &by_origin, 0.0, 0);
    }

    #[test]
    fn task_file_without_a_test_run_has_failed() {
        let by_origin = expected(&[], Others::ByOrigin);
        check(vec![load("mul.test.js", Passed)], &by_origin, 0.0, 1);
        check(vec![load("tests.test_mul", Skipped)], &by_origin, 0.0, 1);
        check(
            vec![load("mul.test.js", Failed), test("a", Passed, OWN)],
            &by_origin,
            0.5,
            2,
        );
        let idle = Expected {
            idle: BTreeSet::from(["helper.js".to_owned()]),
            ..by_origin
        };
        check(
            vec![load("helper.js", Passed), test("a", Passed, OWN)],
            &idle,
            1.0,
            1,
        );
    }

    #[test]
    fn unloadable_module_without_an_entry_is_missing() {
        let broken = Expected {
            broken: vec!["tests.test_mul".to_owned()],
            ..expected(&[("tests.test_add::a", 1)], Others::ByOrigin)
        };
        let of = |group: &str, name: &str| {
            let (mut case, origin) = test(name, Passed, OWN);
            case.group = Some(group.to_owned());
            (case, origin)
        };
        let silent = vec![of("tests.test_add", "a")];
        check(silent.clone(), &broken, 0.5, 2);
        let reported = [silent, vec![of("tests.test_mul.TestX", "b")]].concat();
        check(reported, &broken, 1.0, 2);
    }
}
