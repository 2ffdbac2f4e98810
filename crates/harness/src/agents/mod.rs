//! The agents that Proctor can drive: one file (or folder) each, and this list.

mod aider;
pub mod claude_code;
mod codex;
mod command;
mod copilot;
mod fault;
mod gemini_cli;
mod litellm;
mod mini_swe;
mod null;
mod opencode;
mod options;
mod oracle;
mod plain;
mod qwen_code;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod replay;
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
    &aider::Aider,
    &codex::Codex,
    &copilot::Copilot,
    &gemini_cli::GeminiCli,
    &mini_swe::MiniSwe,
    &opencode::OpenCode,
    &qwen_code::QwenCode,
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
