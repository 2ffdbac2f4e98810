//! Claude Code: its settings, its command line, and its output.

mod adapter;
mod blocks;
pub mod control;
mod definitions;
mod event;
mod flags;
mod flat;
mod identity;
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
