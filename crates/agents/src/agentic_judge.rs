//! The custom agent `agentic-judge`, for projects that have none of this name.

/// Its definition.
pub const AGENTIC_JUDGE: &str = include_str!("agentic-judge.md");
/// Its name.
pub const AGENTIC_JUDGE_NAME: &str = "agentic-judge";
