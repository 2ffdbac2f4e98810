//! Judging a trial: the agent's change, the verdicts of the evaluators, the status of the trial.

use proctor_record::{
    outcome::Outcome,
    record::{self, Event, Phase, TrialStatus, Verdict, VerdictStatus},
    session::LogError,
};

use super::{AgentRun, Judged, Trial, chain};
use crate::{
    evaluate::{self, Desk, EVIDENCE, Judging},
    workspace::Change,
};

impl Trial<'_> {
    /// Compares the workspace with the baseline and runs the evaluators. Excluded trials are not
    /// judged.
    pub(super) async fn judge(&mut self, ran: &AgentRun) -> Judged {
        let outcome = ran.conclusion.outcome;
        let change = self.change().await;
        self.phase(Phase::Judging);
        let workdir = self.workdir();
        // A separate directory: build tools look for settings in all parent directories.
        let trial_dir = change
            .is_some()
            .then(|| evaluate::private_dir(self.context.host));
        for (number, evaluator) in self.plan.task.evaluators.iter().enumerate() {
            let verdict = match (&self.workspace, &change, &trial_dir) {
                _ if outcome.is_infrastructure() => {
                    evaluator.skipped(&format!("not judged: the outcome is {}", outcome.as_str()))
                }
                _ if self.context.cancel.is_cancelled() => {
                    let why = if self.context.cause.is_final() {
                        "the time limit of its job was reached; judge it with `proctor rescore`"
                    } else {
                        "the run was interrupted"
                    };
                    evaluator.skipped(&format!("not judged: {why}"))
                }
                (Some(workspace), Some(change), Some(Ok(trial_dir))) => {
                    let judging = Judging {
                        workspace,
                        change,
                        reference: self.plan.task.reference.as_ref(),
                        usage: self.record.usage.as_ref(),
                        artifacts: &self.artifacts,
                        evidence: EVIDENCE,
                        scratch: &trial_dir.scratch,
                        sandbox: self.context.sandbox,
                        exec_env: &self.exec_env,
                        workdir: &workdir,
                        environment: self.plan.task.environment(),
                        host: self.context.host,
                        desk: self.desk(),
                        cancel: self.context.cancel,
                    };
                    evaluator.judge(&judging, number + 1).await
                }
                (_, _, Some(Err(error))) => evaluator.broken(error),
                _ => evaluator.skipped("not judged: the agent's change is unknown"),
            };
            (self.context.listener)(&Event::judged(&verdict));
            self.record.verdicts.push(verdict);
        }
        Judged { change }
    }

    /// Compares the workspace with the baseline; `None` if the change cannot be determined.
    async fn change(&mut self) -> Option<Change> {
        let patch = self.artifacts.join(record::PATCH_FILE);
        match self.workspace.as_ref()?.change(&patch).await {
            Ok(change) => {
                self.record.notes.extend(change.notes.iter().cloned());
                self.record.diff = evaluate::diff_record(&change, &patch).ok();
                Some(change)
            }
            Err(error) => {
                let error = LogError::new("DIFF_FAILED", chain(&error));
                self.record.errors.push(error);
                None
            }
        }
    }

    /// The input of judges that are agents or models.
    fn desk(&self) -> Desk<'_> {
        let plan = self.plan;
        Desk {
            about: plan.task.about(),
            models: self.context.models,
            judges: self.context.judges,
            cache: self.context.cache,
            kept_since: None,
            run_id: self.context.run_id,
            label: record::trial_path(&plan.name, &plan.task.name, plan.number),
            run_trial: super::run_judge,
        }
    }
}

/// The status of the trial. The agent's own failure takes precedence over the evaluators.
pub(crate) fn status(outcome: Outcome, verdicts: &[Verdict], is_cancelled: bool) -> TrialStatus {
    let any = |status| verdicts.iter().any(|verdict| verdict.status == status);
    match outcome {
        Outcome::Interrupted => TrialStatus::Interrupted,
        outcome if outcome.is_infrastructure() => TrialStatus::Error,
        Outcome::Completed if any(VerdictStatus::Failed) => TrialStatus::Failed,
        Outcome::Completed if is_cancelled => TrialStatus::Interrupted,
        Outcome::Completed if any(VerdictStatus::Error) || any(VerdictStatus::Skipped) => {
            TrialStatus::Error
        }
        Outcome::Completed => TrialStatus::Passed,
        _ => TrialStatus::Failed,
    }
}
