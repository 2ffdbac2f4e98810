//! Sentinel tests: copies of the task's own tests, of which it is known whether they pass. Results that are
//! forged inside the test process give themselves away on copies that must fail, and code that
//! knows the task's tests by their names or files fails copies that must pass.

mod check;
mod definition;
mod expectation;
mod lexer;
mod plan;

pub(in crate::evaluate) use self::plan::{Edit, OwnFile};
pub(super) use self::{check::Checked, plan::own_files};
