//! Compares the gateway's account of a trial with the agent's own, and adds calls that only the
//! gateway observed.

pub(super) mod failed_call;
pub(super) mod unreported_calls;
