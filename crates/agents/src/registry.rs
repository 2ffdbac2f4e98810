//! The list of adapters.

use crate::{
    agent::Adapter, aider, claude_code, codex, command, copilot, gemini_cli, mini_swe, null,
    opencode, oracle, qwen_code, thunderdome,
};

/// All adapters. `backend: auto` tries those with a CLI in this order.
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
