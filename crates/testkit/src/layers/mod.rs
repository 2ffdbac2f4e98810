//! Checks the import graph among the top-level modules of a crate.
//!
//! A test in each crate calls [`check`] with its layer order, or [`check_acyclic`] where an order adds
//! nothing. The graph is read from the source text, without a compiler, so it also covers code for
//! other platforms. Code behind `#[cfg(test)]` is ignored.

mod check;
mod imports;
mod tokens;

pub use check::{check, check_acyclic};
pub use imports::{Import, Imports};
