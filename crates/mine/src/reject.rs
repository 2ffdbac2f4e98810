//! Why a candidate does not become a task.

use serde::{Deserialize, Serialize};

/// The reason that a candidate is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reject {
    /// Every test that passes on the commit also passes before it.
    AlreadyGreen,
    /// The commit's own tests do not pass on the commit.
    NotGreen,
    /// The source part with the tests does not give the results of the commit.
    SplitWrong,
    /// The test command reports no results test by test.
    NoReport,
    /// The tests that decide do not have the same result every time.
    Flaky,
    /// A run of the tests takes longer than the limit.
    TooSlow,
    /// The tests need the network.
    NeedsNetwork,
    /// The commit changes dependencies or another part of the environment.
    EnvChanged,
    /// The source part has too many files or lines.
    TooLarge,
    /// An earlier candidate has the same change.
    Duplicate,
    /// Source and tests of a file cannot be separated.
    MixedHunk,
}

impl Reject {
    /// The name in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Reject::AlreadyGreen => "ALREADY_GREEN",
            Reject::NotGreen => "NOT_GREEN",
            Reject::SplitWrong => "SPLIT_WRONG",
            Reject::NoReport => "NO_REPORT",
            Reject::Flaky => "FLAKY",
            Reject::TooSlow => "TOO_SLOW",
            Reject::NeedsNetwork => "NEEDS_NETWORK",
            Reject::EnvChanged => "ENV_CHANGED",
            Reject::TooLarge => "TOO_LARGE",
            Reject::Duplicate => "DUPLICATE",
            Reject::MixedHunk => "MIXED_HUNK",
        }
    }
}

/// A reject code with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The code.
    pub code: Reject,
    /// The observation that led to it.
    pub evidence: String,
}

impl Rejection {
    /// A code with its evidence.
    pub fn new(code: Reject, evidence: impl Into<String>) -> Rejection {
        Rejection {
            code,
            evidence: evidence.into(),
        }
    }
}
