//! Judging a trial: the agent's change, the verdicts of the evaluators, the status of the trial.

use proctor_record::{
    outcome::Outcome,
    record::{self, Event, Phase, TrialStatus, Verdict, VerdictStatus},
    session::LogError,
};

use super::{AgentRun, AgentWork, Judged, Site, Stage, Trial, chain};
use crate::{
    evaluate::{self, EVIDENCE, JudgeContext, Judging},
    workspace::{Change, Workspace},
};

impl Trial<'_> {
    /// Compares the workspace with the baseline and runs the evaluators.
    /// Excluded trials are not judged.
    pub(super) async fn judge(&mut self, run: AgentRun) -> Judged {
        let AgentRun { end, stage } = run;
        let outcome = end.conclusion.outcome;
        let site = stage.as_ref().map(|stage| &stage.site);
        let exit_code = self.conclude(end, site);
        let change = match site {
            Some(site) => self.change(&site.workspace).await,
            None => None,
        };
        self.phase(Phase::Judging);
        self.run_evaluators(outcome, site, change.as_ref()).await;
        self.note_step();
        Judged {
            outcome,
            exit_code,
            stage,
            change,
        }
    }

    /// Removes the container. The work remains.
    pub(super) async fn clear_stage(
        &mut self,
        stage: Option<Stage>,
        change: Option<Change>,
    ) -> Option<AgentWork> {
        let Site {
            exec_env,
            workspace,
            trial_dir,
        } = stage?.site;
        self.leave(exec_env).await;
        Some(AgentWork {
            workspace,
            change,
            trial_dir,
        })
    }

    async fn run_evaluators(
        &mut self,
        outcome: Outcome,
        site: Option<&Site>,
        change: Option<&Change>,
    ) {
        // A separate directory: build tools look for settings in all parent directories.
        let trial_dir = change
            .is_some()
            .then(|| evaluate::private_dir(self.context.host));
        for (number, evaluator) in self.plan.task.evaluators.iter().enumerate() {
            let verdict = match (site, change, &trial_dir) {
                _ if outcome.is_infrastructure() => {
                    evaluator.skipped(&format!("excluded: the outcome is {}", outcome.as_str()))
                }
                _ if self.context.cancel.is_cancelled() => {
                    let why = if self.context.cause.is_final() {
                        "the time limit of its job was reached; judge it with `proctor rescore`"
                    } else {
                        "the run was interrupted"
                    };
                    evaluator.skipped(&format!("excluded: {why}"))
                }
                (Some(site), Some(change), Some(Ok(trial_dir))) => {
                    let judging = Judging {
                        workspace: &site.workspace,
                        change,
                        reference: self.plan.task.reference.as_ref(),
                        usage: self.record.usage.as_ref(),
                        artifacts: &self.artifacts,
                        evidence: EVIDENCE,
                        scratch: &trial_dir.scratch,
                        sandbox: self.context.sandbox,
                        exec_env: &site.exec_env,
                        workdir: &self.workdir(site),
                        environment: self.plan.task.environment(),
                        host: self.context.host,
                        context: self.judge_context(),
                        cancel: self.context.cancel,
                    };
                    evaluator.judge(&judging, number + 1).await
                }
                (_, _, Some(Err(error))) => evaluator.broken(error),
                _ => evaluator.skipped("excluded: the agent's change is unknown"),
            };
            (self.context.listener)(&Event::judged(&verdict));
            self.record.verdicts.push(verdict);
        }
    }

    /// Compares the workspace with the baseline; `None` if the change cannot be determined.
    async fn change(&mut self, workspace: &Workspace) -> Option<Change> {
        let patch = self.artifacts.join(record::PATCH_FILE);
        match workspace.change(&patch).await {
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
    fn judge_context(&self) -> JudgeContext<'_> {
        let plan = self.plan;
        JudgeContext {
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
    let outcome = match outcome {
        Outcome::Interrupted => return TrialStatus::Interrupted,
        outcome if outcome.is_infrastructure() => return TrialStatus::Error,
        // As in Harbor, a reward counts however the agent ended.
        _ if verdicts.iter().any(Verdict::is_reward) => Outcome::Completed,
        outcome => outcome,
    };
    match outcome {
        Outcome::Completed if any(VerdictStatus::Failed) => TrialStatus::Failed,
        Outcome::Completed if is_cancelled => TrialStatus::Interrupted,
        Outcome::Completed if any(VerdictStatus::Error) || any(VerdictStatus::Skipped) => {
            TrialStatus::Error
        }
        Outcome::Completed => TrialStatus::Passed,
        _ => TrialStatus::Failed,
    }
}
