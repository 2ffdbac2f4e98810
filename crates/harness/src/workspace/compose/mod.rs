//! Compose environments: the subset of the Compose specification that task sets use, as typed
//! values. Other keys are refused by name. The engine's side is `docker/services.rs` of the sandbox.

mod file;
mod model;
mod service;
#[cfg(test)]
mod tests;
mod values;
mod variables;

pub use file::{compose_file, read};
pub use model::{Compose, ComposeContext, ServiceImage, Sidecar};
