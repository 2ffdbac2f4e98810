//! The analyses of a run's experiment, from its records.

use camino::Utf8Path;
use proctor_report::{
    Basis, NoTrials, Trials,
    experiment::{ExperimentError, ExperimentRequest, ExperimentResult, analyse, progress},
    stats::Step,
};

use crate::plan::ExperimentPlan;

/// The reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// The run has no trial.
    #[error(transparent)]
    NoTrials(#[from] NoTrials),
    /// The trials cannot be analysed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

/// The result of each candidate, by the trials that the run has now.
pub fn results(plan: &ExperimentPlan, run: &Utf8Path) -> Result<Vec<ExperimentResult>, NoResult> {
    let trials = proctor_report::read(&[run.to_owned()])?;
    let candidates = plan.candidates.iter();
    let results = candidates.map(|candidate| Ok(analyse(request(plan, &trials, candidate))?));
    results.collect()
}

/// Whether no candidate needs further trials. A run without readable trials continues: the next
/// analysis sees them.
pub(super) fn is_settled(plan: &ExperimentPlan, run: &Utf8Path) -> bool {
    let Ok(trials) = proctor_report::read(&[run.to_owned()]) else {
        return false;
    };
    plan.candidates.iter().all(|candidate| {
        let now = progress(request(plan, &trials, candidate), &plan.schedule);
        now.is_ok_and(|now| now.step != Step::Continue)
    })
}

fn request<'a>(
    plan: &'a ExperimentPlan,
    trials: &'a Trials,
    candidate: &'a str,
) -> ExperimentRequest<'a> {
    ExperimentRequest {
        trials,
        baseline: &plan.baseline,
        candidate,
        schedule: Some(&plan.schedule),
        margins: plan.schedule.margins,
        basis: Basis::default(),
    }
}
