//! What test results are worth. Skipped is not passed, missing is not passed, and a report that
//! says all is well while its command says it is not is worth nothing.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Results, Settings, roll::Roll};
use crate::evaluate::reports::{Counts, Status, TestReport};

/// The graded results of the tests, over one or more runs of them.
pub(super) struct Grade {
    tests: Vec<Judged>,
    source: String,
    counts: Counts,
    /// Names that occur more than once in the report.
    duplicates: usize,
    /// The report says all is well, the command that it is not.
    contradiction: Option<i32>,
    /// How often the tests were run again.
    reruns: u32,
    /// More tests than these ran in the untouched task, and who is missing has no name.
    short_of: Option<u64>,
}

/// One test that counts.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    name: String,
    /// Null when there is no test of this name.
    status: Option<Status>,
    weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// How many more times it was run before it came to this.
    reruns: u32,
}

impl Judged {
    fn is_passed(&self) -> bool {
        self.status == Some(Status::Passed)
    }
}

/// The result in numbers.
pub(super) struct Graded {
    pub(super) score: f64,
    pub(super) passed: usize,
    pub(super) total: usize,
}

impl Grade {
    pub(super) fn of(settings: &Settings, results: &Results, code: Option<i32>) -> Grade {
        let failing = code.filter(|code| *code != 0);
        match results {
            Results::Report(report) => {
                let counts = report.counts();
                let all_well = counts.failed == 0 && counts.errors == 0;
                Grade {
                    tests: judged(settings, report),
                    source: word(report.source),
                    counts,
                    duplicates: report.duplicates().len(),
                    contradiction: failing.filter(|_| all_well),
                    reruns: 0,
                    short_of: None,
                }
            }
            Results::Text(summary) => {
                let counts = summary.counts;
                let all_well = counts.failed == 0 && counts.errors == 0;
                Grade {
                    tests: Vec::new(),
                    source: "text".to_owned(),
                    counts,
                    duplicates: 0,
                    contradiction: failing.filter(|_| all_well),
                    reruns: 0,
                    short_of: None,
                }
            }
        }
    }

    /// Who was there in the untouched task and is not here did not pass.
    pub(super) fn call(&mut self, roll: &Roll, settings: &Settings) {
        if self.tests.is_empty() || roll.names.is_empty() {
            let is_short = self.counts.total() < roll.total;
            self.short_of = is_short.then_some(roll.total);
            return;
        }
        let here: BTreeSet<String> = self.tests.iter().map(|test| test.name.clone()).collect();
        let missing: BTreeSet<&String> = roll
            .names
            .iter()
            .filter(|name| !here.contains(*name) && !settings.may_skip.is_match(name.as_str()))
            .collect();
        let weight = |name: &str| weight_of(settings, name);
        self.tests.extend(missing.into_iter().map(|name| Judged {
            name: name.clone(),
            status: None,
            weight: weight(name),
            message: None,
            duration_ms: None,
            reruns: 0,
        }));
        // Whoever is missing was replaced by somebody whom nobody knows: that one says nothing.
        let known: BTreeSet<&String> = roll.names.iter().collect();
        let is_known = |name: &String| known.contains(name);
        if self.tests.iter().any(|test| test.status.is_none()) {
            for test in self.tests.iter_mut().filter(|test| !is_known(&test.name)) {
                test.weight = 0.0;
            }
        }
    }

    /// Whether nothing is left to win.
    pub(super) fn is_full(&self) -> bool {
        self.graded().score >= 1.0
    }

    /// Take in another run of the same tests: what passes now passed after all.
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
            // Names are not known, and a summary is easily printed: all or nothing.
            let counts = self.counts;
            let is_sound = self.contradiction.is_none() && self.short_of.is_none();
            let is_good = is_sound && counts.passed == counts.total();
            return Graded {
                score: if is_good { 1.0 } else { 0.0 },
                passed: usize::try_from(counts.passed).unwrap_or(usize::MAX),
                total: usize::try_from(counts.total()).unwrap_or(usize::MAX),
            };
        }
        let passed = self.tests.iter().filter(|test| test.is_passed());
        let total: f64 = self.tests.iter().map(|test| test.weight).sum();
        // Of nothing the sum is zero with a minus sign.
        let won = passed.clone().map(|test| test.weight).sum::<f64>() + 0.0;
        let score = match (self.contradiction, total > 0.0) {
            (None, true) if self.short_of.is_none() => won / total,
            _ => 0.0,
        };
        Graded {
            score,
            passed: passed.count(),
            total: self.tests.len(),
        }
    }

    /// What a reader should know besides the numbers.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let named = |wanted: &dyn Fn(&Judged) -> bool| {
            let names = self.tests.iter().filter(|test| wanted(test));
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
            "passed only when run again",
        );
        if let Some(code) = self.contradiction {
            let message = format!("the report has no failure, but the exit code is {code}");
            remarks.push(message);
        }
        if let Some(before) = self.short_of {
            remarks.push(format!("the untouched task has {before} tests"));
        }
        if self.source == "text" {
            remarks.push("read from a summary, not from a report".to_owned());
        }
        remarks
    }

    pub(super) fn metrics(&self) -> Map<String, Value> {
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
            "counted": self.tests.len(),
            "reruns": reruns,
            "flaky": flaky,
            "duplicate_names": self.duplicates,
        });
        match metrics {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The results as they are kept.
    pub(super) fn document(&self) -> Value {
        json!({
            "source": self.source,
            "counts": self.counts,
            "reruns": self.reruns,
            "tests": self.tests,
        })
    }
}

fn weight_of(settings: &Settings, name: &str) -> f64 {
    let mut patterns = settings.weights.iter();
    let of_pattern = patterns.find(|(glob, _)| glob.is_match(name));
    of_pattern.map_or(1.0, |(_, weight)| *weight)
}

/// The tests that count.
fn judged(settings: &Settings, report: &TestReport) -> Vec<Judged> {
    let weight = |name: &str| weight_of(settings, name);
    if !settings.wanted.is_empty() {
        let wanted = settings.wanted.iter();
        let judged = wanted.map(|name| Judged {
            name: name.clone(),
            status: report.status_of(name),
            weight: weight(name),
            message: None,
            duration_ms: None,
            reruns: 0,
        });
        return judged.collect();
    }
    let may_be_skipped =
        |name: &str, status: Status| status == Status::Skipped && settings.may_skip.is_match(name);
    let tests = report.tests.iter().map(|test| (test.full_name(), test));
    tests
        .filter(|(name, test)| !may_be_skipped(name, test.status))
        .map(|(name, test)| Judged {
            weight: weight(&name),
            name,
            status: Some(test.status),
            message: test.message.clone(),
            duration_ms: test
                .duration
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            reruns: test.reruns,
        })
        .collect()
}

/// The word of a format in files.
fn word(format: crate::evaluate::reports::Format) -> String {
    let word = serde_json::to_value(format).ok();
    word.and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}
