//! Why a report gives no result.

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
    /// The text that a runner prints at its end.
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

/// Why a report gives no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The content is of no known kind.
    #[error("no known format: it starts with {start:?}")]
    Unknown {
        /// Its first characters.
        start: String,
    },
    /// The kind is known, but the content is damaged, cut short or contradicts itself.
    #[error("the {format:?} report cannot be trusted: {reason}")]
    Broken {
        /// Which kind.
        format: Format,
        /// The problem.
        reason: String,
    },
    /// The report is sound and holds nothing: no test ran, or no line was measured.
    #[error("the {format:?} report is empty")]
    Empty {
        /// Which kind.
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
    /// The error of a report of this kind that cannot be trusted.
    pub(super) fn broken(self, reason: impl Into<String>) -> ReportError {
        ReportError::Broken {
            format: self,
            reason: reason.into(),
        }
    }
}
