//! A call from its first byte to its settlement, with the body that carries it to the client.

mod abandoned;
mod active;
mod body;

pub(crate) use abandoned::{Billable, Pending};
pub(crate) use active::ActiveCall;
pub(crate) use body::Body;
