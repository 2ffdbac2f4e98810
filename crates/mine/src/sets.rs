//! The tests that decide about a task, from runs of the tests in four states.

use std::collections::{BTreeMap, BTreeSet};

use proctor_record::text::counted;

use crate::reject::{Reject, Rejection};

/// The number of test names in evidence.
const SHOWN: usize = 5;

/// Words of errors of the network.
const NETWORK_ERRORS: [&str; 12] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "nodename nor servname",
    "network is unreachable",
    "no route to host",
    "getaddrinfo",
    "enotfound",
    "eai_again",
    "dial tcp",
    "failed to lookup address",
    "connectionerror",
];

/// The result of one run of the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestRun {
    /// The tests with their results, or the reason that there are none.
    pub(crate) tests: Result<BTreeMap<String, TestResult>, String>,
    /// The duration in milliseconds.
    pub(crate) millis: u64,
}

/// The result of one test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestResult {
    pub(crate) has_passed: bool,
    pub(crate) message: Option<String>,
}

impl TestRun {
    fn passes(&self, name: &str) -> bool {
        let tests = self.tests.as_ref().ok();
        tests.is_some_and(|tests| tests.get(name).is_some_and(|test| test.has_passed))
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.tests.iter().flat_map(BTreeMap::keys)
    }

    fn has(&self, name: &str) -> bool {
        self.tests
            .as_ref()
            .is_ok_and(|tests| tests.contains_key(name))
    }

    /// An error of the network in a message of the run.
    fn network_error(&self) -> Option<&str> {
        let messages: Vec<&str> = match &self.tests {
            Err(reason) => vec![reason],
            Ok(tests) => {
                let failed = tests.values().filter(|test| !test.has_passed);
                failed.filter_map(|test| test.message.as_deref()).collect()
            }
        };
        messages.into_iter().find(|message| {
            let message = message.to_lowercase();
            NETWORK_ERRORS.iter().any(|words| message.contains(words))
        })
    }
}

/// The runs of the four states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The parent.
    pub(crate) base: Vec<TestRun>,
    /// The parent with the tests of the commit.
    pub(crate) with_tests: Vec<TestRun>,
    /// The commit.
    pub(crate) commit: Vec<TestRun>,
    /// The parent with the source part and the tests of the commit.
    pub(crate) rebuilt: Vec<TestRun>,
}

/// The tests that decide about a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sets {
    /// They never pass before the work, and always after it.
    pub(crate) fail_to_pass: Vec<String>,
    /// They always pass before and after the work.
    pub(crate) pass_to_pass: Vec<String>,
    /// They do not have the same result every time, and do not count.
    pub(crate) flaky: Vec<String>,
    /// New tests that pass before the work. They do not count.
    pub(crate) already_green: Vec<String>,
    /// They fail on the commit, and do not count.
    pub(crate) failing: Vec<String>,
    /// Tests of `fail_to_pass` that did not run before the work, because they do not build or load.
    pub(crate) by_build: usize,
}

/// How often a test passes in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Always,
    Sometimes,
    Never,
}

fn passes(runs: &[TestRun], name: &str) -> Passes {
    match runs.iter().filter(|run| run.passes(name)).count() {
        0 => Passes::Never,
        count if count == runs.len() => Passes::Always,
        _ => Passes::Sometimes,
    }
}

/// Decides whether a candidate is a task, with the tests that count. A run that takes longer than
/// `limit_ms` is too slow.
pub(crate) fn decide(observed: &Observed, limit_ms: u64) -> Result<Sets, Rejection> {
    let needed = observed.base.iter().chain(&observed.commit);
    if let Some(slow) = needed
        .map(|run| run.millis)
        .find(|millis| *millis > limit_ms)
    {
        let evidence = format!("a run took {slow} ms; the limit is {limit_ms} ms");
        return Err(Rejection::new(Reject::TooSlow, evidence));
    }
    check_reports(&observed.commit)?;
    let mut sets = Sets::default();
    let names: BTreeSet<&String> = observed.commit.iter().flat_map(TestRun::names).collect();
    for name in names {
        sets.list_for(observed, name).push(name.clone());
    }
    rebuild(&mut sets, &observed.rebuilt)?;
    if sets.fail_to_pass.is_empty() {
        return Err(without_failures(&sets, observed));
    }
    Ok(sets)
}

impl Sets {
    /// Whether every test that counts passes in a run.
    pub(crate) fn all_pass(&self, run: &TestRun) -> bool {
        let mut counted = self.fail_to_pass.iter().chain(&self.pass_to_pass);
        counted.all(|name| run.passes(name))
    }

