//! `agentic-judge` and `rubric`: criteria judged by an agent or a model. An answer is valid only if
//! it covers all criteria and its quotes are found. A judge is valid only if it fails an empty
//! change and passes the reference solution.

mod answer;
mod ask;
mod criteria;
mod evidence;
mod request;
mod run;
mod settings;
mod shorten;
mod tally;
mod view;

pub(super) use self::run::{judge, rule_of};
pub(super) use self::settings::{JudgeSettings, Rule};
