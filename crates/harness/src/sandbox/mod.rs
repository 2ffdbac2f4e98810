//! Where trials execute when not on this machine's own file system.

pub mod docker;
