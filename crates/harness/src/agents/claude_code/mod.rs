//! Claude Code.

mod stream;
