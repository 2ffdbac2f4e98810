//! Claude Code.

mod blocks;
mod event;
mod json;
mod message;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod usage;
mod verdict;

pub use self::stream::{AfterResult, ClaudeSession, Form};
