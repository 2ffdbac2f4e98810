//! Runs on a real Slurm: a controller and three nodes on this machine. Slurm is for Linux.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod claude;
mod containers;
mod deaths;
mod limits;
mod support;
mod trials;
