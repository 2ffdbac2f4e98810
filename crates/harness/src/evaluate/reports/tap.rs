//! The Test Anything Protocol, versions 13 and 14, with subtests. A plan that does not match is an
//! error: it reveals crashed runs and inserted lines.

use std::collections::BTreeSet;

use proctor_record::text::counted;

use super::{
    error::{Format, ReportError},
    tests_report::{Status, TestCase, message, milliseconds},
};

/// The indentation of one level of subtests.
const INDENT: usize = 4;
/// The maximum depth.
const DEPTH: usize = 50;

/// Whether a text contains a test point and a plan, or a TAP version line.
pub(super) fn is_tap(text: &str) -> bool {
    let mut lines = text.lines();
    let says = lines.clone().any(|line| line.starts_with("TAP version "));
    says || (lines.clone().any(|line| plan(line).is_some())
        && lines.any(|line| point(line).is_some() || line.starts_with("1..0")))
}

/// The tests of one level that no test point of the level above has closed yet.
#[derive(Default)]
struct Level {
    plan: Option<u64>,
    points: u64,
    tests: Vec<TestCase>,
}

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let mut levels = vec![Level::default()];
    // Failed tests in lines that begin with something else: code under test can write the beginning of a line.
    let mut buried = BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let content = line.trim_start();
        let spaces = line.len() - content.len();
        if let Some(reason) = content.strip_prefix("Bail out!") {
            return Err(Format::Tap.broken(format!("bail out: {}", reason.trim())));
        }
        buried.extend(buried_failure(content));
        let depth = spaces / INDENT;
        if !spaces.is_multiple_of(INDENT) || depth > DEPTH {
            continue;
        }
        if let Some(planned) = plan(content) {
            open(&mut levels, depth);
            if levels[depth].plan.replace(planned).is_some() {
                return Err(Format::Tap.broken("a second plan"));
            }
        } else if let Some(mut test) = point(content) {
            // Lines after a test point, two spaces deeper, belong to it.
            let is_block = |next: &&str| next.trim() == "---" && indent(next) == spaces + 2;
            if lines.next_if(|next| is_block(next)).is_some() {
                let is_inside = |line: &&str| indent(line) >= spaces + 2 || line.trim().is_empty();
                let block = std::iter::from_fn(|| lines.next_if(is_inside));
                let is_last = |line: &str| line.trim() == "..." && indent(line) == spaces + 2;
                let block: Vec<&str> = block.take_while(|line| !is_last(line)).collect();
                buried.extend(block.iter().filter_map(|line| buried_failure(line)));
                describe(&mut test, block.into_iter());
            }
            open(&mut levels, depth);
            add(&mut levels, depth, test)?;
        }
    }
    let tests = finish(levels)?;
    let is_buried = |test: &&TestCase| {
        let name = test.name.rsplit(" > ").next().unwrap_or(&test.name);
        test.status == Status::Passed && !name.is_empty() && buried.contains(name)
    };
    match tests.iter().find(is_buried) {
        Some(found) => {
            let reason = format!("`{}` has passed and failed", found.name);
            Err(Format::Tap.broken(reason))
        }
        None => Ok(tests),
    }
}

/// The name of a failed test in a line that begins with something else.
fn buried_failure(line: &str) -> Option<String> {
    let at = line.find("not ok ").filter(|at| *at > 0)?;
    Some(point(&line[at..])?.name)
}

/// Creates the levels down to this one.
fn open(levels: &mut Vec<Level>, depth: usize) {
    while levels.len() <= depth {
        levels.push(Level::default());
    }
}

/// Adds a test point. If it has subtests, they are counted instead.
fn add(levels: &mut Vec<Level>, depth: usize, test: TestCase) -> Result<(), ReportError> {
    let mut inner: Vec<TestCase> = Vec::new();
    while levels.len() > depth + 1 {
        let level = levels.pop().unwrap_or_default();
        let below = std::mem::replace(&mut inner, closed(level)?);
        inner.extend(below);
    }
    let level = &mut levels[depth];
    level.points += 1;
    let explains = inner.iter().any(|it| it.status >= Status::Failed);
    let counts = inner.is_empty() || (test.status >= Status::Failed && !explains);
    level.tests.extend(inner.into_iter().map(|it| TestCase {
        name: format!("{} > {}", test.name, it.name),
        // Subtests of a skipped group are skipped.
        status: match test.status {
            Status::Skipped => Status::Skipped,
            _ => it.status,
        },
        ..it
    }));
    if counts {
        level.tests.push(test);
    }
    Ok(())
}

/// The tests of a level, if its plan matches.
fn closed(level: Level) -> Result<Vec<TestCase>, ReportError> {
    match level.plan {
        Some(planned) if planned != level.points => Err(Format::Tap.broken(format!(
            "{} planned, {} reported",
            counted(planned, "test"),
            level.points
        ))),
        _ => Ok(level.tests),
    }
}

fn finish(mut levels: Vec<Level>) -> Result<Vec<TestCase>, ReportError> {
    if levels.len() > 1 {
        return Err(Format::Tap.broken("the report ends within a subtest"));
    }
    let level = levels.pop().unwrap_or_default();
    if level.plan.is_none() {
        return Err(Format::Tap.broken("the plan is missing"));
    }
    closed(level)
}

/// Parses `1..N`, the number of tests.
fn plan(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("1..")?;
    let number = rest.split('#').next()?.trim();
    number.parse().ok()
}

