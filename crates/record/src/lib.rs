//! The data of a run, in memory and on disk: outcomes, usage, sessions, records, events, leases; and the file
//! helpers that they need. May depend on `proctor-process` only.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented if the name is not enough"
)]

/// The version of Proctor.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod error_chain;
pub mod fs;
pub mod outcome;
pub mod parallel_map;
pub mod platform;
pub mod record;
pub mod secrets;
pub mod session;
pub mod shuffle;
pub mod text;
pub mod transcript;
pub mod usage;
