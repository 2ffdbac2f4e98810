//! Judges the trials of a run again, from their records: the base, the patch and the task. No agent
//! runs. Earlier verdicts are kept in the record.

mod foreign;
mod run;
mod trial;

pub use self::run::{
    Answers, Definitions, NotJudged, Rating, Rescore, RescoreError, RescoreSummary, Rescored, Which,
};
use self::run::{RescoreContext, RescoreOutcome, Tasks, summary};
