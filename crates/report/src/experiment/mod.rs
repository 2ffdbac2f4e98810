//! Experiments: from the trials of two agents of a run to one decision, its evidence, and one
//! sentence for each metric.

mod analysis;
mod estimate;
mod plan;
mod result;
mod text;

#[cfg(test)]
mod tests;

pub use analysis::{ExperimentError, ExperimentRequest, analyse, progress};
pub use estimate::{Estimate, estimate};
pub use plan::{ExperimentPlan, results_of};
pub use result::{
    EXPERIMENT_VERSION, ExperimentResult, ExperimentStage, FlippedTasks, MetricResult,
    Registration, SolvedCost,
};
