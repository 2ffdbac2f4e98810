//! Limits for agents that make no progress.

use std::time::Duration;

/// When an agent that makes no progress is ended; `None` means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressLimits {
    /// The longest time without a new event and without a changed file.
    pub quiet: Option<Duration>,
    /// How often in a row the agent may repeat the same action.
    pub repeats: Option<u32>,
}

impl ProgressLimits {
    /// These limits, with unset ones taken from `other`.
    #[must_use]
    pub fn or(self, other: ProgressLimits) -> ProgressLimits {
        ProgressLimits {
            quiet: self.quiet.or(other.quiet),
            repeats: self.repeats.or(other.repeats),
        }
    }
}
