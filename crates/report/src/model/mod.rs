//! Figures of rows: a report with its agents, tasks and notes.

pub(crate) mod agent;
pub(crate) mod notes;
pub(crate) mod report;
pub(crate) mod task;
pub(crate) mod treatments;

pub use agent::{AgentReport, Figure, Role};
pub use notes::run_notes;
pub use report::{Basis, REPORT_VERSION, Report, Totals, Unsettled};
pub use task::{Cell, TaskReport};
