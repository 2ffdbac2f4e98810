//! The agents that Proctor can drive: one file (or folder) each, and this list.

mod aider;
mod claude_code;
mod command;
mod copilot;
mod fault;
mod litellm;
mod mini_swe;
mod null;
mod opencode;
mod options;
mod oracle;
mod plain;
#[cfg(test)]
mod replay;
mod tokens;
mod transcript;
mod verdict;

use crate::agent::Adapter;

/// Every adapter there is, in the order in which `backend: auto` tries those with a CLI.
pub static ADAPTERS: &[&dyn Adapter] = &[
    &claude_code::ClaudeCode,
    &aider::Aider,
    &copilot::Copilot,
    &mini_swe::MiniSwe,
    &opencode::OpenCode,
    &command::Command,
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
