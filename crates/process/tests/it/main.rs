//! Processes end to end: real programs under a real supervisor or in a real job, and nothing alive afterwards.
//!
//! `stories` are the same on every platform: their programs play scripts. The others test shells, signals and
//! `/proc`, which only Linux has all of.
#![allow(clippy::disallowed_methods, reason = "the tests start drivers")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod escapes;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod quick;
#[cfg(target_os = "linux")]
mod shell;
mod stories;
#[cfg(target_os = "linux")]
mod streams;
mod support;
#[cfg(windows)]
mod windows;
