//! The roll call: tests that the untouched task has are still there when the work is judged. A work that
//! ends the runner early, or takes tests away, would else pass for want of tests that could fail.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Examiner, Results, Unread};
use crate::{
    evaluate::{reports::TestCase, slot::Slot},
    store::hex,
};

/// The tests of the untouched task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Roll {
    /// Their names; none where only a summary is printed.
    pub(super) names: Vec<String>,
    /// How many there are; 0 when that cannot be told, as of a task that does not build yet.
    pub(super) total: u64,
}

impl Roll {
    fn of(results: &Results) -> Roll {
        match results {
            Results::Report(report) => Roll {
                names: report.tests.iter().map(TestCase::full_name).collect(),
                total: report.counts().total(),
            },
            Results::Text(summary) => Roll {
                names: Vec::new(),
                total: summary.counts.total(),
            },
        }
    }
}

impl Examiner<'_> {
    /// Who has to answer. Nobody where only named tests count, where the tests are the work's own, and
    /// where nothing was changed.
    pub(super) async fn roll(&self) -> Result<Roll, String> {
        let base = self.judging.workspace.base_tree.as_str();
        let is_own = self.settings.unread == Unread::ExitCodeOfOwnTests;
        if is_own || !self.settings.wanted.is_empty() || self.judging.change.tree == base {
            return Ok(Roll::default());
        }
        // It is the same for all trials of the task in this run, until they are judged again.
        let desk = &self.judging.desk;
        let round = self.judging.evidence;
        let key = format!("{} {round} {base} {:?}", desk.run_id, self.settings);
        let key = hex(&Sha256::digest(key.as_bytes()));
        let slot = Slot::claim(&desk.cache.join("roll"), &key).await;
        let slot = slot.map_err(|error| format!("the cache of test names: {error}"))?;
        if let Some(roll) = slot.get(desk.kept_since) {
            return Ok(roll);
        }
        let attempt = self.attempt_elsewhere("-base", base).await?;
        let results = attempt.and_then(|attempt| attempt.results.ok());
        let roll = results.as_ref().map(Roll::of).unwrap_or_default();
        slot.put(&roll).map_err(|error| error.to_string())?;
        Ok(roll)
    }
}
