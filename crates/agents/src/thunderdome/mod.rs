//! Agents driven by scripts under Thunderdome's contract.

mod script;

pub(super) use script::AdapterScript;
