//! Figures from the records of runs: statistics, tables, pages, comparisons and gates. The same
//! records give the same bytes. May depend on `proctor-record` only.
//!
//! `read` converts records to rows, `Report` and `compare` convert rows to figures, and the other
//! modules convert figures to text. The choice of figures: `docs/dev/design/statistics.md`; how to
//! read them: `docs/reports.md`.

#![allow(
    missing_docs,
    reason = "internal crate: items are documented if the name is not enough"
)]

mod baseline;
pub mod calibration;
mod compare;
mod csv;
mod definitions;
pub mod experiment;
mod figures;
pub mod foreign;
mod gate;
mod gate_text;
mod html;
mod junit;
mod markdown;
mod markup;
mod model;
mod read;
mod results;
pub mod stats;
mod text;
mod trend;
mod trials;
mod versus;
mod youbencha;

#[cfg(test)]
mod tests;

pub use baseline::{Baseline, BaselineError, Overwrite};
pub use compare::{
    Change, Chosen, Metric, PairingError, Side, Versus, compare, compare_all, pair_up,
};
pub use csv::csv;
pub use definitions::DefinitionRow;
pub use figures::{count, dollars, millis};
pub use gate::{
    Answer, Attempts, Bound, ChangeRule, FlippedTask, GateError, GateRuns, Gated, LevelRule, Limit,
    OnUndecided, Rule, RuleError, RuleKind, Ruled, Ruling, TaskChange, decide, gate,
};
pub use html::{
    PageSize, compared_html, html, index_html, served_html, trial_entry_json, trial_json,
};
pub use junit::junit;
pub use markdown::{escape, markdown};
pub use model::{
    AgentReport, Basis, Cell, Figure, REPORT_VERSION, Report, Role, TaskReport, Totals, Unsettled,
    run_notes,
};
pub use read::{NoTrials, read};
pub use results::{NoResults, results_markdown, results_text};
pub use text::text;
pub use trend::{AgentTrend, Night, TREND_VERSION, TrendReport, TrendState, trends};
pub use trials::{
    AgentRow, Component, RegisteredPlan, RowSource, RunRow, TaskRow, Trial, Trials, components_of,
    score_of,
};
pub use versus::Compared;
pub use youbencha::results_youbencha;
