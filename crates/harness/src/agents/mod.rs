//! The agents that Proctor can drive: one file (or folder) each, and this list.

pub mod claude_code;
