//! How much of the code tests reached: lcov, Cobertura, Istanbul.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    detect,
    error::{Format, ReportError},
    xml::{self, Element},
};

/// The coverage of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The format.
    pub source: Format,
    /// Lines. Never none.
    pub lines: Share,
    /// Branches; unknown where the tool does not look at them.
    pub branches: Option<Share>,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// How many were reached.
    pub covered: u64,
    /// Of how many.
    pub total: u64,
}

impl Share {
    /// Between 0 and 1; `None` of nothing.
    pub fn ratio(self) -> Option<f64> {
        (self.total > 0).then(|| self.covered as f64 / self.total as f64)
    }

    fn add(&mut self, covered: u64, total: u64) {
        self.covered = self.covered.saturating_add(covered);
        self.total = self.total.saturating_add(total);
    }
}

impl Coverage {
    /// Read a coverage report; its content shows its format.
    pub fn read(content: &[u8]) -> Result<Coverage, ReportError> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim_start_matches('\u{feff}');
        let format = detect::coverage(text).ok_or_else(|| ReportError::unknown(text))?;
        let (lines, branches) = match format {
            Format::Lcov => lcov(text)?,
            Format::Cobertura => cobertura(text)?,
            _ => istanbul(text)?,
        };
        let branches = branches.filter(|it| it.total > 0);
        let all = [Some(lines), branches];
        if all.iter().flatten().any(|it| it.covered > it.total) {
            return Err(format.broken("more was reached than there is"));
        }
        if lines.total == 0 {
            return Err(ReportError::Empty { format });
        }
        Ok(Coverage {
            source: format,
            lines,
            branches,
        })
    }
}

type Shares = (Share, Option<Share>);

/// lcov: a file may come several times, once for each test; a line is reached if it was in any.
fn lcov(text: &str) -> Result<Shares, ReportError> {
    let broken = |line: &str| Format::Lcov.broken(format!("what is {line:?}"));
    let mut lines: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    let mut branches: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    let mut file = None;
    for line in text.lines().map(str::trim) {
        let Some((key, value)) = line.split_once(':') else {
            if line == "end_of_record" {
                file = None;
            }
            continue;
        };
        let (all, id, hits) = match key {
            "SF" => {
                file = Some(value);
                continue;
            }
            // The line's number, how often, and for some a checksum.
            "DA" => {
                let (number, rest) = value.split_once(',').ok_or_else(|| broken(line))?;
                let hits = rest.split(',').next().unwrap_or(rest);
                (&mut lines, number, hits)
            }
            "BRDA" => {
                let (id, hits) = value.rsplit_once(',').ok_or_else(|| broken(line))?;
                (&mut branches, id, if hits == "-" { "0" } else { hits })
            }
            _ => continue,
        };
        let file = file.ok_or_else(|| broken(line))?;
        let hits: i64 = hits.parse().map_err(|_| broken(line))?;
        *all.entry((file, id)).or_default() |= hits > 0;
    }
    if file.is_some() {
        return Err(Format::Lcov.broken("it ends within a record"));
    }
    let share = |all: &BTreeMap<_, bool>| Share {
        covered: all.values().filter(|reached| **reached).count() as u64,
        total: all.len() as u64,
    };
    Ok((share(&lines), Some(share(&branches))))
}

/// Cobertura sums up in its root; some tools leave that out, and then the lines count.
fn cobertura(text: &str) -> Result<Shares, ReportError> {
    let root = xml::read(text).map_err(|reason| Format::Cobertura.broken(reason))?;
    let share = |covered: &str, valid: &str| {
        Some(Share {
            covered: root.number(covered)?,
            total: root.number(valid)?,
        })
    };
    let lines = share("lines-covered", "lines-valid");
    let branches = share("branches-covered", "branches-valid");
    if let Some(lines) = lines {
        return Ok((lines, branches));
    }
    let (mut lines, mut branches) = (Share::default(), Share::default());
    count_classes(&root, &mut lines, &mut branches);
    Ok((lines, Some(branches)))
}

/// The lines of classes; those of methods are the same ones again.
fn count_classes(element: &Element, lines: &mut Share, branches: &mut Share) {
    for child in &element.children {
        match child.name.as_str() {
            "methods" => {}
            "line" => {
                let is_reached = child.number("hits").unwrap_or(0) > 0;
                lines.add(u64::from(is_reached), 1);
                if let Some((covered, total)) = condition(child) {
                    branches.add(covered, total);
                }
            }
            _ => count_classes(child, lines, branches),
        }
    }
}

/// `50% (1/2)`.
fn condition(line: &Element) -> Option<(u64, u64)> {
    let coverage = line.attribute("condition-coverage")?;
    let (_, counts) = coverage.split_once('(')?;
    let (covered, total) = counts.trim_end_matches(')').split_once('/')?;
    Some((covered.parse().ok()?, total.parse().ok()?))
}

#[derive(Deserialize)]
struct Summary {
    total: Totals,
}

#[derive(Deserialize)]
struct Totals {
    lines: Share,
    branches: Option<Share>,
}

fn istanbul(text: &str) -> Result<Shares, ReportError> {
    let summary: Summary =
        serde_json::from_str(text).map_err(|error| Format::Istanbul.broken(error.to_string()))?;
    Ok((summary.total.lines, summary.total.branches))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn share(covered: u64, total: u64) -> Share {
        Share { covered, total }
    }

    #[test]
    fn one_project_has_the_same_coverage_in_every_format() {
        for (sample, source) in [
            (samples::LCOV, Format::Lcov),
            (samples::COBERTURA, Format::Cobertura),
            (samples::ISTANBUL, Format::Istanbul),
        ] {
            let expected = Coverage {
                source,
                lines: share(1, 1),
                branches: Some(share(1, 2)),
            };
            assert_eq!(Coverage::read(sample.as_bytes()), Ok(expected));
        }
    }

    #[test]
    fn a_file_that_comes_twice_in_lcov_is_one_file() {
        let text = "SF:a\nDA:1,0\nDA:2,3\nend_of_record\nSF:a\nDA:1,1\nDA:3,0\nBRDA:1,0,0,-\nend_of_record\n";
        let read = Coverage::read(text.as_bytes()).unwrap();
        assert_eq!(
            (read.lines, read.branches),
            (share(2, 3), Some(share(0, 1)))
        );
    }

    #[test]
    fn cobertura_without_sums_is_counted() {
        let text = "<coverage><classes><class>
            <methods><method><lines><line number='1' hits='9'/></lines></method></methods>
            <lines><line number='1' hits='1' condition-coverage='75% (3/4)'/><line number='2' hits='0'/></lines>
            </class></classes></coverage>";
        let read = Coverage::read(text.as_bytes()).unwrap();
        assert_eq!(
            (read.lines, read.branches),
            (share(1, 2), Some(share(3, 4)))
        );
    }

    #[test]
    fn an_empty_truncated_or_impossible_report_is_not_a_result() {
        let read = |text: &str| Coverage::read(text.as_bytes()).unwrap_err();
        let format = Format::Istanbul;
        let none = r#"{"total":{"lines":{"total":0,"covered":0}}}"#;
        assert_eq!(read(none), ReportError::Empty { format });
        let cut = read("SF:a\nDA:1,1\n");
        assert_eq!(cut, Format::Lcov.broken("it ends within a record"));
        let much = r#"{"total":{"lines":{"total":1,"covered":2}}}"#;
        assert_eq!(read(much), format.broken("more was reached than there is"));
        assert!(matches!(read("100% covered"), ReportError::Unknown { .. }));
    }
}
