//! Experiments: from the trials of two agents of a run to one decision, its evidence, and one
//! sentence for each metric. Ablations and bisections do the same for many variants.

mod ablation;
mod analysis;
mod bisection;
mod estimate;
mod plan;
mod result;
mod text;

#[cfg(test)]
mod tests;

pub use ablation::{
    ABLATION_VERSION, AblatedPart, AblationRequest, AblationResult, PartDelta, PartResult,
    analyse_ablation,
};
pub use analysis::{ExperimentError, ExperimentRequest, analyse, progress};
pub use bisection::{
    BISECTION_VERSION, BisectionRequest, BisectionResult, SearchState, SearchVersion,
    VersionEvidence, search_state,
};
pub use estimate::{Estimate, estimate};
pub use plan::{ExperimentPlan, results_of};
pub use result::{
    EXPERIMENT_VERSION, ExperimentResult, ExperimentStage, FlippedTasks, MetricResult,
    Registration, SolvedCost,
};
