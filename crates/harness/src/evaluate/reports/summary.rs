//! Summaries that runners print, for commands without a machine-readable report. Any program can
//! print such lines, so verdicts name this source. The last summary is used.

use serde::Serialize;

use super::{
    error::{Format, ReportError},
    tests_report::Counts,
};

/// The counts in a runner's summary, without test names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TextSummary {
    /// The runner that printed it.
    pub runner: Runner,
    /// The counts; never all zero.
    pub counts: Counts,
}

/// Runners whose summaries are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// pytest.
    Pytest,
    /// Python's unittest.
    Unittest,
    /// `cargo test`: the sum over all test binaries.
    CargoTest,
    /// `cargo nextest run`.
    Nextest,
    /// `go test -v`: the sum over all packages.
    GoTest,
    /// jest.
    Jest,
    /// vitest.
    Vitest,
    /// mocha.
    Mocha,
    /// `node --test`.
    NodeTest,
}

/// A summary and its last line.
type Found = (usize, Counts);
/// Finds a runner's last summary.
type Finder = fn(&[&str]) -> Option<Found>;

const FINDERS: [(Runner, Finder); 9] = [
    (Runner::Pytest, pytest),
    (Runner::Unittest, unittest),
    (Runner::CargoTest, cargo_test),
    (Runner::Nextest, nextest),
    (Runner::GoTest, go_test),
    (Runner::Jest, jest),
    (Runner::Vitest, vitest),
    (Runner::Mocha, mocha),
    (Runner::NodeTest, node_test),
];

impl TextSummary {
    /// Finds the last summary in the output.
    pub fn read(output: &[u8]) -> Result<TextSummary, ReportError> {
        let text = String::from_utf8_lossy(output);
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let found = FINDERS
            .iter()
            .filter_map(|(runner, find)| Some((*runner, find(&lines)?)))
            .max_by_key(|(_, (line, _))| *line);
        let Some((runner, (_, counts))) = found else {
            return Err(ReportError::unknown(&text));
        };
        if counts.total() == 0 {
            let format = Format::Text;
            return Err(ReportError::Empty { format });
        }
        Ok(TextSummary { runner, counts })
    }
}

/// The last line with counts.
fn last(lines: &[&str], read: impl Fn(&str) -> Option<Counts>) -> Option<Found> {
    let mut numbered = lines.iter().enumerate().rev();
    numbered.find_map(|(number, line)| Some((number, read(line)?)))
}

/// Counts of parts such as `3 passed`; `None` if a part is malformed.
fn parts<'a>(parts: impl Iterator<Item = &'a str>) -> Option<Counts> {
    let mut counts = Counts::default();
    for part in parts {
        let (number, word) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        add(&mut counts, word.trim(), number)?;
    }
    Some(counts)
}

/// Adds to the counter of a word; `None` if the word is unknown.
fn add(counts: &mut Counts, word: &str, number: u64) -> Option<()> {
    let count = match word {
        "passed" => &mut counts.passed,
        "failed" | "xpassed" => &mut counts.failed,
        "skipped" | "xfailed" | "ignored" | "todo" | "pending" => &mut counts.skipped,
        "error" | "errors" | "timed out" | "exec failed" => &mut counts.errors,
        "warning" | "warnings" | "deselected" | "rerun" | "measured" | "filtered out" | "total"
        | "slow" | "flaky" | "leaky" => return Some(()),
        _ => return None,
    };
    *count = count.saturating_add(number);
    Some(())
}

