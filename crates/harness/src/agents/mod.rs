//! The agents that Proctor can drive: one file (or folder) each, and this list.

mod adapter;
pub mod claude_code;
mod command;
mod null;
mod oracle;
mod plain;

use crate::agent::Adapter;

/// Every adapter there is, in the order in which `backend: auto` tries those with a CLI.
pub static ADAPTERS: &[&dyn Adapter] = &[
    &claude_code::ClaudeCode,
    &command::Command,
    &adapter::AdapterScript,
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
