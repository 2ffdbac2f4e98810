//! Secrets: real keys that never appear in output, virtual keys, and the redactor.

mod redact;
mod secret;
mod virtual_key;

pub(crate) use redact::Redactor;
pub use secret::Secret;
pub use virtual_key::VirtualKey;
pub(crate) use virtual_key::{query_without_key, shown};
