//! Tests of the Docker sandbox against a real engine, with the real binary as first process of every container,
//! which is a program of Linux.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "../attacks/mod.rs"]
mod table;

mod support;

mod attacks;
mod background;
mod ends;
mod images;
mod leftovers;
mod limits;
mod network;
mod remote;
mod streams;
mod trials;
