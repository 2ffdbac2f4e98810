//! The Test Anything Protocol, versions 13 and 14, with subtests. A plan that is not kept is an
//! error: it is how a run that died, or inserted lines, are noticed.

use super::{
    error::{Format, ReportError},
    tests_report::{Status, TestCase, message, milliseconds},
};

/// Spaces that one level of subtests is indented by.
const INDENT: usize = 4;
/// Deeper levels are not tests.
const DEPTH: usize = 50;

/// Whether a text holds a test point and a plan, or says that it is TAP.
pub(super) fn is_tap(text: &str) -> bool {
    let mut lines = text.lines();
    let says = lines.clone().any(|line| line.starts_with("TAP version "));
    says || (lines.clone().any(|line| plan(line).is_some())
        && lines.any(|line| point(line).is_some() || line.starts_with("1..0")))
}

/// The tests of one level that are not closed by a test point of the level above yet.
#[derive(Default)]
struct Level {
    plan: Option<u64>,
    points: u64,
    tests: Vec<TestCase>,
}

pub(super) fn read(text: &str) -> Result<Vec<TestCase>, ReportError> {
    let mut levels = vec![Level::default()];
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let content = line.trim_start();
        let spaces = line.len() - content.len();
        if let Some(reason) = content.strip_prefix("Bail out!") {
            return Err(Format::Tap.broken(format!("bail out: {}", reason.trim())));
        }
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
                let block = lines
                    .by_ref()
                    .take_while(|line| line.trim() != "..." || indent(line) != spaces + 2);
                describe(&mut test, block);
            }
            open(&mut levels, depth);
            add(&mut levels, depth, test)?;
        }
    }
    finish(levels)
}

/// Make sure that there are levels down to this one.
fn open(levels: &mut Vec<Level>, depth: usize) {
    while levels.len() <= depth {
        levels.push(Level::default());
    }
}

/// Add a test point. If there are subtests below, it sums them up, and they count in its place.
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
        // Where a whole group does not count, nothing in it does.
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

/// The tests of a level whose plan was kept.
fn closed(level: Level) -> Result<Vec<TestCase>, ReportError> {
    match level.plan {
        Some(planned) if planned != level.points => Err(Format::Tap.broken(format!(
            "{planned} tests were planned, {} reported",
            level.points
        ))),
        _ => Ok(level.tests),
    }
}

fn finish(mut levels: Vec<Level>) -> Result<Vec<TestCase>, ReportError> {
    if levels.len() > 1 {
        return Err(Format::Tap.broken("it ends within a subtest"));
    }
    let level = levels.pop().unwrap_or_default();
    if level.plan.is_none() {
        return Err(Format::Tap.broken("there is no plan"));
    }
    closed(level)
}

/// `1..N`: how many tests there will be.
fn plan(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("1..")?;
    let number = rest.split('#').next()?.trim();
    number.parse().ok()
}

/// `ok 1 - name # SKIP why`.
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

/// The name and the directive behind it, `SKIP` or `TODO`.
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

/// Duration and error from the block below a test point.
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
        let expected = format!("the Tap report cannot be trusted: {reason}");
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
        check_broken("1..3\nok 1\nok 2\n", "3 tests were planned, 2 reported");
        check_broken("ok 1\n1..1\nok 2\n", "1 tests were planned, 2 reported");
        check_broken("TAP version 14\nok 1\n", "there is no plan");
        check_broken("1..1\nok 1\n1..1\n", "a second plan");
        check_broken(
            "1..1\n    1..2\n    ok 1\nok 1 - group\n",
            "2 tests were planned, 1 reported",
        );
        check_broken("1..1\nok 1\n    ok 1 - lost\n", "it ends within a subtest");
    }

    #[test]
    fn bailing_out_is_an_error() {
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
    fn a_group_that_fails_without_a_failed_test_counts_itself() {
        let tests = check(
            "1..1\n    ok 1 - inner\n    1..1\nnot ok 1 - group\n",
            1,
            0,
            1,
        );
        assert_eq!(tests[1].name, "group");
    }

    #[test]
    fn nothing_to_run_is_not_a_result() {
        let read = super::super::TestReport::read(b"TAP version 13\n1..0 # SKIP no tests\n");
        let format = Format::Tap;
        assert_eq!(read, Err(ReportError::Empty { format }));
    }

    #[test]
    fn an_escaped_hash_belongs_to_the_name() {
        let tests = check("1..2\nok 1 - a \\# skip\nok 2 - issue #5\n", 2, 0, 0);
        assert_eq!(
            (tests[0].name.as_str(), tests[1].name.as_str()),
            ("a # skip", "issue #5")
        );
    }
}
