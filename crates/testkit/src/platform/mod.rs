//! Differences of test helpers between Unix and Windows. Both files define the same functions.

mod signal_name;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use signal_name::SignalName;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
