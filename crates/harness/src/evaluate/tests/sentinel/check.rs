//! Runs sentinels: on the reference solution first, then on the work, and again to confirm odd
//! results.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::plan::{Oddity, OwnFile, Placing, Plan, TestId, candidates, chosen};
use crate::evaluate::{
    control::ControlTree,
    tests::{Attempt, Examiner},
};

/// The maximum number of sentinel tests.
const MOST_TESTS: usize = 32;
/// The maximum number of odd results that are confirmed.
const MOST_SUSPECTS: usize = 8;
/// The number of copies that confirm that a test passes regardless of its expectation. With this
/// many, results that change with every call do not look the same each time.
const COPIES: usize = 6;
/// The runs that confirm that a test passes regardless of its expectation.
const CONFIRM_FORGED: [Placing; 2] = [Placing::Copies(COPIES); 2];
/// The runs that confirm that a test passes only under its own name, in an aperiodic order. Each
/// test runs once and in its position, as in the first run: honest work can fail the second call of
/// a function, and a failed test can end the process of later tests. A test that passes in half of
/// all runs looks like this in one of a thousand trials.
const CONFIRM_UNKNOWN: [Placing; 8] = [
    Placing::Unchanged,
    Placing::Renamed,
    Placing::Renamed,
    Placing::Unchanged,
    Placing::Renamed,
    Placing::Unchanged,
    Placing::Unchanged,
    Placing::Renamed,
];

/// The result of sentinels.
pub(in crate::evaluate::tests) enum Checked {
    Unavailable(String),
    /// The number of sentinel tests, and the forged results.
    Done {
        tests: usize,
        forged: Vec<String>,
    },
}

impl Checked {
    fn unavailable(reason: &str) -> Checked {
        Checked::Unavailable(reason.to_owned())
    }

    pub(in crate::evaluate::tests) fn forged(&self) -> &[String] {
        match self {
            Checked::Unavailable(_) => &[],
            Checked::Done { forged, .. } => forged,
        }
    }

    /// Adds the result to the metrics of a verdict.
    pub(in crate::evaluate::tests) fn note(&self, metrics: &mut Map<String, Value>) {
        let value = match self {
            Checked::Unavailable(reason) => {
                metrics.insert("sentinels_reason".to_owned(), json!(reason));
                json!("unavailable")
            }
            Checked::Done { tests, .. } => json!({"tests": tests}),
        };
        metrics.insert("sentinels".to_owned(), value);
    }
}

/// The tests whose sentinels behave as expected on the reference solution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Usable {
    tests: BTreeSet<TestId>,
    /// The reason if there are none.
    reason: String,
}

type Suspects = BTreeMap<TestId, Oddity>;

