//! Compiler output of a failed build: a runner that has to build first then reports no test at all.

use super::{
    error::Format,
    go_test,
    tests_report::{Status, TestCase, TestReport},
};

impl TestReport {
    /// The crates or packages that failed to build, from the output of `cargo` or `go`; `None` for
    /// other output.
    pub fn of_failed_build(output: &[u8]) -> Option<TestReport> {
        let text = String::from_utf8_lossy(output);
        let text = anstream::adapter::strip_str(&text).to_string();
        let of_cargo: Vec<&str> = text.lines().filter_map(crate_of).collect();
        let mut of_go: Vec<&str> = text.lines().filter_map(go_test::unbuilt).collect();
        if of_go.is_empty() {
            of_go.extend(text.lines().filter_map(file_of));
        }
        let (source, mut names) = match (of_cargo.is_empty(), of_go.is_empty()) {
            (false, _) => (Format::Libtest, of_cargo),
            (true, false) => (Format::GoTest, of_go),
            (true, true) => return None,
        };
        names.sort_unstable();
        names.dedup();
        let case = |name: &str| TestCase {
            message: Some("the build failed".to_owned()),
            ..TestCase::load(name, Status::Error)
        };
        Some(TestReport {
            source,
            tests: names.into_iter().map(case).collect(),
        })
    }
}

/// ``error: could not compile `p` (lib) due to …``.
fn crate_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("error: could not compile `")?;
    rest.split('`').next()
}

/// A syntax error in a Go file before its package is known: `a.go:1:1: expected 'package', …`.
fn file_of(line: &str) -> Option<&str> {
    let (file, rest) = line.split_once(".go:")?;
    let (row, rest) = rest.split_once(':')?;
    let (column, _) = rest.split_once(": ")?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    (is_number(row) && is_number(column)).then(|| &line[..file.len() + ".go".len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_build_target_is_found() {
        let check = |text: &str, expected: Option<(Format, &str)>| {
            let report = TestReport::of_failed_build(text.as_bytes());
            let found = report
                .as_ref()
                .map(|it| (it.source, it.tests[0].name.as_str()));
            assert_eq!(found, expected, "{text}");
            assert!(report.is_none_or(|it| it.tests.iter().all(|test| test.is_load)));
        };
        let cargo = "   Compiling p v0.1.0\nerror[E0425]: x\nerror: could not compile `p` (test \"both\") due to 1 previous error\n";
        check(cargo, Some((Format::Libtest, "p")));
        check("# p\nFAIL\tp [build failed]\n", Some((Format::GoTest, "p")));
        let syntax = "mul.go:1:1: expected 'package', found this\n";
        check(syntax, Some((Format::GoTest, "mul.go")));
        check("No module named pytest\n", None);
        check("FAIL\tp\t0.1s\n", None);
        check("error: no such command: `nextest`\n", None);
    }
}
