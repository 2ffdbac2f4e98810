//! The agents that Proctor can drive, one module each. Adapters do no I/O: they define the command
//! and interpret its output. May depend on `proctor-record` and `proctor-document`.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented if the name is not enough"
)]

pub mod agent;
mod agentic_judge;
mod aider;
mod bypass;
pub mod claude_code;
mod cli;
mod codex;
mod command;
mod command_line;
mod copilot;
mod fault;
mod gemini_cli;
mod litellm;
mod mcp;
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
mod text_cap;
mod thunderdome;
mod tokens;
mod transcript;
mod verdict;

pub use agentic_judge::{AGENTIC_JUDGE, AGENTIC_JUDGE_NAME};
pub use mcp::mcp_servers;
pub use oracle::no_reference;
pub use registry::{ADAPTERS, find};
pub use switch::configure;
