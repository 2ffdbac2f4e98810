//! A run whose trials are jobs of a cluster. Each trial is submitted as its own process, and its
//! record on the shared file system is authoritative. The head can die, detach or be restarted at
//! any time.

mod coordinator;
mod lost_trials;
mod paths;
pub mod planner;
pub mod spec;
// Clusters run Linux; on other systems the simulation would only take time.
#[cfg(target_os = "linux")]
#[cfg(test)]
mod simulation;
pub mod slurm;

pub use self::coordinator::{QueueCount, queued, run_jobs};
