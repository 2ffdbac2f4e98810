//! Errors of reports.

use serde::Serialize;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `JUnit` XML, as written by pytest, vitest, jest-junit, nextest, Gradle, Surefire and others.
    Junit,
    /// The Test Anything Protocol, 13 and 14.
    Tap,
    /// The JSON lines of Rust's test harness and of cargo-nextest.
    Libtest,
    /// The JSON lines of `go test -json`.
    GoTest,
    /// The JSON of jest and vitest.
    Jest,
    /// Common Test Report Format.
    Ctrf,
    /// The summary that a runner prints.
    Text,
    /// Static Analysis Results Interchange Format.
    Sarif,
    /// The JSON of `ESLint`.
    Eslint,
    /// The JSON lines of cargo: rustc's and clippy's messages.
    Cargo,
    /// lcov's tracefile.
    Lcov,
    /// Cobertura's XML.
    Cobertura,
    /// Istanbul's `coverage-summary.json`.
    Istanbul,
}

/// Why a report has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The format is unknown.
    #[error("unknown report format: it starts with {start:?}")]
    Unknown {
        /// The first characters of the report.
        start: String,
    },
    /// The format is known, but the content is damaged, truncated or inconsistent.
    #[error("invalid {format:?} report: {reason}")]
    Broken {
        /// The format.
        format: Format,
        /// The problem.
        reason: String,
    },
    /// The report is valid but empty: no test ran, or the report contains no lines.
    #[error("the {format:?} report is empty")]
    Empty {
        /// The format.
        format: Format,
    },
}

impl ReportError {
    pub(super) fn unknown(content: &str) -> ReportError {
        ReportError::Unknown {
            start: content.trim_start().chars().take(60).collect(),
        }
    }
}

impl Format {
    /// The error of an invalid report of this format.
    pub(super) fn broken(self, reason: impl Into<String>) -> ReportError {
        ReportError::Broken {
            format: self,
            reason: reason.into(),
        }
    }
}