/// Finds `==== 1 failed, 2 passed in 0.07s ====`, without the frame in quiet mode.
fn pytest(lines: &[&str]) -> Option<Found> {
    last(lines, |line| {
        let (what, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
        let is_time = time.split_whitespace().next()?.strip_suffix('s')?;
        is_time.parse::<f64>().ok()?;
        if what == "no tests ran" {
            return Some(Counts::default());
        }
        parts(what.split(','))
    })
}

/// Finds `Ran 5 tests in 0.001s`, an empty line, `FAILED (failures=1, skipped=1)`.
fn unittest(lines: &[&str]) -> Option<Found> {
    let is_end = |line: &str| {
        let word = line.split(" (").next().unwrap_or("");
        matches!(word, "OK" | "FAILED" | "NO TESTS RAN")
    };
    let mut numbered = lines.iter().enumerate().rev();
    numbered.find_map(|(number, line)| {
        let ran: u64 = line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok()?;
        line.contains(" in ").then_some(())?;
        let after = lines[number + 1..].iter().enumerate();
        let (below, end) = after.take(3).find(|(_, line)| is_end(line))?;
        Some((number + 1 + below, unittest_counts(ran, end)?))
    })
}

fn unittest_counts(ran: u64, end: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let details = end
        .split_once('(')
        .map_or("", |(_, it)| it)
        .trim_end_matches(')');
    for detail in details.split(", ").filter(|it| !it.is_empty()) {
        let (word, number) = detail.split_once('=')?;
        let number: u64 = number.parse().ok()?;
        match word {
            "failures" | "unexpected successes" => counts.failed += number.min(ran),
            "errors" => counts.errors += number.min(ran),
            "skipped" | "expected failures" => counts.skipped += number.min(ran),
            _ => return None,
        }
    }
    // Errors in the set-up of a class are not counted as tests.
    counts.passed = ran.saturating_sub(counts.total());
    Some(counts)
}

/// Finds `test result: FAILED. 2 passed; 1 failed; 1 ignored; …` of each binary. The counts of all
/// binaries are added.
fn cargo_test(lines: &[&str]) -> Option<Found> {
    let results = lines.iter().enumerate().filter_map(|(number, line)| {
        let (_, counted) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let known = counted
            .split(';')
            .take_while(|it| !it.contains("finished in"));
        Some((number, parts(known)?))
    });
    results.reduce(|(_, sum), (number, it)| (number, plus(sum, it)))
}

fn plus(one: Counts, other: Counts) -> Counts {
    Counts {
        passed: one.passed.saturating_add(other.passed),
        skipped: one.skipped.saturating_add(other.skipped),
        failed: one.failed.saturating_add(other.failed),
        errors: one.errors.saturating_add(other.errors),
    }
}

/// `Summary [   0.093s] 3 tests run: 2 passed (1 flaky), 1 failed, 1 skipped`.
fn nextest(lines: &[&str]) -> Option<Found> {
    last(lines, |line| {
        let rest = line.trim_start().strip_prefix("Summary [")?;
        let (_, counted) = rest.split_once(" run: ")?;
        parts(without_brackets(counted).split(','))
    })
}

fn without_brackets(text: &str) -> String {
    let outside = text
        .split('(')
        .map(|it| it.rsplit(')').next().unwrap_or(it));
    outside.collect::<Vec<_>>().join("").replace(" ,", ",")
}

/// Finds `--- PASS: TestAdds (0.01s)` of each test. Only `-v` lists passed tests, so `=== RUN` is
/// required.
fn go_test(lines: &[&str]) -> Option<Found> {
    lines.iter().position(|line| line.starts_with("=== RUN "))?;
    let mut counts = Counts::default();
    let mut end = None;
    for (number, line) in lines.iter().enumerate() {
        let word = match line.strip_prefix("--- ") {
            Some(rest) => rest.split(':').next().unwrap_or(""),
            None if line.starts_with("FAIL\t") && line.ends_with(" failed]") => "ERROR",
            None => continue,
        };
        match word {
            "PASS" => counts.passed += 1,
            "FAIL" => counts.failed += 1,
            "SKIP" => counts.skipped += 1,
            "ERROR" => counts.errors += 1,
            _ => continue,
        }
        end = Some(number);
    }
    Some((end?, counts))
}

/// Finds `Tests:    2 failed, 1 skipped, 1 todo, 2 passed, 6 total`. Files that could not be loaded
/// are counted by their own line.
fn jest(lines: &[&str]) -> Option<Found> {
    let read = |line: &str| parts(line.strip_prefix("Tests:")?.split(','));
    let (number, mut counts) = last(lines, read)?;
    let broken = lines
        .iter()
        .filter(|line| line.ends_with("● Test suite failed to run"));
    counts.errors += broken.count() as u64;
    Some((number, counts))
}

/// Finds `Tests  2 failed | 2 passed | 1 skipped | 1 todo (6)`, or `no tests`.
fn vitest(lines: &[&str]) -> Option<Found> {
    let read = |line: &str| {
        let rest = line.trim_start().strip_prefix("Tests  ")?.trim();
        if rest == "no tests" {
            return Some(Counts::default());
        }
        parts(without_brackets(rest).split('|'))
    };
    let (number, mut counts) = last(lines, read)?;
    // A banner shows the number of files that could not be loaded.
    let banner = |line: &str| {
        let word = line
            .trim_matches(['⎯', ' '])
            .strip_prefix("Failed Suites ")?;
        word.parse::<u64>().ok()
    };
    let broken = lines[..number].iter().rev().find_map(|line| banner(line));
    counts.errors = counts.errors.saturating_add(broken.unwrap_or(0));
    Some((number, counts))
}

/// Finds `  2 passing (5ms)`, `  1 pending`, `  1 failing` on separate lines.
fn mocha(lines: &[&str]) -> Option<Found> {
    let number = |line: &str, word: &str| -> Option<u64> {
        let (number, rest) = line.trim_start().split_once(' ')?;
        let rest = rest.strip_prefix(word)?;
        (rest.is_empty() || rest.starts_with(" (")).then(|| number.parse().ok())?
    };
    let is_first = |line: &str| number(line, "passing").filter(|_| line.ends_with(')'));
    let (first, passed) = lines
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, line)| Some((at, is_first(line)?)))?;
    let below = lines[first + 1..].iter().take(2);
    let sum = |word| {
        below
            .clone()
            .find_map(|line| number(line, word))
            .unwrap_or(0)
    };
    let counts = Counts {
        passed,
        skipped: sum("pending"),
        failed: sum("failing"),
        errors: 0,
    };
    Some((first, counts))
}