impl Examiner<'_> {
    /// Checks the results of the work's first run with sentinels.
    pub(in crate::evaluate::tests) async fn sentinels(
        &self,
        first: &Attempt,
    ) -> Result<Checked, String> {
        let Some(reference) = self.judging.reference_control().await else {
            let reason = "the task has no reference solution with known files";
            return Ok(Checked::unavailable(reason));
        };
        let Some(report) = first.report() else {
            return Ok(Checked::unavailable("the results have no test names"));
        };
        let usable = self.usable(&reference, &first.own).await?;
        let mut tests = usable.tests;
        if tests.is_empty() {
            return Ok(Checked::Unavailable(usable.reason));
        }
        tests.retain(|id| id.has_passed(report));
        if tests.is_empty() {
            return Ok(Checked::unavailable(
                "no test that can be a sentinel passed",
            ));
        }
        let plan = Plan::new(&first.own, &tests, Placing::Copies(1));
        let work = self.judging.change.tree.as_str();
        let odd = self.oddities(&plan, ("-sentinels", work)).await?;
        let plainly: Suspects = odd
            .iter()
            .filter(|(_, odd)| odd.is_plain())
            .map(|(id, odd)| (id.clone(), *odd))
            .collect();
        let suspects = if plainly.is_empty() { odd } else { plainly };
        let suspects = suspects.into_iter().take(MOST_SUSPECTS).collect();
        let forged = self.confirmed(&first.own, suspects, &reference).await?;
        let text =
            |(id, odd): (TestId, Oddity)| format!("results of {}: {}", id.name, odd.in_words());
        Ok(Checked::Done {
            tests: tests.len(),
            forged: forged.into_iter().map(text).collect(),
        })
    }

    /// The suspects with the same oddity in every round, while the reference solution has none.
    async fn confirmed(
        &self,
        files: &[OwnFile],
        mut suspects: Suspects,
        reference: &ControlTree,
    ) -> Result<Suspects, String> {
        let work = self.judging.change.tree.as_str();
        let is_plain = suspects.values().all(|odd| odd.is_plain());
        let runs: &[Placing] = if is_plain {
            &CONFIRM_FORGED
        } else {
            &CONFIRM_UNKNOWN
        };
        let planned = |suspects: &Suspects, placing| {
            let tests = suspects.keys().cloned().collect();
            Plan::new(files, &tests, placing)
        };
        for (number, placing) in runs.iter().enumerate() {
            if suspects.is_empty() {
                return Ok(suspects);
            }
            let name = format!("-sentinels-{}", number + 1);
            if *placing == Placing::Unchanged {
                let own = self.attempt(&name, work).await?;
                let report = own.report();
                suspects.retain(|id, _| report.is_some_and(|report| id.has_passed(report)));
            } else {
                let plan = planned(&suspects, *placing);
                let again = self.oddities(&plan, (&name, work)).await?;
                suspects.retain(|id, odd| again.get(id) == Some(odd));
            }
        }
        let last = runs.last().copied().unwrap_or(Placing::Renamed);
        let plan = planned(&suspects, last);
        let which = ("-sentinels-reference-again", reference.tree.as_str());
        let right = self.right(&plan, which).await?;
        suspects.retain(|id, _| right.contains(id));
        Ok(suspects)
    }

    /// Runs sentinels on the work and finds odd results.
    async fn oddities(&self, plan: &Plan, which: (&str, &str)) -> Result<Suspects, String> {
        let attempt = self.edited_attempt(which, &plan.edits).await?;
        let report = attempt.report();
        let odd = plan.sentinels.iter().filter_map(|sentinel| {
            let odd = sentinel.oddity(report)?;
            Some((sentinel.id.clone(), odd))
        });
        Ok(odd.collect())
    }

    /// Runs sentinels on the reference solution and finds the tests that behave as expected.
    async fn right(&self, plan: &Plan, which: (&str, &str)) -> Result<BTreeSet<TestId>, String> {
        if plan.sentinels.is_empty() {
            return Ok(BTreeSet::new());
        }
        let attempt = self.edited_attempt(which, &plan.edits).await?;
        let Some(report) = attempt.report() else {
            return Ok(BTreeSet::new());
        };
        let right = plan.sentinels.iter().filter(|it| it.is_right(report));
        Ok(right.map(|sentinel| sentinel.id.clone()).collect())
    }

    /// The tests that can be sentinels, cached for all trials of the task in this run.
    async fn usable(&self, reference: &ControlTree, files: &[OwnFile]) -> Result<Usable, String> {
        let cached = self.cached_answer("-sentinels", &reference.tree).await?;
        if let Some(kept) = cached.get(self.judging.context.kept_since) {
            return Ok(kept);
        }
        let without = |reason: &str| Usable {
            tests: BTreeSet::new(),
            reason: reason.to_owned(),
        };
        let all = chosen(candidates(files), MOST_TESTS);
        if all.is_empty() {
            let reason = "no test of the task has an expected value that could be changed";
            return Ok(without(reason));
        }
        let tests = match self.right_in_parts(files, &all, reference).await {
            Ok(tests) => tests,
            Err(problem) if self.judging.cancel.is_cancelled() => return Err(problem),
            // The failure may be temporary, so nothing is cached.
            Err(problem) => {
                let reason = format!("cannot run the reference solution: {problem}");
                return Ok(without(&reason));
            }
        };
        let usable = if tests.is_empty() {
            without("no changed test gave the expected result on the reference solution")
        } else {
            let reason = String::new();
            Usable { tests, reason }
        };
        cached.put(&usable).map_err(|error| error.to_string())?;
        Ok(usable)
    }

    /// The tests that behave as expected on the reference solution. One file that does not build
    /// can affect all others, so each half of the files is then tried separately.
    async fn right_in_parts(
        &self,
        files: &[OwnFile],
        tests: &BTreeSet<TestId>,
        reference: &ControlTree,
    ) -> Result<BTreeSet<TestId>, String> {
        let (one, other) = files.split_at(files.len() / 2);
        let mut right = BTreeSet::new();
        for (part, files) in [files, one, other].into_iter().enumerate() {
            let plan = Plan::new(files, tests, Placing::Copies(1));
            let is_new = part == 0 || plan.sentinels.len() < tests.len();
            if is_new {
                let name = format!("-sentinels-reference-{part}");
                right.extend(self.right(&plan, (&name, &reference.tree)).await?);
            }
            if part == 0 && !right.is_empty() {
                break;
            }
        }
        Ok(right)
    }
}
