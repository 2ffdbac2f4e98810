//! The plan: test cases and suites resolved to trials that cannot be wrong any more.

mod cases;
mod entries;
mod filter;
mod policy;
mod run_plan;
mod suite;

pub use self::{
    cases::CaseOptions,
    filter::{Filter, NoMatch},
    policy::{Contender, Policy, Retry},
    run_plan::{Input, RunPlan, SameName, TrialPlan, auto_order},
    suite::{ResolvedSuite, load_kept_suite, load_suite, resolve_suite, suite_of_folders},
};
