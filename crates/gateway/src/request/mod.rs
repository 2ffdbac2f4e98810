//! Requests: what they ask for, and the changes that policies make to them.

mod change;
mod context;
mod conversation;
pub(crate) mod headers;
mod policy;
mod remote_content;
mod scan;
mod server_tools;
mod watch;

pub(crate) use change::CheckedRequest;
pub(crate) use context::ContextObserver;
pub use context::ModelContext;
pub use conversation::RequestPart;
pub use policy::{NumberSetting, RequestPolicy};
pub use server_tools::ServerTools;
pub use watch::{Observation, Sighting, TextProbe, Watch, Watcher};