    /// The set that a test of the commit belongs to.
    fn list_for(&mut self, observed: &Observed, name: &str) -> &mut Vec<String> {
        let base = passes(&observed.base, name);
        let with_tests = passes(&observed.with_tests, name);
        let is_built = observed.with_tests.iter().any(|run| run.has(name));
        match (base, with_tests, passes(&observed.commit, name)) {
            (_, _, Passes::Never) => &mut self.failing,
            (_, _, Passes::Sometimes) | (Passes::Sometimes, ..) | (_, Passes::Sometimes, _) => {
                &mut self.flaky
            }
            (Passes::Always, Passes::Always, _) => &mut self.pass_to_pass,
            (_, Passes::Always, _) => &mut self.already_green,
            // It passes before the work; the tests of the commit only do not build there.
            (Passes::Always, Passes::Never, _) if !is_built => &mut self.pass_to_pass,
            (_, Passes::Never, _) => {
                self.by_build += usize::from(!is_built);
                &mut self.fail_to_pass
            }
        }
    }
}

/// Rejects a commit without results in every run.
fn check_reports(commit: &[TestRun]) -> Result<(), Rejection> {
    let missing: Vec<&String> = commit
        .iter()
        .filter_map(|run| run.tests.as_ref().err())
        .collect();
    let Some(reason) = missing.first() else {
        return Ok(());
    };
    if let Some(error) = commit.iter().find_map(TestRun::network_error) {
        return Err(Rejection::new(Reject::NeedsNetwork, error));
    }
    if missing.len() < commit.len() {
        let evidence = format!(
            "{} of {} runs have no report: {reason}",
            missing.len(),
            commit.len()
        );
        return Err(Rejection::new(Reject::Flaky, evidence));
    }
    Err(Rejection::new(Reject::NoReport, reason.as_str()))
}

/// Compares the commit with the state that is judged.
fn rebuild(sets: &mut Sets, rebuilt: &[TestRun]) -> Result<(), Rejection> {
    let counted = sets.fail_to_pass.iter().chain(&sets.pass_to_pass);
    let never = counted.filter(|name| passes(rebuilt, name) == Passes::Never);
    let never: Vec<&String> = never.collect();
    if !never.is_empty() {
        let evidence = format!("pass on the commit and fail on its parts: {}", list(&never));
        return Err(Rejection::new(Reject::SplitWrong, evidence));
    }
    let is_flaky = |name: &String| passes(rebuilt, name) == Passes::Sometimes;
    for set in [&mut sets.fail_to_pass, &mut sets.pass_to_pass] {
        let (flaky, stable): (Vec<_>, Vec<_>) = std::mem::take(set).into_iter().partition(is_flaky);
        *set = stable;
        sets.flaky.extend(flaky);
    }
    sets.flaky.sort();
    Ok(())
}

/// The reason that no test fails before the work and passes after it.
fn without_failures(sets: &Sets, observed: &Observed) -> Rejection {
    if let Some(error) = observed.commit.iter().find_map(TestRun::network_error) {
        return Rejection::new(Reject::NeedsNetwork, error);
    }
    let flaky = sets.flaky.iter();
    let flaky = flaky.filter(|name| passes(&observed.with_tests, name) != Passes::Always);
    let flaky: Vec<&String> = flaky.collect();
    if !flaky.is_empty() {
        let evidence = format!("different results in equal runs: {}", list(&flaky));
        return Rejection::new(Reject::Flaky, evidence);
    }
    let is_broken = |name: &&String| {
        let failed_before = |run: &TestRun| run.has(name) && !run.passes(name);
        !observed.base.iter().any(failed_before)
    };
    let broken: Vec<&String> = sets.failing.iter().filter(is_broken).collect();
    let red = if broken.is_empty() && sets.already_green.is_empty() {
        sets.failing.iter().collect()
    } else {
        broken
    };
    if !red.is_empty() {
        let evidence = format!("fail on the commit: {}", list(&red));
        return Rejection::new(Reject::NotGreen, evidence);
    }
    let green = sets.pass_to_pass.len() + sets.already_green.len();
    let evidence = format!(
        "{} of the commit pass on its parent",
        counted(green, "test")
    );
    Rejection::new(Reject::AlreadyGreen, evidence)
}

