//! Reports: from the records alone, the same bytes each time. `read` makes rows of records,
//! `Report` and `compare` figures of rows, and the rest of the files text of figures. Why which
//! figure: `docs/dev/design/statistics.md`; how to read them: `docs/reports.md`.

mod agent;
mod baseline;
mod compare;
mod csv;
mod figures;
mod gate;
mod html;
mod junit;
mod markdown;
mod markup;
mod model;
mod notes;
mod read;
mod results;
mod task;
mod text;
mod trials;
mod versus;

#[cfg(test)]
mod tests;

pub use agent::{AgentReport, Figure, Role};
pub use baseline::{Baseline, BaselineError, Overwrite};
pub use compare::{
    Change, Chosen, Metric, PairingError, Scope, Side, Versus, compare, compare_all, pair_up,
};
pub use csv::csv;
pub use figures::{count, dollars, millis};
pub use gate::{Limit, Rule, RuleError, Ruled, Ruling, gate};
pub use html::html;
pub use junit::junit;
pub use markdown::{escape, markdown};
pub use model::{Basis, REPORT_VERSION, Report, Totals, Unsettled};
pub use read::{NoTrials, read};
pub use results::{NoResults, results_markdown, results_text};
pub use task::{Cell, TaskReport};
pub use text::text;
pub use trials::{
    AgentRow, Component, RowSource, RunRow, TaskRow, Trial, Trials, components_of, score_of, tame,
};
pub use versus::Compared;
