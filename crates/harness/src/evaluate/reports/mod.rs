//! Reports of test runners, linters and coverage tools, read into one type each. Nothing is
//! guessed: an unknown, truncated or empty report is an error.

mod build_failure;
mod coverage;
mod ctrf;
mod detect;
mod error;
mod findings;
mod go_test;
mod jest;
mod json_lines;
mod junit;
mod libtest;
mod linters;
mod summary;
mod tap;
mod tests_report;
mod xml;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod survival;

pub use coverage::{Coverage, Share};
pub use error::{Format, ReportError};
pub use findings::{Finding, Findings, Severity};
pub use summary::{Runner, TextSummary};
pub(crate) use tests_report::name_key;
pub use tests_report::{Counts, Status, TestCase, TestReport};
