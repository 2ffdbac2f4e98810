//! The plan of an experiment, which is fixed before its first trial, and its results.

use serde::{Deserialize, Serialize};

use super::{
    analysis::{ExperimentError, ExperimentRequest, analyse, progress},
    result::{ExperimentResult, Registration},
};
use crate::{
    model::report::Basis,
    stats::{Quotas, Schedule, Step},
    trials::Trials,
};

/// Compares candidates with a baseline. Fixed before the first trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentPlan {
    /// The agent that the others are compared with.
    pub baseline: String,
    /// The others, in the order of the suite.
    pub candidates: Vec<String>,
    /// The analyses.
    pub schedule: Schedule,
}

impl ExperimentPlan {
    /// The number of trials of each task and agent that the experiment needs now, with those that
    /// exist. When no candidate needs further trials, they are those of the last analysis.
    pub fn quotas(&self, trials: &Trials) -> Result<Quotas, ExperimentError> {
        let mut quotas = Quotas::new();
        for candidate in &self.candidates {
            let now = progress(self.request(trials, candidate), &self.schedule)?;
            let needed = match now.step {
                Step::Continue => now.next.unwrap_or(now.used),
                _ => now.used,
            };
            for (task, number) in needed {
                let most = quotas.entry(task).or_default();
                *most = number.max(*most);
            }
        }
        Ok(quotas)
    }

    /// The result of each candidate.
    pub fn results(&self, trials: &Trials) -> Result<Vec<ExperimentResult>, ExperimentError> {
        let candidates = self.candidates.iter();
        candidates
            .map(|candidate| analyse(self.request(trials, candidate)))
            .collect()
    }

    fn request<'a>(&'a self, trials: &'a Trials, candidate: &'a str) -> ExperimentRequest<'a> {
        ExperimentRequest {
            trials,
            baseline: &self.baseline,
            candidate,
            schedule: Some(&self.schedule),
            margins: self.schedule.margins,
            basis: Basis::default(),
        }
    }
}

/// The results of the experiment of these trials; `None` if they are not those of a single run with
/// an experiment.
pub fn results_of(trials: &Trials) -> Option<Result<Vec<ExperimentResult>, ExperimentError>> {
    let [run] = trials.runs.as_slice() else {
        return None;
    };
    let registered = run.experiment.as_ref()?;
    let plan: ExperimentPlan = serde_json::from_value(registered.document.clone()).ok()?;
    let registration = registered.digest.as_ref().map(|digest| Registration {
        digest: digest.clone(),
        deviations: registered.deviations.clone(),
    });
    let with_registration = |result: ExperimentResult| ExperimentResult {
        registration: registration.clone(),
        ..result
    };
    let results = plan.results(trials);
    Some(results.map(|results| results.into_iter().map(with_registration).collect()))
}
