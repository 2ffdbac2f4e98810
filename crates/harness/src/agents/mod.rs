//! The agents that Proctor can drive: one file (or folder) each, and this list.

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
mod null;
mod opencode;
mod oracle;
mod plain;
mod qwen_code;
mod reader;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod replay;
mod setting;
mod switch;
mod thunderdome;
mod tokens;
mod transcript;
mod verdict;

pub use self::switch::configure;
use crate::agent::Adapter;

/// Every adapter there is, in the order in which `backend: auto` tries those with a CLI.
pub static ADAPTERS: &[&dyn Adapter] = &[
    &claude_code::ClaudeCode,
    &aider::AIDER,
    &codex::CODEX,
    &copilot::COPILOT,
    &gemini_cli::GEMINI,
    &mini_swe::MINI,
    &opencode::OPENCODE,
    &qwen_code::QWEN,
    &command::Command,
    &thunderdome::AdapterScript,
    &oracle::Oracle,
    &null::Null,
];

/// The adapter for `agent.type: name`.
pub fn find(name: &str) -> Option<&'static dyn Adapter> {
    ADAPTERS
        .iter()
        .copied()
        .find(|adapter| adapter.name() == name)
}
