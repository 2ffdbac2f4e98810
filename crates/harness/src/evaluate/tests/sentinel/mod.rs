//! Sentinel tests: copies of the task's own tests with known results. Results that are forged
//! inside the test process are revealed by copies that must fail. Code that recognizes the task's
//! tests by name or file fails copies that must pass.

mod check;
mod definition;
mod expectation;
pub(in crate::evaluate) mod lexer;
mod plan;

pub(in crate::evaluate) use self::plan::{Edit, OwnFile};
pub(super) use self::{check::Checked, plan::own_files};
