//! Claude Code: what the user may set, how the CLI is run, how its output is read.

mod adapter;
mod blocks;
pub mod control;
mod definitions;
mod event;
mod flags;
mod flat;
mod json;
mod message;
mod settings;
pub mod stream;
#[cfg(test)]
mod tests;
mod text;
mod usage;
mod verdict;

pub use self::adapter::ClaudeCode;
