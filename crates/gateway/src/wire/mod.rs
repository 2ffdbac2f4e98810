//! How answers look on the wire of each provider: one file each.

pub(crate) mod anthropic;
