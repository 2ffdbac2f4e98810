//! The report as one self-contained HTML page: figures and charts are markup, trials are data that
//! its script shows on demand. Text of agents is never markup, and the content security policy
//! allows no other script and no requests. A server can send the same page without the trials, which
//! the page then requests, and the list of runs.

mod bounded;
mod calls;
mod charts;
mod compared;
mod detail;
mod index;
mod page;
mod session;
mod shell;

pub use self::{
    compared::compared_html,
    index::index_html,
    page::{PageSize, html, served_html, trial_entry_json, trial_json},
};
