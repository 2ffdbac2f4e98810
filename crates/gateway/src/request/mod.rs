//! Requests: what they ask for, and the changes that policies make to them.

mod change;
mod context;
pub(crate) mod headers;
mod policy;
mod scan;
mod server_tools;

pub(crate) use change::CheckedRequest;
pub(crate) use context::ContextObserver;
pub use context::ModelContext;
pub use policy::{NumberSetting, RequestPolicy};
pub use server_tools::ServerTools;
