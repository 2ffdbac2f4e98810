//! Rules that a run must keep: `rule` has their grammar, `decide` applies all of them. `level`
//! decides about absolute limits, `change` about limits relative to a baseline, and `tasks` about
//! each task over its repeats.

mod change;
mod decide;
mod level;
mod rule;
mod tasks;

pub(crate) use change::signed;
pub use change::{Ruled, Ruling, gate};
pub use decide::{Answer, GateError, GateRuns, Gated, OnUndecided, decide};
pub use rule::{Attempts, Bound, ChangeRule, LevelRule, Limit, Rule, RuleError, RuleKind};
pub use tasks::{FlippedTask, TaskChange};