/// The first names of a list.
fn list(names: &[&String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(|name| name.as_str()).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run from names of tests; a name that starts with `!` has failed. `None` is a run without a
    /// report.
    fn run(tests: Option<&str>) -> TestRun {
        let test = |word: &str| {
            let result = TestResult {
                has_passed: !word.starts_with('!'),
                message: None,
            };
            (word.trim_start_matches('!').to_owned(), result)
        };
        let tests = tests.map(|tests| tests.split_whitespace().map(test).collect());
        TestRun {
            tests: tests.ok_or_else(|| "no report".to_owned()),
            millis: 10,
        }
    }

    /// The decision about equal runs of the base, the base with tests, and the commit; the rebuilt
    /// state is the commit.
    fn decided(states: [&[Option<&str>]; 3]) -> Result<Sets, Reject> {
        let [base, with_tests, commit] = states.map(|runs| runs.iter().copied().map(run).collect());
        let observed = Observed {
            rebuilt: Vec::clone(&commit),
            base,
            with_tests,
            commit,
        };
        decide(&observed, 1000).map_err(|rejection| rejection.code)
    }

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tests_are_sorted_into_sets() {
        let found = decided([
            &[Some("old !broken")],
            &[Some("old !broken !new")],
            &[Some("old !broken new")],
        ])
        .unwrap();
        assert_eq!(found.fail_to_pass, names("new"));
        assert_eq!(found.pass_to_pass, names("old"));
        assert_eq!(found.failing, names("broken"));
        assert_eq!(found.by_build, 0);
    }

    #[test]
    fn changed_test_of_the_parent_must_fail_before_the_work() {
        let found = decided([&[Some("a b")], &[Some("a !b")], &[Some("a b")]]).unwrap();
        assert_eq!(found.fail_to_pass, names("b"));
        assert_eq!(found.pass_to_pass, names("a"));
    }

    #[test]
    fn tests_that_do_not_build_before_the_work_fail() {
        let found = decided([&[Some("a")], &[None], &[Some("a new")]]).unwrap();
        assert_eq!(found.fail_to_pass, names("new"));
        assert_eq!(found.pass_to_pass, names("a"));
        assert_eq!(found.by_build, 1);
    }

    #[test]
    fn flaky_tests_do_not_count() {
        let twice = |one: &'static str, other| [Some(one), Some(other)];
        let found = decided([
            &twice("a b", "a !b"),
            &twice("a b !x !y", "a b !x !y"),
            &twice("a b x y", "a b x !y"),
        ])
        .unwrap();
        assert_eq!(found.fail_to_pass, names("x"));
        assert_eq!(found.pass_to_pass, names("a"));
        assert_eq!(found.flaky, names("b y"));
    }

    #[test]
    fn every_reason_has_its_code() {
        let some = |text| vec![Some(text)];
        for (base, with_tests, commit, expected) in [
            (
                some("a"),
                some("a new"),
                some("a new"),
                Reject::AlreadyGreen,
            ),
            (
                some("a !old"),
                some("a !old b"),
                some("a !old b"),
                Reject::AlreadyGreen,
            ),
            (some("a"), some("a !new"), some("a !new"), Reject::NotGreen),
            (some("a"), some("a"), some("!a"), Reject::NotGreen),
            (some("a"), some("a !new"), vec![None], Reject::NoReport),
            (
                vec![Some("a"); 2],
                vec![Some("a !new"); 2],
                vec![Some("a new"), Some("a !new")],
                Reject::Flaky,
            ),
            (
                vec![Some("a"); 2],
                vec![None; 2],
                vec![Some("a b"), None],
                Reject::Flaky,
            ),
        ] {
            let found = decided([&base, &with_tests, &commit]);
            assert_eq!(found, Err(expected), "{base:?} {with_tests:?} {commit:?}");
        }
    }

    #[test]
    fn parts_must_give_the_results_of_the_commit() {
        let of = |text| vec![run(Some(text))];
        let mut observed = Observed {
            base: of("a"),
            with_tests: of("a !new"),
            commit: of("a new"),
            rebuilt: of("a !new"),
        };
        let found = decide(&observed, 1000).unwrap_err();
        assert_eq!(found.code, Reject::SplitWrong);
        assert!(found.evidence.contains("new"), "{found:?}");
        observed.rebuilt = of("a new");
        observed.commit[0].millis = 1001;
        assert_eq!(decide(&observed, 1000).unwrap_err().code, Reject::TooSlow);
        observed.commit = vec![TestRun {
            tests: Err("curl: Could not resolve host: example.com".to_owned()),
            millis: 1,
        }];
        let found = decide(&observed, 1000).unwrap_err();
        assert_eq!(found.code, Reject::NeedsNetwork);
    }
}
