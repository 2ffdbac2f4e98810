//! The story of a user on Linux, macOS or Windows, told by the same tests everywhere: agents and commands are
//! fakes that play a script, so that no shell is needed. What only one system has is told by tests under its `cfg`.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod commands;
mod ends;
mod places;
mod prompts;
mod records;
#[cfg(windows)]
mod shims;
mod suites;
mod support;
