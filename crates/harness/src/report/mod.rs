//! Reports: from the records alone, the same bytes each time. `read` makes rows of records,
//! `Report` figures of rows, and the rest of the files text of figures. Why which figure:
//! `docs/design/statistics.md`; how to read them: `docs/reports.md`.

mod agent;
mod csv;
mod figures;
mod junit;
mod markdown;
mod model;
mod notes;
mod read;
mod task;
mod text;
mod trials;

pub use agent::{AgentReport, Figure, Role};
pub use csv::csv;
pub use figures::{count, dollars, millis};
pub use junit::junit;
pub use markdown::{escape, markdown};
pub use model::{Basis, REPORT_VERSION, Report, Totals, Unsettled};
pub use read::{NoTrials, read};
pub use task::{Cell, TaskReport};
pub use text::text;
pub use trials::{
    AgentRow, Component, RunRow, TaskRow, Trial, Trials, components_of, score_of, tame,
};
