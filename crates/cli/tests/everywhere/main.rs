//! Tests that run on Linux, macOS and Windows: agents and commands are fakes that play a script, so
//! that no shell is needed. Tests for a single system are under its `cfg`.

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
