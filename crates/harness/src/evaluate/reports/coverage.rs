//! Code coverage reports: lcov, Cobertura, Istanbul.

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
    /// Lines; never zero in total.
    pub lines: Share,
    /// Branches; `None` if the tool does not measure them.
    pub branches: Option<Share>,
}

/// A covered fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The covered items.
    pub covered: u64,
    /// All items.
    pub total: u64,
}

impl Share {
    /// The ratio from 0 to 1; `None` if the total is zero.
    pub fn ratio(self) -> Option<f64> {
        (self.total > 0).then(|| self.covered as f64 / self.total as f64)
    }

    fn add(&mut self, covered: u64, total: u64) {
        self.covered = self.covered.saturating_add(covered);
        self.total = self.total.saturating_add(total);
    }
}

impl Coverage {
    /// Reads a coverage report. Its format is detected from its content.
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
            return Err(format.broken("more items are covered than exist"));
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

/// Reads lcov. A file can occur several times, once for each test; a line is covered if any of them
/// covers it.
fn lcov(text: &str) -> Result<Shares, ReportError> {
    let broken = |line: &str| Format::Lcov.broken(format!("unknown line {line:?}"));
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
            // Line number, count, and optionally a checksum.
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
        return Err(Format::Lcov.broken("the file ends within a record"));
    }
    let share = |all: &BTreeMap<_, bool>| Share {
        covered: all.values().filter(|reached| **reached).count() as u64,
        total: all.len() as u64,
    };
    Ok((share(&lines), Some(share(&branches))))
}

/// Reads Cobertura. The totals are in the root; if they are missing, lines are counted.
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

/// Counts the lines of classes. Lines of methods are duplicates.
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

/// Parses `50% (1/2)`.
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
    fn repeated_files_in_lcov_are_merged() {
        let text = "SF:a\nDA:1,0\nDA:2,3\nend_of_record\nSF:a\nDA:1,1\nDA:3,0\nBRDA:1,0,0,-\nend_of_record\n";
        let read = Coverage::read(text.as_bytes()).unwrap();
        assert_eq!(
            (read.lines, read.branches),
            (share(2, 3), Some(share(0, 1)))
        );
    }

    #[test]
    fn cobertura_without_totals_is_counted() {
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
    fn empty_truncated_and_impossible_reports_are_errors() {
        let read = |text: &str| Coverage::read(text.as_bytes()).unwrap_err();
        let format = Format::Istanbul;
        let none = r#"{"total":{"lines":{"total":0,"covered":0}}}"#;
        assert_eq!(read(none), ReportError::Empty { format });
        let cut = read("SF:a\nDA:1,1\n");
        assert_eq!(cut, Format::Lcov.broken("the file ends within a record"));
        let much = r#"{"total":{"lines":{"total":1,"covered":2}}}"#;
        assert_eq!(
            read(much),
            format.broken("more items are covered than exist")
        );
        assert!(matches!(read("100% covered"), ReportError::Unknown { .. }));
    }
}
