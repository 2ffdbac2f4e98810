//! The agents that Proctor can drive, one module each. Adapters do no I/O: they say what to run and interpret its
//! output. May depend on `proctor-record` and `proctor-document`.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented where the name does not say it all"
)]

pub mod agent;
mod aider;
pub mod claude_code;
mod cli;
mod codex;
mod command;
mod command_line;
mod copilot;
mod fault;
mod gemini_cli;
mod litellm;
mod mini_swe;
mod model_name;
mod null;
mod opencode;
mod oracle;
mod plain;
mod qwen_code;
mod reader;
mod registry;
#[cfg(test)]
mod replay;
mod setting;
mod switch;
mod thunderdome;
mod tokens;
mod transcript;
mod verdict;

pub use registry::{ADAPTERS, find};
pub use switch::configure;
