//! The expected tests: those of the reference solution, else those of the task's own files.
//! Otherwise an agent could pass by ending the runner early or by adding tests.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Attempt, Results, trace::Origin};
use crate::evaluate::{
    control::End,
    reports::{Counts, Status},
};

/// The tests of a run on a tree other than the work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Control {
    /// Whether the command could run at all.
    pub(super) has_run: bool,
    /// Whether it had results.
    pub(super) has_results: bool,
    /// The entries of the report; empty if only a summary is printed.
    tests: Vec<Seen>,
    /// The number of tests in a summary.
    total: u64,
}

/// An entry of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The full name.
    pub(super) name: String,
    /// The name without its group.
    pub(super) short: String,
    pub(super) status: Status,
    /// Whether it is a file or package instead of its tests.
    pub(super) is_load: bool,
    pub(super) origin: Origin,
}

impl Control {
    pub(super) fn of(attempt: &Attempt) -> Control {
        let mut control = Control {
            has_run: !matches!(attempt.end, End::NotFound(_)),
            has_results: attempt.results.is_ok(),
            ..Control::default()
        };
        match &attempt.results {
            Ok(Results::Report(report, origins)) => {
                let entries = report.tests.iter().zip(origins);
                let seen = entries.map(|(test, origin)| Seen {
                    name: test.full_name(),
                    short: test.name.clone(),
                    status: test.status,
                    is_load: test.is_load,
                    origin: *origin,
                });
                control.tests = seen.collect();
            }
            // Files that could not be loaded are counted as errors.
            Ok(Results::Text(summary)) => {
                let errors = summary.counts.errors;
                control.total = summary.counts.total().saturating_sub(errors);
            }
            Err(_) => {}
        }
        control
    }

    fn tests(&self) -> impl Iterator<Item = &Seen> {
        self.tests.iter().filter(|test| !test.is_load)
    }

    fn broken(&self) -> impl Iterator<Item = &Seen> {
        let loads = self.tests.iter().filter(|test| test.is_load);
        loads.filter(|load| load.status >= Status::Failed)
    }

    /// Whether everything was loaded and there are tests: then the task has no other tests.
    fn is_whole(&self) -> bool {
        self.tests().next().is_some() && self.broken().next().is_none()
    }

    /// Whether only the untouched task can show which of these tests belong to the task.
    pub(super) fn is_doubtful(&self) -> bool {
        let mut tests = self.tests();
        tests.any(|test| !matches!(test.origin, Origin::Task { .. }))
    }

    fn counted<'a>(tests: impl Iterator<Item = &'a Seen>) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        for test in tests {
            *names.entry(test.name.clone()).or_default() += 1;
        }
        names
    }
}

/// The expected tests, and whether others count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expected {
    /// Their names, with the number of tests of each name.
    pub(super) names: BTreeMap<String, usize>,
    /// The expected number of tests in a summary.
    pub(super) total: u64,
    pub(super) others: Others,
    /// Files and packages that the untouched task cannot load, by the names of their test groups.
    pub(super) broken: Vec<String>,
    /// Files in which the untouched task runs no test.
    pub(super) idle: BTreeSet<String>,
}

/// Whether tests count that are not expected by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Others {
    /// All count.
    #[default]
    Count,
    /// None counts: they were added by the work.
    DoNotCount,
    /// Those defined in the task's own files count.
    ByOrigin,
}

impl Expected {
    /// The expected tests from the reference solution; `None` if it has no tests. Tests that the
    /// reference added are not expected; `base` identifies them if their files do not.
    pub(super) fn of_reference(reference: &Control, base: Option<&Control>) -> Option<Expected> {
        let known = base.map(|base| Control::counted(base.tests()));
        let known = known.unwrap_or_default();
        let is_whole = base.is_some_and(Control::is_whole);
        let is_the_tasks = |test: &&Seen| match test.origin {
            Origin::Task { .. } => true,
            Origin::Work => known.contains_key(&test.name),
            Origin::Unknown => !is_whole || known.contains_key(&test.name),
        };
        // A test that the reference skips, for example on this platform, may be skipped.
        let has_run = |test: &&Seen| test.status != Status::Skipped;
        let mut names = Control::counted(reference.tests().filter(is_the_tasks).filter(has_run));
        let has_tests = reference.tests().any(|test| has_run(&test));
        if !has_tests {
            // Scripts that are tests themselves.
            let passed = |load: &&Seen| load.is_load && load.status == Status::Passed;
            names = Control::counted(reference.tests.iter().filter(passed));
        }
        if names.is_empty() && has_tests {
            // The reference passes only its own tests: the task is to write tests.
            return Some(Expected::default());
        }
        let expected = Expected {
            names,
            total: reference.total,
            others: Others::DoNotCount,
            ..Expected::default()
        };
        let is_empty = expected.names.is_empty() && expected.total == 0;
        (!is_empty).then_some(expected)
    }

    /// The expected tests from the untouched task.
    pub(super) fn of_base(base: &Control) -> Expected {
        let loads = base.tests.iter().filter(|test| test.is_load);
        let idle = loads.filter(|load| load.status < Status::Failed);
        Expected {
            names: Control::counted(base.tests()),
            total: base.total,
            others: if base.is_whole() {
                Others::DoNotCount
            } else {
                Others::ByOrigin
            },
            broken: base.broken().map(|load| load.short.clone()).collect(),
            idle: idle.map(|load| load.name.clone()).collect(),
        }
    }

