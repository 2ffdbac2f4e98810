//! Linux: a subreaper that owns all descendants, `/proc`, signals as a descriptor.
#![allow(unsafe_code, reason = "libc calls; each says why it is sound")]

mod calls;
mod environment;
mod processes;
mod signals;

pub(super) use calls::{
    LOOK, MAX_RSS_UNIT, RECEIVE, SEND, adopt_orphans, become_user, die_with, open_memory,
    open_terminal, own_descendants, pipe, seal_descriptors,
};
pub(crate) use calls::{close_memory, this_executable};
pub(crate) use environment::hide_environment;
pub(super) use processes::{Identity, Processes, group_of, is_orphan, kill_children};
pub(super) use signals::ChildSignals;
