//! The gateway from outside: raw bytes in, raw bytes out, an upstream that can be told anything.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod abandoned;
mod budgets;
mod metering;
mod pages;
mod passing;
mod policies;
mod proxy;
mod recordings;
mod rough;
mod scripts;
mod secrets;
mod support;
mod tls;