    /// Keeps only tests that another run has as well: some names change with every run.
    pub(super) fn stable(mut self, again: &Control) -> Expected {
        if !again.has_results {
            return self;
        }
        let others = Control::counted(again.tests.iter());
        for (name, count) in &mut self.names {
            *count = others.get(name).copied().unwrap_or(0).min(*count);
        }
        self.names.retain(|_, count| *count > 0);
        self.total = self.total.min(again.total);
        self
    }

    /// Whether expected tests are missing in a report with these names and counts.
    pub(super) fn misses(&self, names: &BTreeMap<&str, usize>, counts: Counts) -> bool {
        let mut expected = self.names.iter();
        let is_missing =
            |(name, count): (&String, &usize)| names.get(name.as_str()).unwrap_or(&0) < count;
        expected.any(is_missing) || counts.total() < self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Origin = Origin::Task { definitions: None };

    fn seen(name: &str, status: Status, origin: Origin) -> Seen {
        Seen {
            name: name.to_owned(),
            short: name.to_owned(),
            status,
            is_load: false,
            origin,
        }
    }

    fn load(name: &str, status: Status) -> Seen {
        Seen {
            is_load: true,
            ..seen(name, status, OWN)
        }
    }

    fn control(tests: Vec<Seen>) -> Control {
        Control {
            has_run: true,
            has_results: true,
            tests,
            total: 0,
        }
    }

    fn names(expected: &Expected) -> Vec<(&str, usize)> {
        let names = expected.names.iter();
        names.map(|(name, count)| (name.as_str(), *count)).collect()
    }

    #[test]
    fn files_and_load_errors_are_never_expected() {
        let reference = control(vec![
            load("helper.js", Status::Passed),
            seen("one", Status::Passed, OWN),
            seen("one", Status::Passed, OWN),
            seen("of windows", Status::Skipped, OWN),
            seen("fails", Status::Failed, OWN),
        ]);
        let expected = Expected::of_reference(&reference, None).unwrap();
        assert_eq!(names(&expected), [("fails", 1), ("one", 2)]);
        assert_eq!(expected.others, Others::DoNotCount);
        let base = control(vec![load("test/mul.test.js", Status::Failed)]);
        let expected = Expected::of_base(&base);
        assert_eq!(names(&expected), []);
        assert_eq!(expected.others, Others::ByOrigin);
        assert_eq!(expected.broken, ["test/mul.test.js"]);
    }

    #[test]
    fn reference_without_tests_is_used_only_for_scripts() {
        assert_eq!(Expected::of_reference(&Control::default(), None), None);
        let broken = control(vec![load("a.js", Status::Error)]);
        assert_eq!(Expected::of_reference(&broken, None), None);
        let script = control(vec![load("a.js", Status::Passed)]);
        let expected = Expected::of_reference(&script, None).unwrap();
        assert_eq!(names(&expected), [("a.js", 1)]);
    }

    #[test]
    fn tests_added_by_the_reference_are_not_expected() {
        let reference = control(vec![
            seen("own", Status::Passed, OWN),
            seen("old unit", Status::Passed, Origin::Work),
            seen("new unit", Status::Passed, Origin::Work),
            seen("dynamic", Status::Passed, Origin::Unknown),
        ]);
        assert!(reference.is_doubtful());
        let unit = seen("old unit", Status::Passed, OWN);
        let whole = control(vec![unit.clone()]);
        let expected = Expected::of_reference(&reference, Some(&whole)).unwrap();
        assert_eq!(names(&expected), [("old unit", 1), ("own", 1)]);
        // A base that cannot load everything does not have all tests of the task.
        let half = control(vec![unit, load("tests.test_x", Status::Error)]);
        let expected = Expected::of_reference(&reference, Some(&half)).unwrap();
        assert_eq!(
            names(&expected),
            [("dynamic", 1), ("old unit", 1), ("own", 1)]
        );
    }

    #[test]
    fn all_tests_count_if_the_task_is_to_write_tests() {
        let reference = control(vec![seen("new", Status::Passed, Origin::Work)]);
        let expected = Expected::of_reference(&reference, Some(&Control::default()));
        assert_eq!(expected, Some(Expected::default()));
    }

    #[test]
    fn names_that_change_from_run_to_run_are_dropped() {
        let run = |id: &str| {
            control(vec![
                seen("one", Status::Passed, OWN),
                seen(id, Status::Passed, OWN),
            ])
        };
        let expected = Expected::of_reference(&run("test[a1]"), None).unwrap();
        assert!(expected.misses(&BTreeMap::from([("one", 1)]), Counts::default()));
        let expected = expected.stable(&run("test[b2]"));
        assert_eq!(names(&expected), [("one", 1)]);
        assert!(!expected.misses(&BTreeMap::from([("one", 1)]), Counts::default()));
        // A failed second run is ignored.
        assert_eq!(expected.clone().stable(&Control::default()), expected);
    }

    #[test]
    fn complete_base_has_all_expected_tests() {
        let base = control(vec![seen("one", Status::Failed, Origin::Unknown)]);
        let expected = Expected::of_base(&base);
        assert_eq!(names(&expected), [("one", 1)]);
        assert_eq!(expected.others, Others::DoNotCount);
        assert_eq!(
            Expected::of_base(&Control::default()).others,
            Others::ByOrigin
        );
    }
}
