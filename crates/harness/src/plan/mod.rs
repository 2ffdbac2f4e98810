//! The plan: test cases and suites, resolved to validated trials.

mod bisection;
mod cases;
mod dataset_lock;
mod datasets;
mod definition;
mod entries;
mod experiment;
mod filter;
mod policy;
mod run_plan;
mod selection;
mod suite;
mod treatment;
mod vary;

pub(crate) use self::definition::of_task as define_task;
pub(crate) use self::experiment::CALIBRATION;
pub(crate) use self::treatment::claimed;
pub use proctor_report::experiment::ExperimentPlan;

pub use self::{
    bisection::BisectionPlan,
    cases::CaseOptions,
    dataset_lock::DatasetLock,
    datasets::{DatasetError, fetch_datasets, lock_suite, pin_source},
    definition::TrialDefinitions,
    entries::RefusedTask,
    filter::{Filter, NoMatch},
    policy::{Contender, Policy, Retry},
    run_plan::{Input, RunPlan, SameName, TrialPlan, auto_order},
    selection::Selection,
    suite::{ResolvedSuite, load_kept_suite, load_suite, resolve_suite, suite_of_folders},
    treatment::PlannedTreatment,
};
