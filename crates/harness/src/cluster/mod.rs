//! A run whose trials are jobs of a cluster: each is submitted as a program of its own, and its
//! record, on a file system that all machines see, is the truth. The head may die, be left or
//! come back at any time.

mod coordinator;
mod lost_trials;
mod paths;
pub mod planner;
pub mod spec;
// Heads and nodes are Linux; elsewhere it would only take its time.
#[cfg(target_os = "linux")]
#[cfg(test)]
mod simulation;
pub mod slurm;

pub use self::coordinator::{QueueCount, queued, run_jobs};
