//! The report as one self-contained HTML page: figures and charts are markup, trials are data that
//! its script shows on demand. Text of agents is never markup, and the content security policy
//! allows no other script and no requests. A server can send the same page without the trials, which
//! the page then requests, and the list of runs.

mod charts;
mod detail;
mod index;
mod page;

pub use self::{
    index::index_html,
    page::{html, served_html, trial_json},
};
