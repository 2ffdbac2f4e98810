//! The report as one self-contained HTML page: figures and charts are markup, trials are data that
//! its script shows on demand. Text of agents is never markup, and the content security policy
//! allows no other script and no requests.

mod charts;
mod detail;
mod page;

pub use self::page::html;
