//! Judges that are agents, run as trials of their own.

use super::{Cause, Context};
use crate::{
    config::KeepWorkspace,
    evaluate::{JudgeFuture, JudgeTrial},
    record::run_event::RunEvent,
    workspace::Bases,
};

/// Runs a judge as a trial. The future is boxed: trials judge, and judges are trials.
pub(crate) fn run_judge(trial: JudgeTrial<'_>) -> JudgeFuture<'_> {
    Box::pin(async move {
        let judging = trial.judging;
        let quiet = |_: &RunEvent<'_>| {};
        let context = Context {
            host: judging.host,
            sandbox: judging.sandbox,
            models: trial.models,
            pass_through: &[],
            keep_workspace: KeepWorkspace::None,
            judges: None,
            cache: judging.desk.cache,
            bases: &Bases::default(),
            run_id: judging.desk.run_id,
            folder: trial.folder,
            listener: &quiet,
            cancel: judging.cancel,
            cause: &Cause::default(),
        };
        let ran = Box::pin(super::run(trial.plan, &context)).await;
        Ok(ran?)
    })
}
