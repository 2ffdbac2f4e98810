//! Files that an adapter script writes to the workspace and that are not part of its work: figures
//! are read after its end and kept with the artifacts.

use proctor_record::{
    fs::dir,
    outcome::Outcome,
    record::metrics_file::AgentMetrics,
    session::{Conclusion, LogError},
};

use super::{ContestantPlan, Trial, chain};
use crate::workspace::Workspace;

/// The name of the kept file.
pub(super) const KEPT: &str = "thunderdome-metrics.json";

impl Trial<'_> {
    /// Removes lines that an agent's tools add to `.gitignore`.
    pub(super) async fn remove_ignore_lines(
        &mut self,
        plan: ContestantPlan<'_>,
        workspace: &Workspace,
    ) {
        let lines = plan.agent.ignore_lines();
        if lines.is_empty() {
            return;
        }
        if let Err(error) = workspace.remove_lines(".gitignore", lines).await {
            self.note(format!("cannot restore `.gitignore`: {}", chain(&error)));
        }
    }

    /// Adds the figures to the session's conclusion. An invalid file is a warning.
    pub(super) fn read_metrics_file(
        &mut self,
        plan: ContestantPlan<'_>,
        workspace: &Workspace,
        conclusion: &mut Conclusion,
    ) {
        let Some(name) = plan.agent.sidecar() else {
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
        // The file is not part of the work. A file that cannot be moved is excluded from the change
        // as well.
        let _ = dir::rename(&path, self.artifacts.join(KEPT));
    }
}
