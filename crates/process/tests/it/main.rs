//! Processes end to end: real programs under a real supervisor, and nothing alive afterwards.
#![allow(clippy::disallowed_methods, reason = "the tests start drivers")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod ends;
mod escapes;
mod limits;
mod quick;
mod streams;
mod support;
