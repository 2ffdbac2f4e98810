//! The keys of a gateway: what each may do, and its account.

mod bounds;
mod host_rules;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod key;

pub(crate) use bounds::shrink;
pub use key::KeySpec;
pub(crate) use key::{Key, Keys, Playbacks};