/// Finds `ℹ tests 6`, `ℹ pass 2`, `ℹ fail 2` and so on, on separate lines; with `#` in TAP.
fn node_test(lines: &[&str]) -> Option<Found> {
    let value = |line: &str, word: &str| -> Option<u64> {
        let rest = line
            .strip_prefix("ℹ ")
            .or_else(|| line.strip_prefix("# "))?;
        rest.strip_prefix(word)?.strip_prefix(' ')?.parse().ok()
    };
    let first = lines
        .iter()
        .rposition(|line| value(line, "tests").is_some())?;
    let block = lines[first..].iter().take(9);
    let of = |word| block.clone().find_map(|line| value(line, word));
    let counts = Counts {
        passed: of("pass")?,
        failed: of("fail")?,
        errors: of("cancelled")?,
        skipped: of("skipped")?.saturating_add(of("todo")?),
    };
    Some((first, counts))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[track_caller]
    fn check(text: &str, runner: Runner, expected: [u64; 4]) {
        let [passed, skipped, failed, errors] = expected;
        let counts = Counts {
            passed,
            skipped,
            failed,
            errors,
        };
        let expected = TextSummary { runner, counts };
        assert_eq!(TextSummary::read(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn summaries_of_all_runners_are_found() {
        check(samples::PYTEST_TEXT, Runner::Pytest, [2, 2, 1, 1]);
        check(samples::PYTEST_QUIET, Runner::Pytest, [2, 2, 1, 1]);
        check(samples::UNITTEST, Runner::Unittest, [1, 2, 1, 1]);
        check(samples::CARGO_TEST, Runner::CargoTest, [3, 1, 1, 0]);
        check(samples::NEXTEST_TEXT, Runner::Nextest, [2, 1, 1, 0]);
        check(samples::GO_VERBOSE, Runner::GoTest, [1, 1, 1, 1]);
        check(samples::JEST_TEXT, Runner::Jest, [2, 2, 2, 1]);
        check(samples::VITEST_TEXT, Runner::Vitest, [2, 2, 2, 1]);
        check(samples::MOCHA_TEXT, Runner::Mocha, [2, 1, 1, 0]);
        check(samples::NODE_SPEC, Runner::NodeTest, [2, 2, 2, 0]);
    }

    #[test]
    fn last_summary_is_used() {
        let text = format!("==== 99 passed in 0.01s ====\n{}", samples::PYTEST_TEXT);
        check(&text, Runner::Pytest, [2, 2, 1, 1]);
        let text = format!("==== 99 passed in 0.01s ====\n{}", samples::VITEST_TEXT);
        check(&text, Runner::Vitest, [2, 2, 2, 1]);
    }

    #[test]
    fn skipped_is_not_passed() {
        let text = " Test Files  1 passed (1)\n      Tests  15 passed | 60 skipped (75)\n";
        check(text, Runner::Vitest, [15, 60, 0, 0]);
    }

    #[test]
    fn colours_are_ignored() {
        let text = "\u{1b}[32m\u{1b}[1m3 passed\u{1b}[0m\u{1b}[32m in 0.02s\u{1b}[0m";
        check(text, Runner::Pytest, [3, 0, 0, 0]);
    }

    #[test]
    fn flaky_tests_of_nextest_count_as_passed() {
        let text = "     Summary [   0.093s] 3/4 tests run: 2 passed (1 flaky, 1 slow), 1 timed out, 1 skipped";
        check(text, Runner::Nextest, [2, 1, 0, 1]);
    }

    #[test]
    fn summary_without_tests_is_an_error() {
        let format = Format::Text;
        for text in [
            "======== no tests ran in 0.01s ========",
            "Ran 0 tests in 0.000s\n\nNO TESTS RAN",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "  0 passing (1ms)",
            "      Tests  no tests",
        ] {
            let read = TextSummary::read(text.as_bytes());
            assert_eq!(read, Err(ReportError::Empty { format }), "{text}");
        }
    }

    #[test]
    fn text_similar_to_a_summary_is_ignored() {
        for text in [
            "all tests passed",
            "passed in 3s",
            "3 tests passing",
            "Tests: fine",
            "ok  \texample.com/sample\t0.1s",
            "--- FAIL: TestX (0.00s)",
            "",
        ] {
            let read = TextSummary::read(text.as_bytes());
            assert!(
                matches!(read, Err(ReportError::Unknown { .. })),
                "{text}: {read:?}"
            );
        }
    }
}
