//! The plan of a bisection: the versions, and how many trials it takes to judge one of them.

use proctor_report::{
    Trials,
    experiment::{BisectionRequest, SearchVersion},
};
use serde_json::{Value, json};

/// The fewest trials of one step. Simulations have as many.
const STEP_TRIALS: usize = 4;

/// Searches for the first version of an agent with fewer passed trials.
#[derive(Clone, Debug)]
pub struct BisectionPlan {
    /// The versions, oldest first.
    pub versions: Vec<SearchVersion>,
    /// The names of the tasks.
    pub tasks: Vec<String>,
    /// The smallest drop of the pass rate to search for.
    pub smallest_drop: f64,
    /// The most trials. It may change when the run is resumed.
    pub budget: u64,
}

impl BisectionPlan {
    /// The rounds of one step: each has a trial of every task.
    pub fn rounds(&self) -> usize {
        STEP_TRIALS.div_ceil(self.tasks.len().max(1))
    }

    /// The search, with the trials so far.
    pub fn request<'a>(&'a self, trials: &'a Trials) -> BisectionRequest<'a> {
        BisectionRequest {
            trials,
            versions: &self.versions,
            tasks: &self.tasks,
            budget: self.budget,
            smallest_drop: self.smallest_drop,
        }
    }

    /// The plan as stored with the run: a resumed run has to have the same one.
    pub(crate) fn document(&self) -> Value {
        json!({"bisection": {"versions": self.versions, "smallest_drop": self.smallest_drop}})
    }
}
