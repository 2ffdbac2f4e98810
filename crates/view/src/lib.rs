//! A local web server for the pages of runs. It reads records only, so that it shows local, remote
//! and finished runs alike, and it writes nothing but requests to runs that go on. May depend on `proctor-record` and
//! `proctor-report` only.
//!
//! `access` decides about requests, `route` reads them, `library` has the runs, `search` looks
//! into sessions, `pulse` follows a run that goes on, and `server` speaks HTTP.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented if the name is not enough"
)]

mod access;
mod library;
mod pulse;
mod route;
mod search;
mod server;

pub use access::Access;
pub use library::Library;
pub use server::serve;
