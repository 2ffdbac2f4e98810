//! End-to-end tests of the gateway: raw bytes in and out, with a programmable upstream.

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
