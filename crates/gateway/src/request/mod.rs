//! Requests: what they ask for, and the changes that policies make to them.

mod context;
pub(crate) mod headers;
mod policy;
mod scan;
mod server_tools;

pub(crate) use context::ContextObserver;
pub use context::ModelContext;
pub(crate) use policy::CheckedRequest;
pub use policy::{Policy, Setting};
pub use server_tools::ServerTools;
