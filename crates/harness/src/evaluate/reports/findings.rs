//! Findings of linters, compilers and type checkers, and the comparison with those of the base.

use std::collections::BTreeMap;

use proctor_record::platform;
use serde::Serialize;

use super::{
    detect,
    error::{Format, ReportError},
    linters,
};

/// The findings of a linter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The format.
    pub source: Format,
    /// The findings, in the order of the report.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The rule; `None` for errors such as invalid syntax.
    pub rule: Option<String>,
    /// The file, as the linter writes it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The severity.
    pub level: Severity,
    /// The problem.
    pub message: String,
}

/// The severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information only.
    Note,
    /// Should be fixed.
    Warning,
    /// Must be fixed.
    Error,
}

impl Findings {
    /// Reads a linter's report. Its format is detected from its content.
    pub fn read(content: &[u8]) -> Result<Findings, ReportError> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim_start_matches('\u{feff}');
        let findings = match detect::findings(text) {
            Some(Format::Sarif) => (Format::Sarif, linters::sarif(text)?),
            Some(Format::Eslint) => (Format::Eslint, linters::eslint(text)?),
            Some(Format::Cargo) => (Format::Cargo, linters::cargo(text)?),
            _ => return Err(ReportError::unknown(text)),
        };
        let (source, findings) = findings;
        Ok(Findings { source, findings })
    }

    /// The same with files relative to a folder, so that two checkouts can be compared.
    #[must_use]
    pub fn relative_to(mut self, folder: &str) -> Findings {
        let folder = platform::slashed(folder);
        let folder = folder.trim_end_matches('/');
        for finding in &mut self.findings {
            let Some(file) = &mut finding.file else {
                continue;
            };
            let path = file.strip_prefix("file://").unwrap_or(file);
            let path = platform::slashed(platform::path_of_file_url(path)).into_owned();
            let inner = path
                .strip_prefix(folder)
                .and_then(|it| it.strip_prefix('/'));
            inner.unwrap_or(&path).clone_into(file);
        }
        self
    }

    /// Findings that the base does not have. Line numbers are ignored, because code moves. If the
    /// base has a finding twice and this has it three times, one is new.
    pub fn new_since(&self, base: &Findings) -> Vec<&Finding> {
        let mut known: BTreeMap<Key, usize> = BTreeMap::new();
        for finding in &base.findings {
            *known.entry(finding.key()).or_default() += 1;
        }
        let mut new = Vec::new();
        for finding in &self.findings {
            match known.get_mut(&finding.key()) {
                Some(left) if *left > 0 => *left -= 1,
                _ => new.push(finding),
            }
        }
        new
    }

    /// The number of findings of at least this severity.
    pub fn at_least(&self, level: Severity) -> usize {
        let bad = self.findings.iter().filter(|it| it.level >= level);
        bad.count()
    }
}

type Key<'a> = (Option<&'a str>, Option<&'a str>, &'a str);

impl Finding {
    /// The identity of a finding across versions of the code.
    fn key(&self) -> Key<'_> {
        (self.rule.as_deref(), self.file.as_deref(), &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn finding(rule: &str, line: u64) -> Finding {
        Finding {
            rule: Some(rule.to_owned()),
            file: Some("/project/a.js".to_owned()),
            line: Some(line),
            level: Severity::Warning,
            message: "is wrong".to_owned(),
        }
    }

    fn findings(findings: &[Finding]) -> Findings {
        Findings {
            source: Format::Eslint,
            findings: findings.to_vec(),
        }
    }

    #[test]
    fn findings_of_the_base_are_not_new() {
        let base = findings(&[finding("x", 1), finding("x", 2)]);
        let now = findings(&[
            finding("x", 11),
            finding("x", 12),
            finding("x", 13),
            finding("y", 1),
        ]);
        let new: Vec<Option<u64>> = now.new_since(&base).iter().map(|it| it.line).collect();
        assert_eq!(new, [Some(13), Some(1)]);
        assert!(base.new_since(&now).is_empty());
    }

    #[test]
    fn checkouts_in_different_folders_can_be_compared() {
        let base = Findings::read(samples::ESLINT.as_bytes()).unwrap();
        let moved = samples::ESLINT.replace("/project/js", "/elsewhere");
        let moved = Findings::read(moved.as_bytes()).unwrap();
        assert_eq!(moved.new_since(&base).len(), moved.findings.len());
        let (base, moved) = (
            base.relative_to("/project/js"),
            moved.relative_to("/elsewhere/"),
        );
        assert!(moved.new_since(&base).is_empty());
    }

    #[test]
    fn invalid_report_is_an_error() {
        for text in ["", "no problems found", "{}", "<xml/>", "3"] {
            let read = Findings::read(text.as_bytes());
            assert!(matches!(read, Err(ReportError::Unknown { .. })), "{text}");
        }
    }
}