/// Parses `ok 1 - name # SKIP why`.
fn point(line: &str) -> Option<TestCase> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (Status::Failed, rest),
        None => (Status::Passed, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_start();
    let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
    let (name, directive) = split_directive(rest);
    let name = name
        .trim()
        .trim_start_matches('-')
        .trim()
        .replace("\\#", "#");
    let status = if directive.is_some() {
        Status::Skipped
    } else {
        ok
    };
    Some(TestCase {
        message: directive.and_then(message),
        ..TestCase::new(name, status)
    })
}

/// Splits a name and its directive, `SKIP` or `TODO`.
fn split_directive(rest: &str) -> (&str, Option<&str>) {
    let is_directive = |text: &str| {
        let word = text.trim_start().get(..4);
        word.is_some_and(|it| it.eq_ignore_ascii_case("skip") || it.eq_ignore_ascii_case("todo"))
    };
    let places = rest.match_indices('#');
    for (place, _) in places {
        let directive = &rest[place + 1..];
        if is_directive(directive) && !rest[..place].ends_with('\\') {
            return (&rest[..place], Some(directive));
        }
    }
    (rest, None)
}

/// Reads duration and error from the block below a test point.
fn describe<'a>(test: &mut TestCase, block: impl Iterator<Item = &'a str>) {
    for line in block {
        let Some((key, value)) = line.trim().split_once(':') else {
            continue;
        };
        let value = value.trim().trim_matches(['\'', '"']);
        match key {
            "duration_ms" => test.duration = value.parse().ok().and_then(milliseconds),
            "location" => {
                // `file:line:column`.
                test.file = value.rsplitn(3, ':').nth(2).map(str::to_owned);
            }
            "error" | "message" if test.message.is_none() => {
                test.message = message(value).filter(|it| !it.starts_with('|'));
            }
            _ => {}
        }
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::super::{samples, tests_report::Counts};
    use super::*;

    fn check(text: &str, passed: u64, skipped: u64, failed: u64) -> Vec<TestCase> {
        let report = super::super::TestReport::read(text.as_bytes()).unwrap();
        assert_eq!(report.source, Format::Tap);
        let expected = Counts {
            passed,
            skipped,
            failed,
            errors: 0,
        };
        assert_eq!(report.counts(), expected, "{:#?}", report.tests);
        report.tests
    }

    #[track_caller]
    fn check_broken(text: &str, reason: &str) {
        let error = super::super::TestReport::read(text.as_bytes()).unwrap_err();
        let expected = format!("invalid Tap report: {reason}");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn node() {
        let tests = check(samples::NODE_TAP, 2, 2, 2);
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "adds",
                "fails",
                "not today",
                "some day",
                "a group > works",
                "a group > breaks"
            ]
        );
        assert_eq!(tests[1].message.as_deref(), Some("1 == 2"));
        assert!(tests[1].duration.is_some());
    }

    #[test]
    fn perl() {
        let tests = check(samples::PERL_TAP, 2, 2, 2);
        assert_eq!(tests[5].name, "a group > breaks");
    }

    #[test]
    fn a_plan_that_is_not_kept_is_an_error() {
        check_broken("1..3\nok 1\nok 2\n", "3 tests planned, 2 reported");
        check_broken("ok 1\n1..1\nok 2\n", "1 test planned, 2 reported");
        check_broken("TAP version 14\nok 1\n", "the plan is missing");
        check_broken("1..1\nok 1\n1..1\n", "a second plan");
        check_broken(
            "1..1\n    1..2\n    ok 1\nok 1 - group\n",
            "2 tests planned, 1 reported",
        );
        check_broken(
            "1..1\nok 1\n    ok 1 - lost\n",
            "the report ends within a subtest",
        );
    }

    #[test]
    fn bail_out_is_an_error() {
        check_broken(
            "1..2\nok 1\nBail out! no database\n",
            "bail out: no database",
        );
    }

    #[test]
    fn lines_within_a_description_are_not_tests() {
        check(
            "1..1\nnot ok 1 - a\n  ---\n  error: |\n    ok 2 - fake\n  ...\n",
            0,
            0,
            1,
        );
    }

    #[test]
    fn failed_group_without_a_failed_test_is_counted() {
        let tests = check(
            "1..1\n    ok 1 - inner\n    1..1\nnot ok 1 - group\n",
            1,
            0,
            1,
        );
        assert_eq!(tests[1].name, "group");
    }

    #[test]
    fn empty_plan_is_an_error() {
        let read = super::super::TestReport::read(b"TAP version 13\n1..0 # SKIP no tests\n");
        let format = Format::Tap;
        assert_eq!(read, Err(ReportError::Empty { format }));
    }

    #[test]
    fn lines_that_code_under_test_begins_hide_no_failure() {
        for begun in ["# ", "x ", "  ---\n  x: '", "printed "] {
            let text = format!("1..1\nok 1 - one\n{begun}not ok 1 - one\n");
            assert!(read(&text).is_err(), "{text}");
        }
        let open = "1..1\nok 1 - one\n  ---\nnot ok 1 - one\n1..1\n";
        assert!(read(open).is_err());
        let honest = "1..1\n# it is not ok to leave\n# not ok 7 - other\nok 1 - one\n";
        assert_eq!(read(honest).unwrap().len(), 1);
    }

    #[test]
    fn escaped_hash_is_part_of_the_name() {
        let tests = check("1..2\nok 1 - a \\# skip\nok 2 - issue #5\n", 2, 0, 0);
        assert_eq!(
            (tests[0].name.as_str(), tests[1].name.as_str()),
            ("a # skip", "issue #5")
        );
    }
}
