//! Claude Code.

mod blocks;
mod json;
mod message;
mod stream;
mod text;
mod usage;
mod verdict;

pub use self::stream::{AfterResult, ClaudeSession, Form};
