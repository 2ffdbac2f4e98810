//! Files that an adapter script left in the workspace and that are not its work: its figures are
//! read once it has ended, and kept with the artifacts.

use super::{Trial, chain};
use crate::{
    fs::dir,
    outcome::Outcome,
    record::metrics_file::AgentMetrics,
    session::{Conclusion, LogError},
};

/// Where the file is kept.
pub(super) const KEPT: &str = "thunderdome-metrics.json";

impl Trial<'_> {
    /// Take lines that an agent's tools add to `.gitignore` out of it.
    pub(super) async fn remove_ignore_lines(&mut self) {
        let lines = self.current().agent.ignore_lines();
        let Some(workspace) = self.workspace.as_ref().filter(|_| !lines.is_empty()) else {
            return;
        };
        if let Err(error) = workspace.remove_lines(".gitignore", lines).await {
            self.note(format!(
                "`.gitignore` is as the agent left it: {}",
                chain(&error)
            ));
        }
    }

    /// Add the figures to what the session concluded. A file that cannot be used is a warning.
    pub(super) fn read_sidecar(&mut self, conclusion: &mut Conclusion) {
        let (Some(name), Some(workspace)) = (self.current().agent.sidecar(), &self.workspace)
        else {
            return;
        };
        let path = workspace.path().join(name);
        match AgentMetrics::read(&workspace.files, name) {
            Ok(None) => return,
            Ok(Some(sidecar)) => {
                let was_cut_off = conclusion.outcome != Outcome::Completed;
                conclusion.turns = conclusion.turns.or(sidecar.turns);
                if conclusion.usage.is_none() {
                    conclusion.usage = sidecar.usage().map(|mut usage| {
                        usage.lower_bound = was_cut_off;
                        usage
                    });
                }
                self.record.sidecar = Some(sidecar);
            }
            Err(problem) => {
                let message = format!("{name} {problem}; its figures are unknown");
                let warning = LogError::new("SIDECAR_INVALID", message);
                conclusion.errors.push(warning);
            }
        }
        // It is not part of the work; a file that cannot be moved is excluded from the change as
        // well.
        let _ = dir::rename(&path, self.artifacts.join(KEPT));
    }
}
